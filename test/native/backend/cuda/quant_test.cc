// Tests quantized weights on the GPU: packing and unpacking, 8-bit inputs, and products of every type with every
// kernel. Results are compared with float64, and the kernels' results are compared with each other, bit for bit.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/matrix_data.h"
#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "backend/cuda/moe/grouped.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/matrix.h"
#include "backend/cuda/quant/pack.h"
#include "backend/cuda/quant/product.h"
#include "formats/gguf/expanded_types.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

using enum QuantKernel;
constexpr QuantKernel kKernels[] = {kSome, kFew, kMany, kStream};

std::unique_ptr<Runtime> runtime() {
  auto opened = Runtime::open(0);
  return opened ? std::move(*opened) : nullptr;
}

// Copies `values` to the device.
template <typename T>
T* to_device(Runtime& device, const std::vector<T>& values) {
  T* const memory = static_cast<T*>(device.allocate(values.size() * sizeof(T)).value());
  device.upload(memory, values.data(), values.size() * sizeof(T));
  device.synchronize();
  return memory;
}
template <typename T>
std::vector<T> from_device(Runtime& device, const T* memory, size_t count) {
  std::vector<T> values(count);
  device.download(values.data(), memory, count * sizeof(T));
  device.synchronize();
  return values;
}

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.uniform();
  return values;
}

struct Weights {
  std::vector<float> values;  // Weights as defined by the file format.
  std::unique_ptr<Matrix> matrix;
  const CudaMatrix& own() const { return static_cast<const CudaMatrix&>(*matrix); }
  QuantWeight quant() const {
    return {quant_layout(matrix->type, matrix->rows, matrix->cols), static_cast<const unsigned char*>(own().data())};
  }
};
Weights make_weights(Runtime& device, TensorType type, int64_t rows, int64_t cols, uint64_t seed) {
  const std::vector<std::byte> data = matrix_data(type, rows, cols, seed);
  Weights weights;
  weights.values.resize(static_cast<size_t>(rows * cols));
  dequantize(type, data.data(), rows * cols, weights.values.data());
  auto matrix = make_matrix(device, {type, rows, cols, data}, false);
  if (matrix) weights.matrix = std::move(*matrix);
  return weights;
}

// The inputs after rounding to 8 bits, as the kernels use them.
struct Inputs {
  std::vector<double> values;
};
Inputs quantized(const std::vector<float>& x) {
  Inputs inputs;
  inputs.values.resize(x.size());
  for (size_t first = 0; first < x.size(); first += 32) {
    float amax = 0;
    for (size_t i = first; i < first + 32; ++i) amax = std::max(amax, std::fabs(x[i]));
    const float scale = amax / 127.0f, inverse = 127.0f / amax;
    if (amax == 0) continue;
    for (size_t i = first; i < first + 32; ++i)
      inputs.values[i] = double{scale} * static_cast<double>(std::lrint(x[i] * inverse));
  }
  return inputs;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string name_of(TensorType type, int64_t rows, int64_t cols, int n) {
  return std::string(traits_of(type).name) + " [" + std::to_string(rows) + ", " + std::to_string(cols) + "] x " +
         std::to_string(n);
}

int64_t odd_cols(TensorType type) { return traits_of(type).block_values == 32 ? 416 : 768; }

}  // namespace

TEST(quantized_rows_are_unpacked_unchanged) {
  const auto device = runtime();
  REQUIRE(device != nullptr);
  for (const TensorType type : kAllTypes) {
    if (!is_quantized(type)) continue;
    for (const int64_t rows : {int64_t{1}, int64_t{37}}) {
      const int64_t cols = odd_cols(type);
      const Weights weights = make_weights(*device, type, rows, cols, 3);
      REQUIRE(weights.matrix != nullptr);
      CHECK(weights.own().format() == Format::kQuant);
      CHECK_EQ(weights.matrix->bytes, matrix_bytes(Format::kQuant, type, rows, cols));
      std::vector<int32_t> tokens;
      for (int64_t i = rows - 1; i >= 0; --i) tokens.push_back(static_cast<int32_t>(i));
      const int32_t* const device_tokens = to_device(*device, tokens);
      float* const out = to_device(*device, std::vector<float>(static_cast<size_t>(rows * cols), NAN));
      embed(*device, weights.own(), device_tokens, static_cast<int>(rows), out);
      const std::vector<float> got = from_device(*device, out, static_cast<size_t>(rows * cols));
      for (int64_t i = 0; i < rows; ++i) {
        const float* const wanted = &weights.values[static_cast<size_t>(i * cols)];
        if (std::memcmp(&got[static_cast<size_t>((rows - 1 - i) * cols)], wanted, static_cast<size_t>(cols) * 4) != 0)
          check::fail(__FILE__, __LINE__, name_of(type, rows, cols, 1) + ": row " + std::to_string(i) + " differs");
      }
    }
  }
}

// Every type that can occur in a file is supported.
TEST(quantized_types_are_all_supported) {
  for (const TensorType type : kAllTypes) {
    CHECK(is_quantized(type) == (traits_of(type).block_values > 1));
    CHECK(keeps_type(type, false) && keeps_type(type, true));
  }
}

// Tests the size of packed weights relative to their size in the file, not counting padding.
TEST(quantized_matrices_take_about_the_size_in_the_file) {
  for (const TensorType type : kAllTypes) {
    if (!is_quantized(type)) continue;
    const TensorTypeTraits& traits = traits_of(type);
    const auto file = static_cast<double>(4096 / traits.block_values * traits.block_bytes * 4096);
    const auto own = static_cast<double>(matrix_bytes(Format::kQuant, type, 4096, 4096));
    // I-quants are expanded to one code per value; quant/form.h states the number of bits.
    const double opened = type == TensorType::kTQ1_0 || type == TensorType::kTQ2_0     ? 2.63
                          : type == TensorType::kIQ3_XXS || type == TensorType::kIQ3_S ? 4.57
                                                                                       : 3.57;
    if (is_expanded_type(type)) {
      if (own > opened / 8 * 4096 * 4096)
        check::fail(__FILE__, __LINE__, std::string(traits.name) + " takes " + std::to_string(own));
      continue;
    }
    const double ratio = own / file;
    if (ratio < 1.0 || ratio > 1.04)
      check::fail(__FILE__, __LINE__, std::string(traits.name) + " takes " + std::to_string(ratio));
  }
  // In exact arithmetic mode, quantized weights are stored as F32.
  CHECK(format_for(TensorType::kQ4_K, 16, 256, true) == Format::kF32);
}

TEST(int8_inputs_are_rounded_correctly) {
  const auto device = runtime();
  REQUIRE(device != nullptr);
  constexpr int kRows = 11;
  constexpr int64_t kCols = 160;  // Two chunks of columns; the second one is padded.
  std::vector<float> x = random_floats(kRows * kCols, 5);
  for (int i = 0; i < 32; ++i) x[i] = 0;
  for (int i = 32; i < 64; ++i) x[i] *= 0x1p-110f;
  x[70] = INFINITY;
  x[100] = NAN;
  for (const auto order : {emulator::Order::kAscending, emulator::Order::kDescending}) {
    emulator::set_order(order);
    Int8Activations scratch(*device);
    REQUIRE(scratch.reserve(kRows, kCols).ok());
    CHECK_EQ(Int8Activations::bytes_for(kRows, kCols), 2u * 8u * sizeof(Int8Block));
    const Int8Block* const memory = scratch.quantize(to_device(*device, x), kRows, kCols);
    const std::vector<Int8Block> blocks = from_device(*device, memory, 16);
    for (int row = 0; row < kRows; ++row) {
      for (int b = 0; b < 8; ++b) {
        const Int8Block& block = blocks[static_cast<size_t>(row / 8 * 8 + b)];
        const int column = row % 8;
        const float scale = block.columns[column / 2].scale[column % 2];
        float amax = 0, inverse = 0;
        if (b < 5) {
          for (int i = 0; i < 32; ++i) {
            const float value = x[static_cast<size_t>(row * kCols + b * 32 + i)];
            amax = std::isfinite(value) && std::isfinite(amax) ? std::max(amax, std::fabs(value)) : INFINITY;
          }
          if (amax < 0x1p-100f) amax = 0;
          inverse = amax > 0 && std::isfinite(amax) ? 127.0f / amax : 0;
        }
        if (std::isfinite(amax))
          CHECK_EQ(scale, amax / 127.0f);
        else
          CHECK(std::isnan(scale));
        int sums[2] = {0, 0};
        for (int i = 0; i < 32; ++i) {
          int8_t bytes[8];
          std::memcpy(bytes, &block.codes[column * 4 + i / 4 % 4], 8);
          const int code = bytes[i / 16 * 4 + i % 4];
          const long wanted = inverse == 0 ? 0 : std::lrint(x[static_cast<size_t>(row * kCols + b * 32 + i)] * inverse);
          CHECK_EQ(static_cast<long>(code), wanted);
          sums[i / 16] += code;
        }
        if (!std::isfinite(amax)) continue;
        CHECK_EQ(block.columns[column / 2].sums[column % 2], -(scale * static_cast<float>(sums[0] + sums[1])));
        for (int half = 0; half < 2; ++half)
          CHECK_EQ(block.half_sums[column / 2][half][column % 2], -(scale * static_cast<float>(sums[half])));
      }
    }
  }
  emulator::set_order(emulator::Order::kAscending);
}

TEST(quantized_matmul_is_correct_and_equal_with_every_kernel) {
  const auto device = runtime();
  REQUIRE(device != nullptr);
  constexpr int kColumns = 70;
  constexpr int64_t kRows = 45, kStride = kRows + 3;
  for (const TensorType type : kAllTypes) {
    if (!is_quantized(type)) continue;
    const int64_t cols = odd_cols(type);
    const Weights weights = make_weights(*device, type, kRows, cols, 7);
    REQUIRE(weights.matrix != nullptr);
    const std::vector<float> x = random_floats(kColumns * cols, 11);
    const Inputs inputs = quantized(x);
    const float* const device_x = to_device(*device, x);
    Int8Activations scratch(*device);
    REQUIRE(scratch.reserve(kColumns, cols).ok());
    float* const out = static_cast<float*>(device->allocate(kColumns * kStride * sizeof(float)).value());
    const MatmulTarget target{.weight = weights.matrix.get(), .out = out, .out_stride = kStride};
    const QuantWeight weight = weights.quant();
    std::vector<float> first;
    for (const QuantKernel kernel : kKernels) {
      // First all columns, then some columns that start at a different offset within a tile.
      using enum emulator::Order;
      emulator::set_order(kernel == kSome ? kDescending : kernel == kMany ? kShuffled : kAscending);
      const bool few = kernel == kFew;
      struct Columns {
        int from, n;
      };
      for (const Columns columns : {Columns{0, few ? 9 : kColumns}, Columns{few ? 8 : 61, 9}, Columns{3, 1}}) {
        const std::string name = name_of(type, kRows, cols, columns.n) + " by kernel " +
                                 std::to_string(static_cast<int>(kernel)) + ", column ";
        device->fill(out, 0xff, kColumns * kStride * sizeof(float));
        quant_matmul(*device, scratch, {&target, 1}, {&weight, 1}, device_x + columns.from * cols, columns.n, kernel);
        const std::vector<float> got = from_device(*device, out, kColumns * kStride);
        if (first.empty() && columns.n == kColumns) first = got;
        for (int c = 0; c < columns.n; ++c) {
          const float* const row = &got[static_cast<size_t>(c * kStride)];
          for (int64_t r = kRows; r < kStride; ++r) CHECK(std::isnan(row[r]));
          for (int64_t r = 0; r < kRows; ++r) {
            double exact = 0, size = 0;
            for (int64_t k = 0; k < cols; ++k) {
              const double product = double{weights.values[static_cast<size_t>(r * cols + k)]} *
                                     inputs.values[static_cast<size_t>((columns.from + c) * cols + k)];
              exact += product;
              size += std::fabs(product);
            }
            if (!(std::fabs(double{row[r]} - exact) <= 1e-6 * size + 1e-30))
              return check::fail(__FILE__, __LINE__,
                                 name + std::to_string(c) + ", row " + std::to_string(r) + ": " +
                                     std::to_string(row[r]) + ", not " + std::to_string(exact));
          }
          const float* const before = &first[static_cast<size_t>((columns.from + c) * kStride)];
          if (std::memcmp(row, before, kRows * sizeof(float)) != 0)
            return check::fail(__FILE__, __LINE__, name + std::to_string(c) + ": different bits");
        }
        for (int64_t i = columns.n * kStride; i < kColumns * kStride; ++i)
          CHECK(std::isnan(got[static_cast<size_t>(i)]));
      }
    }
  }
  emulator::set_order(emulator::Order::kAscending);
}

// Tests a call with several targets of four types, with biases and with existing outputs to add to. One type has more
// targets than fit in a single launch. The results are bit-identical to the results of each target alone.
TEST(quantized_grouped_targets_equal_single_ones) {
  const auto device = runtime();
  REQUIRE(device != nullptr);
  constexpr int64_t kCols = 512;
  constexpr int kMaxColumns = 33;
  const std::vector<float> x = random_floats(kMaxColumns * kCols, 17);
  const float* const device_x = to_device(*device, x);
  MatmulContext scratch{DenseScratch(*device), {}, Int8Activations(*device)};
  REQUIRE(scratch.int8.reserve(kMaxColumns, kCols).ok());
  std::vector<Weights> weights;
  std::vector<const float*> biases;
  uint64_t seed = 1;
  using enum TensorType;
  const TensorType types[] = {kQ4_K, kQ6_K, kQ4_K, kQ4_K, kF32, kQ4_K, kQ4_K, kQ6_K, kQ8_0, kQ4_K};
  for (const TensorType type : types) {
    const int64_t rows = 16 + static_cast<int64_t>(seed) * 7;
    weights.push_back(make_weights(*device, type, rows, kCols, ++seed));
    REQUIRE(weights.back().matrix != nullptr);
    biases.push_back(seed % 2 == 0 ? to_device(*device, random_floats(rows, seed)) : nullptr);
  }
  for (const int n : {1, kMaxColumns}) {
    std::vector<MatmulTarget> targets;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t rows = weights[i].matrix->rows;
      targets.push_back({.weight = weights[i].matrix.get(),
                         .out = to_device(*device, random_floats(n * rows, 100 + i)),
                         .out_stride = rows,
                         .bias = biases[i],
                         .add_to_out = i % 3 == 0});
    }
    matmul(*device, scratch, targets, device_x, n);
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t rows = weights[i].matrix->rows;
      const std::vector<float> before = random_floats(n * rows, 100 + i);
      float* const alone = to_device(*device, before);
      const MatmulTarget plain{.weight = weights[i].matrix.get(), .out = alone, .out_stride = rows};
      matmul(*device, scratch, {&plain, 1}, device_x, n);
      std::vector<float> wanted = from_device(*device, alone, static_cast<size_t>(n * rows));
      std::vector<float> bias;
      if (biases[i]) bias = from_device(*device, biases[i], static_cast<size_t>(rows));
      for (size_t at = 0; at < wanted.size(); ++at) {
        if (!bias.empty()) wanted[at] += bias[at % static_cast<size_t>(rows)];
        if (targets[i].add_to_out) wanted[at] = before[at] + wanted[at];
      }
      CHECK(same(from_device(*device, targets[i].out, wanted.size()), wanted));
    }
  }
}

// Tests several expert slots in one launch. Each slot's result equals the product of its token with its expert's matrix
// alone, and empty slots are not written.
TEST(quantized_experts_equal_each_expert_alone) {
  const auto device = runtime();
  REQUIRE(device != nullptr);
  constexpr int kExperts = 3, kXRows = 5, kSlots = 88;
  constexpr int64_t kRows = 48, kCols = 256;  // Shape of one expert's matrix.
  const std::vector<float> x = random_floats(kXRows * kCols, 31);
  const float* const device_x = to_device(*device, x);
  // Nine slots for expert 0, none for expert 1, and 70 for expert 2.
  const std::vector<int32_t> first_slot{0, 16, 16}, count{9, 0, 70};
  std::vector<int32_t> source(kSlots, -1);
  for (int expert = 0; expert < kExperts; ++expert)
    for (int i = 0; i < count[static_cast<size_t>(expert)]; ++i)
      source[static_cast<size_t>(first_slot[static_cast<size_t>(expert)] + i)] = (i * 2 + expert) % kXRows;
  ColumnTile* const tiles = to_device(*device, std::vector<ColumnTile>(kSlots));
  const ColumnGroups groups{to_device(*device, source),
                            to_device(*device, first_slot),
                            to_device(*device, count),
                            tiles,
                            kSlots,
                            79,
                            kExperts,
                            0};
  Int8Activations scratch(*device);
  REQUIRE(scratch.reserve(kSlots, kCols).ok());
  for (const TensorType type : {TensorType::kMXFP4, TensorType::kQ4_K, TensorType::kQ6_K}) {
    const Weights weights = make_weights(*device, type, kExperts * kRows, kCols, 37);
    REQUIRE(weights.matrix != nullptr);
    const QuantWeight weight = weights.quant();
    float* const alone = static_cast<float*>(device->allocate(kXRows * kExperts * kRows * sizeof(float)).value());
    const MatmulTarget all{.weight = weights.matrix.get(), .out = alone, .out_stride = kExperts * kRows};
    quant_matmul(*device, scratch, {&all, 1}, {&weight, 1}, device_x, kXRows);
    const std::vector<float> wanted = from_device(*device, alone, kXRows * kExperts * kRows);
    float* const out = static_cast<float*>(device->allocate(kSlots * kRows * sizeof(float)).value());
    const MatmulTarget target{.weight = weights.matrix.get(), .out = out, .out_stride = kRows};
    for (const QuantKernel kernel : kKernels) {
      device->fill(out, 0xff, kSlots * kRows * sizeof(float));
      quant_matmul(*device, scratch, {&target, 1}, {&weight, 1}, device_x, kSlots, kernel, &groups);
      const std::vector<float> got = from_device(*device, out, kSlots * kRows);
      for (int slot = 0; slot < kSlots; ++slot) {
        const int32_t row = source[static_cast<size_t>(slot)];
        const float* const own = &got[static_cast<size_t>(slot * kRows)];
        if (row < 0)
          CHECK(std::isnan(own[0]) && std::isnan(own[kRows - 1]));
        else
          CHECK(std::memcmp(own, &wanted[static_cast<size_t>((row * kExperts + (slot < 16 ? 0 : 2)) * kRows)],
                            kRows * sizeof(float)) == 0);
      }
    }
  }
}

// Tests whole MoE layers with quantized experts: the weighted sums of the experts' results, including the biases and
// the activation of gpt-oss. The results are bit-identical regardless of the other tokens in the batch.
TEST(quantized_moe_is_the_weighted_sum_of_its_experts) {
  constexpr RowCount kOne = RowCount::fixed(1);
  constexpr MixtureShape kShape = {.n_experts = 5, .n_used = 2, .n_embd = 256, .n_ff = 512};
  constexpr int kRows = 21;
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kMXFP4}) {
    auto made = make_cuda_backend({});
    REQUIRE(made.ok());
    Backend& backend = **made;
    REQUIRE(backend.reserve(kRows, 512, 16, 16, kShape).ok());
    struct Weight {
      std::unique_ptr<Matrix> all, each[kShape.n_experts];
    } weights[3];
    for (int i = 0; i < 3; ++i) {
      const int64_t rows = i < 2 ? kShape.n_ff : kShape.n_embd, cols = i < 2 ? kShape.n_embd : kShape.n_ff;
      const std::vector<std::byte> data =
          matrix_data(type, rows * kShape.n_experts, cols, static_cast<uint64_t>(i), 0.125f);
      weights[i].all = std::move(backend.matrix({type, rows * kShape.n_experts, cols, data})).value();
      const size_t bytes = data.size() / kShape.n_experts;
      for (int e = 0; e < kShape.n_experts; ++e)
        weights[i].each[e] = std::move(backend.matrix({type, rows, cols,
                                                       std::span(data).subspan(static_cast<size_t>(e) * bytes, bytes)}))
                                 .value();
    }
    const auto put = [&](const std::vector<float>& values) {
      float* const memory = backend.allocate(static_cast<int64_t>(values.size())).value();
      backend.write_floats(memory, values.data(), static_cast<int64_t>(values.size()));
      return memory;
    };
    const auto get = [&](const float* from, int64_t n) {
      std::vector<float> values(static_cast<size_t>(n));
      backend.read_floats(values.data(), from, n);
      return values;
    };
    const std::vector<float> logits = random_floats(kRows * kShape.n_experts, 41);
    const float* const logits_there = put(logits);
    const float* const x = put(random_floats(kRows * kShape.n_embd, 43));
    const bool oss = type == TensorType::kMXFP4;
    const auto bias = [&](int64_t rows, uint64_t seed) {
      return oss ? put(random_floats(rows * kShape.n_experts, seed)) : nullptr;
    };
    const float* const biases[] = {bias(kShape.n_ff, 51), bias(kShape.n_ff, 52), bias(kShape.n_embd, 53)};
    const Activation activation = oss ? Activation::kClampedSilu : Activation::kSilu;
    const Mixture mixture{.shape = kShape,
                          .gate = weights[0].all.get(),
                          .up = weights[1].all.get(),
                          .down = weights[2].all.get(),
                          .gate_bias = biases[0],
                          .up_bias = biases[1],
                          .down_bias = biases[2],
                          .activation = activation};
    CHECK(backend.supports(mixture).ok());
    float* const out = put(std::vector<float>(kRows * kShape.n_embd, NAN));
    backend.mixture(mixture, logits_there, x, RowCount::fixed(kRows), out, false);
    const std::vector<float> whole = get(out, kRows * kShape.n_embd);
    float* const gate = put(std::vector<float>(kShape.n_ff));
    float* const up = put(std::vector<float>(kShape.n_ff));
    float* const alone = put(std::vector<float>(kShape.n_embd));
    for (const int row : {0, 7, kRows - 1}) {
      const float* const own = &logits[static_cast<size_t>(row * kShape.n_experts)];
      int order[kShape.n_experts] = {0, 1, 2, 3, 4};
      std::sort(std::begin(order), std::end(order), [&](int a, int b) { return own[a] > own[b]; });
      const double second = std::exp(double{own[order[1]]} - own[order[0]]);
      std::vector<double> expected(kShape.n_embd);
      for (int i = 0; i < 2; ++i) {
        const int e = order[i];
        const auto of_expert = [&](int i, int64_t rows) { return biases[i] ? biases[i] + e * rows : nullptr; };
        const MatmulTarget inner[] = {{weights[0].each[e].get(), gate, kShape.n_ff, of_expert(0, kShape.n_ff)},
                                      {weights[1].each[e].get(), up, kShape.n_ff, of_expert(1, kShape.n_ff)}};
        backend.matmul(inner, x + row * kShape.n_embd, kOne);
        backend.gated(activation, gate, up, kOne, kShape.n_ff, gate);
        const MatmulTarget outer{weights[2].each[e].get(), alone, kShape.n_embd, of_expert(2, kShape.n_embd)};
        backend.matmul({&outer, 1}, gate, kOne);
        const std::vector<float> given = get(alone, kShape.n_embd);
        for (size_t d = 0; d < expected.size(); ++d) expected[d] += (i == 0 ? 1.0 : second) / (1.0 + second) * given[d];
      }
      double worst = 0, size = 0;
      for (size_t d = 0; d < expected.size(); ++d) {
        worst = std::max(worst, std::fabs(expected[d] - whole[static_cast<size_t>(row * kShape.n_embd) + d]));
        size = std::max(size, std::fabs(expected[d]));
      }
      if (!(worst <= 1e-6 * size) || size == 0)
        check::fail(__FILE__, __LINE__, "row " + std::to_string(row) + " is off by " + std::to_string(worst));
      backend.mixture(mixture, logits_there + row * kShape.n_experts, x + row * kShape.n_embd, kOne, alone, false);
      CHECK(std::memcmp(get(alone, kShape.n_embd).data(), &whole[static_cast<size_t>(row * kShape.n_embd)],
                        kShape.n_embd * sizeof(float)) == 0);
    }
  }
}

// Every output in a column with a non-finite input is NaN, and adjacent columns are unaffected.
TEST(quantized_matmul_keeps_columns_independent) {
  const auto device = runtime();
  REQUIRE(device != nullptr);
  constexpr int64_t kRows = 20, kCols = 256;
  const Weights weights = make_weights(*device, TensorType::kQ5_K, kRows, kCols, 23);
  REQUIRE(weights.matrix != nullptr);
  std::vector<float> x = random_floats(3 * kCols, 29);
  x[kCols + 5] = INFINITY;
  Int8Activations scratch(*device);
  REQUIRE(scratch.reserve(3, kCols).ok());
  float* const out = static_cast<float*>(device->allocate(3 * kRows * sizeof(float)).value());
  const MatmulTarget target{.weight = weights.matrix.get(), .out = out, .out_stride = kRows};
  for (const QuantKernel kernel : kKernels) {
    const QuantWeight weight = weights.quant();
    quant_matmul(*device, scratch, {&target, 1}, {&weight, 1}, to_device(*device, x), 3, kernel);
    const std::vector<float> got = from_device(*device, out, 3 * kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      CHECK(std::isfinite(got[static_cast<size_t>(r)]));
      CHECK(std::isnan(got[static_cast<size_t>(kRows + r)]));
      CHECK(std::isfinite(got[static_cast<size_t>(2 * kRows + r)]));
    }
  }
}

TEST(quantized_kernels_are_chosen_by_size) {
  constexpr int kH200 = 132;
  CHECK(quant_kernel_for(4096, 1, kH200) == kFew);
  CHECK(quant_kernel_for(4096, 8, kH200) == kFew);
  CHECK(quant_kernel_for(4096, 9, kH200) == kSome);
  CHECK(quant_kernel_for(14336, 32, kH200) == kSome);
  CHECK(quant_kernel_for(1024, 64, kH200) == kSome);  // The kMany kernel would have only 8 thread blocks.
  CHECK(quant_kernel_for(28672, 64, kH200) == kMany);
  CHECK(quant_kernel_for(4096, 256, kH200) == kMany);
  CHECK(quant_kernel_for(256, 8192, kH200) == kMany);
}

// Hopper uses persistent thread blocks for inputs that fit in shared memory.
TEST(quantized_persistent_kernels_are_chosen_by_size) {
  DeviceProperties hopper;
  hopper.major = 9;
  hopper.multiprocessors = 132;
  hopper.shared_bytes = 227 << 10;
  const auto plan = [&](TensorType type, int64_t rows, int64_t cols, int columns) {
    const QuantLayout layout = quant_layout(type, rows, cols);
    const auto found = plan_stream(layout, rows, columns, hopper);
    if (found) CHECK(stream_shared_bytes(layout, *found) <= hopper.shared_bytes);
    return found;
  };
  const QuantLayout layout = quant_layout(TensorType::kQ4_K, 14336, 4096);
  const auto one = plan(TensorType::kQ4_K, 14336, 4096, 1);
  REQUIRE(one.has_value());
  CHECK_EQ(one->columns, 1);
  CHECK_EQ(one->groups, 2);
  CHECK_EQ(one->stages, 3);
  CHECK_EQ(plan(TensorType::kQ4_K, 14336, 4096, 3)->columns, 4);
  CHECK_EQ(plan(TensorType::kQ4_K, 14336, 4096, 16)->columns, 16);
  CHECK_EQ(plan(TensorType::kQ4_K, 4096, 14336, 16)->columns, 8);  // Shared memory has no room for 16 columns.
  CHECK(!plan(TensorType::kQ4_K, 4096, 4096, 8));                  // Too little work for this many inputs.
  CHECK(!plan(TensorType::kQ4_K, 14336, 4096, 17));
  CHECK(!plan(TensorType::kQ4_K, 4096, 131072, 8));  // Shared memory has no room for the inputs.
  DeviceProperties ampere = hopper;
  ampere.major = 8;
  CHECK(!plan_stream(layout, 14336, 1, ampere));
}
