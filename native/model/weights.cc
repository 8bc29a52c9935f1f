// Computes the size of all weight slots and fills them. The list of slots is in weight_slots.cc.
#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/gguf/parser.h"
#include "formats/gguf/read_ahead.h"

namespace monolith {
namespace {

// Returns the number of bytes that a vector takes in the backend's memory.
size_t vector_bytes(const WeightSlot& slot) { return static_cast<size_t>(slot.cols) * sizeof(float); }

constexpr int kCollapseRounds = 3;

// The range of bytes that a slot reads from its tensor.
struct Part {
  size_t offset, size;
};
Part part_of(const WeightSlot& slot) {
  if (slot.heads.n_heads > 0) return {0, slot.tensor->bytes()};
  const TensorTypeTraits& traits = traits_of(slot.tensor->type);
  const auto bytes = [&traits](int64_t values) {
    return static_cast<size_t>(values / traits.block_values * traits.block_bytes);
  };
  const int64_t before = slot.vector != nullptr ? slot.first : slot.first * slot.cols;
  return {bytes(before), bytes(slot.rows * slot.cols)};
}

// Returns the byte range of run `i`, for a slot whose rows consist of several runs.
Part part_of_run(const WeightSlot& slot, int64_t i) {
  WeightSlot run = {.name = {}, .rows = slot.rows / slot.runs, .cols = slot.cols};
  run.first = slot.first + i * slot.run_stride;
  run.tensor = slot.tensor;
  return part_of(run);
}

// Reads a slot whose rows consist of several runs, and concatenates the runs in `gathered`.
std::span<const std::byte> read_runs(const GgufFile& file, const WeightSlot& slot, std::vector<std::byte>& gathered,
                                     std::vector<std::byte>& scratch) {
  gathered.clear();
  for (int64_t i = 0; i < slot.runs; ++i) {
    const Part part = part_of_run(slot, i);
    const std::span<const std::byte> bytes = file.read(*slot.tensor, part.offset, part.size, scratch);
    gathered.insert(gathered.end(), bytes.begin(), bytes.end());
  }
  return gathered;
}

// Returns the ranges of the file that load_weights() reads for a slot.
ReadAhead::Piece places_of(const WeightSlot& slot) {
  if (slot.tensor->source != nullptr) return slot.tensor->source->places();
  ReadAhead::Piece places;
  for (int64_t i = 0; i < slot.runs; ++i) {
    const Part part = slot.runs > 1 ? part_of_run(slot, i) : part_of(slot);
    places.push_back(slot.tensor->data.subspan(part.offset, part.size));
  }
  return places;
}

size_t slot_bytes(const WeightSlot& slot, const BackendMemory& backend) {
  if (slot.numbers != nullptr) return static_cast<size_t>(slot.cols) * sizeof(int32_t);
  return slot.vector != nullptr ? vector_bytes(slot)
                                : backend.matrix_bytes(slot.kept_as(backend), slot.rows, slot.cols) +
                                      (slot.scale != nullptr && backend.supports(MemoryFeature::kRowFactors).ok()
                                           ? backend.factor_bytes(slot.rows)
                                           : 0);
}

// Returns the factor for each row of a slot. Empty if the slot has no factors.
Result<std::vector<float>> factors_of(const GgufFile& file, const WeightSlot& slot, std::vector<std::byte>& scratch) {
  if (slot.scale == nullptr) return std::vector<float>();
  std::vector<float> scales(static_cast<size_t>(slot.scale->n_values()));
  const std::span<const std::byte> data = file.read(*slot.scale, 0, slot.scale->bytes(), scratch);
  dequantize(slot.scale->type, data.data(), slot.scale->n_values(), scales.data());
  for (const float scale : scales)
    if (!std::isfinite(scale))
      return Error{ErrorCode::kInvalidFile,
                   "tensor " + in_quotes(slot.scale->name) + " contains a value that is not finite"};
  std::vector<float> factors(static_cast<size_t>(slot.rows), scales[0]);
  const int64_t of_run = slot.rows / slot.runs;
  for (int64_t row = 0; row < slot.rows && scales.size() > 1; ++row) {
    const int64_t in_tensor = slot.first + row / of_run * slot.run_stride + row % of_run;
    factors[static_cast<size_t>(row)] = scales[static_cast<size_t>(in_tensor / slot.shape[1])];
  }
  return factors;
}

// Returns the rows as floats, each multiplied by its factor.
std::vector<std::byte> widened_rows(const WeightSlot& slot, TensorType type, std::span<const std::byte> data,
                                    std::span<const float> factors) {
  std::vector<std::byte> bytes(static_cast<size_t>(slot.rows * slot.cols) * sizeof(float));
  auto* const to = reinterpret_cast<float*>(bytes.data());
  dequantize(type, data.data(), slot.rows * slot.cols, to);
  for (int64_t row = 0; row < slot.rows && !factors.empty(); ++row)
    for (int64_t i = 0; i < slot.cols; ++i) to[row * slot.cols + i] *= factors[static_cast<size_t>(row)];
  return bytes;
}

// Builds the matrix of a slot with a HeadPart from the data of the whole tensor. The padding is zero.
std::vector<std::byte> head_rows(const WeightSlot& slot, std::span<const std::byte> data) {
  const HeadPart& heads = slot.heads;
  const GgufTensor& tensor = *slot.tensor;
  const TensorTypeTraits& traits = traits_of(tensor.type);
  // `values`: number of elements per tensor row. `padded`: number of rows per head, including padding rows.
  const int64_t values = slot.shape[0], padded = slot.rows / heads.n_heads;
  const auto row_bytes = static_cast<size_t>(values / traits.block_values * traits.block_bytes);
  const auto from_row = [&](int64_t head, int64_t row) {
    return data.data() + static_cast<size_t>(head * heads.of_rows + heads.first + row) * row_bytes;
  };
  if (!heads.transposed) {
    std::vector<std::byte> rows(static_cast<size_t>(slot.rows) * row_bytes);
    for (int64_t head = 0; head < heads.n_heads; ++head)
      std::memcpy(rows.data() + static_cast<size_t>(head * padded) * row_bytes, from_row(head, 0),
                  static_cast<size_t>(heads.rows) * row_bytes);
    return rows;
  }
  std::vector<std::byte> rows(static_cast<size_t>(slot.rows * slot.cols) * sizeof(float));
  auto* const to = reinterpret_cast<float*>(rows.data());
  std::vector<float> row(static_cast<size_t>(values));
  for (int64_t head = 0; head < heads.n_heads; ++head)
    for (int64_t i = 0; i < heads.rows; ++i) {
      dequantize(tensor.type, from_row(head, i), values, row.data());
      for (int64_t j = 0; j < values; ++j) to[(head * padded + j) * slot.cols + i] = row[static_cast<size_t>(j)];
    }
  return rows;
}

// Transposes the matrix at the start of `values`.
void transpose(std::vector<float>& values, int64_t rows, int64_t cols) {
  const std::vector<float> from(values.begin(), values.begin() + rows * cols);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < cols; ++i)
      values[static_cast<size_t>(i * rows + row)] = from[static_cast<size_t>(row * cols + i)];
}

// Loads a table of integers. The values are checked because they are used as expert IDs or token IDs.
Status load_numbers(const WeightSlot& slot, std::span<const std::byte> data) {
  slot.numbers->resize(static_cast<size_t>(slot.cols));
  const bool wide = slot.tensor->type == TensorType::kI64;
  for (size_t i = 0; i < slot.numbers->size(); ++i) {
    int64_t number = 0;
    if (wide) {
      std::memcpy(&number, data.data() + i * sizeof number, sizeof number);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, data.data() + i * sizeof narrow, sizeof narrow);
      number = narrow;
    }
    (*slot.numbers)[i] = static_cast<int32_t>(number);
    if (number < 0 || number >= slot.most)
      return Error{ErrorCode::kInvalidFile, "tensor '" + slot.name + "' holds " + std::to_string(number) +
                                                " at index " + std::to_string(i) + ", expected 0 to " +
                                                std::to_string(slot.most - 1)};
  }
  return {};
}

}  // namespace

Status fit_types(std::vector<WeightSlot>& slots, const Backend& backend) {
  for (WeightSlot& slot : slots) {
    if (slot.matrix == nullptr) continue;
    if (slot.tensor->type == TensorType::kF8Scaled && !backend.supports(TensorType::kF8Scaled)) {
      auto floats = std::make_shared<GgufTensor>(*slot.tensor);
      floats->type = slot.tensor->source->maker->float_type();
      slot.floats = std::move(floats);
      slot.tensor = slot.floats.get();
    }
    if (!backend.supports(slot.kept_as(backend))) {
      return Error{ErrorCode::kUnsupported,
                   "tensor " + in_quotes(slot.name) + " has type " + std::string(traits_of(slot.tensor->type).name) +
                       ", which is only supported on the CPU, but the device is " + backend.info().name};
    }
    if (!slot.tensor->fp8 || backend.supports(MemoryFeature::kFp8Weights)) continue;
    return Error{ErrorCode::kUnsupported,
                 "'quantize' is fp8, which requires a CUDA device, but the device is " + backend.info().name};
  }
  return {};
}

size_t weight_bytes(const std::vector<WeightSlot>& slots, const BackendMemory& backend) {
  size_t total = 0;
  for (const WeightSlot& slot : slots) total += slot_bytes(slot, backend);
  return total;
}

size_t weight_memory(const std::vector<WeightSlot>& slots, const BackendMemory& backend) {
  size_t total = 0;
  for (const WeightSlot& slot : slots) total += backend.memory_of(slot_bytes(slot, backend));
  return total;
}

Status load_weights(const GgufFile& file, std::vector<WeightSlot>& slots, BackendMemory& backend,
                    const Model::Progress& progress, size_t& allocated) {
  size_t total = 0, done = 0;
  int64_t longest_vector = 0;
  for (const WeightSlot& slot : slots) {
    total += part_of(slot).size;
    if (slot.vector != nullptr) longest_vector = std::max(longest_vector, slot.cols);
  }
  // If the memory cannot hold the whole file in the page cache in addition to the weights, cached pages prevent the
  // allocation of huge pages. In that case, the file is first dropped from the cache, which frees large contiguous
  // regions of memory. Reading parts of the file again costs less than the huge pages gain.
  const bool crowded = !file.fits_beside(weight_bytes(slots, backend));
  if (crowded) file.leave_cache();
  std::vector<ReadAhead::Piece> pieces;
  for (const WeightSlot& slot : slots) pieces.push_back(places_of(slot));
  ReadAhead ahead(file, std::move(pieces));
  std::vector<float> decoded(static_cast<size_t>(longest_vector));
  std::vector<std::byte> scratch, gathered, scaled;
  for (WeightSlot& slot : slots) {
    const auto index = static_cast<size_t>(&slot - slots.data());
    ahead.use(index);
    const GgufTensor& tensor = *slot.tensor;
    const Part part = part_of(slot);
    const std::span<const std::byte> data =
        slot.runs > 1 ? read_runs(file, slot, gathered, scratch) : file.read(tensor, part.offset, part.size, scratch);
    if (slot.numbers != nullptr) {
      if (Status status = load_numbers(slot, data); !status) return status;
      allocated += slot_bytes(slot, backend);
    } else if (slot.vector != nullptr) {
      auto memory = backend.allocate(slot.cols);
      if (!memory) return memory.error();
      dequantize(tensor.type, data.data(), slot.cols, decoded.data());
      if (slot.transposed) transpose(decoded, slot.shape[1], slot.shape[0]);
      backend.write_floats(*memory, decoded.data(), slot.cols);
      *slot.vector = *memory;
      allocated += vector_bytes(slot);
    } else {
      std::vector<std::byte> heads;
      if (slot.heads.n_heads > 0) heads = head_rows(slot, data);
      auto factors = factors_of(file, slot, scaled);
      if (!factors) return factors.error();
      MatrixSource source = {slot.heads.transposed ? TensorType::kF32 : tensor.type,
                             slot.rows,
                             slot.cols,
                             slot.heads.n_heads > 0 ? std::span<const std::byte>(heads) : data,
                             tensor.fp8,
                             *factors};
      std::vector<std::byte> wide;
      if (slot.is_widened(backend)) {
        wide = widened_rows(slot, source.type, source.data, *factors);
        source = {TensorType::kF32, slot.rows, slot.cols, wide, tensor.fp8};
      }
      source.stacked = slot.shape[2] > 1 || slot.heads.n_heads > 0;
      auto matrix = backend.matrix(source);
      if (!matrix) return Error{matrix.error().code, "tensor '" + slot.name + "': " + matrix.error().message};
      *slot.matrix = std::move(*matrix);
      allocated += (*slot.matrix)->bytes;
    }
    // Once the repacked copy exists, the original in the mapped file is not read any more. Without this call, both
    // would count as resident memory.
    ahead.finish(index);
    for (int64_t i = 0; i < slot.runs; ++i) {
      const Part run = slot.runs > 1 ? part_of_run(slot, i) : part;
      file.give_back(tensor, run.offset, run.size, crowded);
    }
    done += part.size;
    if (progress)
      progress(total == 0 ? 1.0f : static_cast<float>(static_cast<double>(done) / static_cast<double>(total)));
  }
  return {};
}

size_t collapse_huge_pages(std::span<const Matrix* const> matrices, BackendMemory& backend, const Stopped& stopped) {
  size_t collapsed = 0, before = 0;
  // Memory that the system frees during one round may allow more pages to be converted in the next.
  for (int round = 0; round < kCollapseRounds && (round == 0 || collapsed > before); ++round) {
    before = collapsed;
    collapsed = 0;
    for (const Matrix* const matrix : matrices) collapsed += backend.collapse_huge_pages(*matrix, stopped);
    if (stopped()) return std::max(before, collapsed);
  }
  return collapsed;
}

}  // namespace monolith
