#include "formats/gguf/tensor_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/half.h"
#include "formats/gguf/quantize.h"

namespace monolith {
namespace {

// Number of values that a RowMaker produces per call, rounded down to whole rows, but at least one row. Some makers
// read a whole matrix even if only a few rows are requested; large calls amortize this cost.
constexpr int64_t kValuesAtOnce = 1 << 18;

// Minimum number of values per thread; with fewer values, starting a thread costs more than it saves.
constexpr int64_t kValuesPerThread = 1 << 18;

// Bytes per row as stored in the source.
size_t bytes_of_row(const TensorSource& source) {
  if (source.type == TensorType::kMXFP4) return static_cast<size_t>(source.cols) / 2;
  return static_cast<size_t>(source.cols) * static_cast<size_t>(traits_of(source.type).block_bytes);
}

// Writes `values` as F32, F16 or BF16.
void write_floats(const std::vector<float>& values, int64_t count, TensorType type, std::byte* out) {
  if (type == TensorType::kF32) {
    std::memcpy(out, values.data(), static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i, out += sizeof(uint16_t)) {
    const float value = values[static_cast<size_t>(i)];
    const uint16_t bits = type == TensorType::kF16 ? float_to_half(value) : float_to_bfloat16(value);
    std::memcpy(out, &bits, sizeof bits);
  }
}

class Reader {
 public:
  Reader(const TensorSource& source, TensorType type)
      : source_(source), type_(type), row_bytes_(bytes_of_row(source)), copied_(type == source.type) {
    for (const auto part : source.parts) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + static_cast<int64_t>(part.size() / row_bytes_));
    }
  }

  void read(int64_t first, int64_t count, std::byte* out) const {
    source_.maker != nullptr ? make(first, count, out) : gather(first, count, out);
  }

  size_t stored_row_bytes() const {
    const TensorTypeTraits& traits = traits_of(type_);
    return static_cast<size_t>(source_.cols / traits.block_values * traits.block_bytes);
  }

 private:
  void make(int64_t first, int64_t count, std::byte* out) const {
    const int64_t most = std::max<int64_t>(kValuesAtOnce / source_.cols, 1);
    std::vector<float> values(copied_ ? 0 : static_cast<size_t>(std::min(most, count) * source_.cols));
    for (int64_t done = 0; done < count; done += most) {
      const int64_t rows = std::min(most, count - done);
      if (copied_) {
        source_.maker->store(first + done, rows, out);
      } else {
        source_.maker->make(first + done, rows, values.data());
        traits_of(type_).block_values == 1 ? write_floats(values, rows * source_.cols, type_, out)
                                           : quantize(type_, values.data(), rows * source_.cols, out);
      }
      out += static_cast<size_t>(rows) * stored_row_bytes();
    }
  }

  void gather(int64_t first, int64_t count, std::byte* out) const {
    std::vector<float> values(copied_ ? 0 : static_cast<size_t>(source_.cols));
    const size_t stored = stored_row_bytes();
    for (int64_t row = first; row < first + count; ++row, out += stored) {
      if (source_.type == TensorType::kMXFP4) {
        pack_mxfp4(row * source_.row_step + source_.first_row, out);
        continue;
      }
      const std::byte* from = row_of(row);
      if (copied_) {
        std::memcpy(out, from, stored);
        continue;
      }
      dequantize(source_.type, from, source_.cols, values.data());
      quantize(type_, values.data(), source_.cols, out);
    }
  }

  // Writes MXFP4 blocks in GGUF's layout: a scale, then 16 bytes, of which byte i holds values i and i + 16.
  void pack_mxfp4(int64_t row, std::byte* out) const {
    const size_t blocks = static_cast<size_t>(source_.cols) / 32;
    const std::byte* pairs = source_.parts[0].data() + static_cast<size_t>(row) * row_bytes_;
    const std::byte* scales = source_.scales.data() + static_cast<size_t>(row) * blocks;
    for (size_t block = 0; block < blocks; ++block, pairs += 16) {
      *out++ = scales[block];
      const auto value = [pairs](size_t i) { return i % 2 == 0 ? pairs[i / 2] & std::byte{15} : pairs[i / 2] >> 4; };
      for (size_t i = 0; i < 16; ++i) *out++ = value(i) | value(i + 16) << 4;
    }
  }

  const std::byte* row_of(int64_t row) const {
    row = row * source_.row_step + source_.first_row;
    const size_t part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin());
    const int64_t begin = part == 0 ? 0 : ends_[part - 1];
    return source_.parts[part].data() + static_cast<size_t>(row - begin) * row_bytes_;
  }

  const TensorSource& source_;
  TensorType type_;
  size_t row_bytes_;
  bool copied_;
  std::vector<int64_t> ends_;  // Cumulative row count at the end of each part.
};

}  // namespace

void RowMaker::store(int64_t first, int64_t count, std::byte* out) const {
  const TensorType type = exact_type();
  assert(traits_of(type).block_values == 1);
  if (type == TensorType::kF32) return make(first, count, reinterpret_cast<float*>(out));
  std::vector<float> values(static_cast<size_t>(count * cols()));
  make(first, count, values.data());
  write_floats(values, count * cols(), type, out);
}

std::vector<std::span<const std::byte>> TensorSource::places() const {
  if (maker == nullptr) return parts;
  std::vector<std::span<const std::byte>> places;
  maker->add_slots(places);
  return places;
}

int64_t TensorSource::rows() const {
  if (maker != nullptr) return maker->rows();
  size_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  return static_cast<int64_t>(bytes / bytes_of_row(*this)) / row_step;
}

bool can_store(const TensorSource& source, TensorType type) {
  if (source.maker != nullptr && type == source.type) return source.cols % traits_of(type).block_values == 0;
  if (source.type == TensorType::kMXFP4)
    return type == source.type && source.cols % 32 == 0 && source.parts.size() == 1;
  if (source.maker != nullptr && source.type == TensorType::kF8Scaled && type == source.maker->float_type())
    return true;
  if (!is_float(source.type)) return false;
  return type == source.type || (can_quantize(type) && source.cols % traits_of(type).block_values == 0);
}

void read_rows(const TensorSource& source, TensorType type, int64_t first, int64_t count, int threads, std::byte* out) {
  assert(can_store(source, type));
  assert(first >= 0 && count >= 0 && first + count <= source.rows());
  const Reader reader(source, type);
  const int64_t shares = std::clamp<int64_t>(count * source.cols / kValuesPerThread, 1, std::max(threads, 1));
  std::vector<std::jthread> helpers;
  const auto begin_of = [&](int64_t share) { return first + count * share / shares; };
  const auto take = [&](int64_t share) {
    reader.read(begin_of(share), begin_of(share + 1) - begin_of(share),
                out + static_cast<size_t>(begin_of(share) - first) * reader.stored_row_bytes());
  };
  for (int64_t share = 1; share < shares; ++share) {
    try {
      helpers.emplace_back(take, share);
    } catch (const std::system_error&) {
      take(share);  // No thread could be started, so the calling thread does the work.
    }
  }
  take(0);
}

}  // namespace monolith
