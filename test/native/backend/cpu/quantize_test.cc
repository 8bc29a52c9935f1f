// Tests the packing of activations: the format is the one described in kernels.h, and the bytes are the same with every
// instruction set.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/repack.h"
#include "base/half.h"
#include "check.h"
#include "matrix_data.h"

using namespace monolith;

namespace {

// Packs one row, leaving `gap` unused lines after each line; the unused lines must stay unchanged.
std::vector<ActivationBlock> pack(CpuIsa isa, const std::vector<float>& x, size_t gap) {
  const size_t blocks = x.size() / 32;
  std::vector<ActivationBlock> lines(blocks * (gap + 1));
  std::memset(static_cast<void*>(lines.data()), 0x5a, lines.size() * sizeof lines[0]);
  matmul_kernels(isa).pack[static_cast<int>(ActivationKind::kInt8)](
      x.data(), static_cast<int64_t>(x.size()), reinterpret_cast<std::byte*>(lines.data()), (gap + 1) * kLineBytes);
  return lines;
}

// Returns values of many magnitudes, values halfway between two integers, and blocks whose values are all too small or
// not finite.
std::vector<float> awkward_values() {
  std::vector<float> x;
  Random random(1);
  for (int block = 0; block < 64; ++block) {
    const float size = std::ldexp(1.0f, static_cast<int>(random.bits() % 200) - 100);
    for (int i = 0; i < 32; ++i) x.push_back(random.uniform() * size);
  }
  for (int block = 0; block < 4; ++block)  // With amax 127, x * (127 / amax) is x, and .5 is a tie.
    for (int i = 0; i < 32; ++i) x.push_back(i == 0 ? 127.0f : static_cast<float>(i - 16 + 10 * block) + 0.5f);
  const float odd[] = {0.0f,
                       -0.0f,
                       1e-45f,
                       1e-38f,
                       7.8e-31f,
                       7.9e-31f,
                       3.4e38f,
                       -3.4e38f,
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN(),
                       -std::numeric_limits<float>::quiet_NaN()};
  for (float value : odd)
    for (int i = 0; i < 32; ++i) x.push_back(i == 17 ? value : 0.0f);
  return x;
}

}  // namespace

TEST(quantize_follows_its_definition) {
  const auto x = awkward_values();
  for (CpuIsa isa : available_cpu_isas()) {
    const auto lines = pack(isa, x, 0);
    for (size_t b = 0; b < lines.size(); ++b) {
      const float* values = &x[b * 32];
      const ActivationBlock& block = lines[b];
      float amax = 0;
      bool finite = true;
      for (int i = 0; i < 32; ++i) {
        amax = std::max(amax, std::fabs(values[i]));
        finite = finite && std::isfinite(values[i]);
      }
      int sums[2] = {0, 0};
      for (int i = 0; i < 32; ++i) {
        const int a = block.a[i];
        sums[i / 16] += a;
        CHECK(a >= -127 && a <= 127);
        if (!finite || amax < 0x1p-100f)
          CHECK_EQ(a, 0);
        else
          CHECK_EQ(a, static_cast<int>(std::nearbyint(values[i] * (127.0f / amax))));
      }
      if (!finite)
        CHECK(std::isnan(block.scale));
      else
        CHECK_EQ(block.scale, amax < 0x1p-100f ? 0.0f : amax / 127.0f);
      CHECK_EQ(block.minus_128_sum, -128 * (sums[0] + sums[1]));
      CHECK_EQ(block.minus_8_sum, -8 * (sums[0] + sums[1]));
      CHECK_EQ(block.minus_32_sum[0], -32 * sums[0]);
      CHECK_EQ(block.minus_32_sum[1], -32 * sums[1]);
      if (!finite) continue;
      CHECK_EQ(block.minus_scaled_sum, -(block.scale * static_cast<float>(sums[0] + sums[1])));
      for (int h = 0; h < 2; ++h)
        CHECK_EQ(block.minus_scaled_half_sum[h], -(block.scale * static_cast<float>(sums[h])));
    }
  }
}

TEST(quantize_gives_the_same_bytes_on_every_instruction_set) {
  const auto x = awkward_values();
  const auto expected = pack(CpuIsa::kPlain, x, 2);
  for (CpuIsa isa : available_cpu_isas()) {
    const auto lines = pack(isa, x, 2);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool equal = std::memcmp(&lines[i], &expected[i], kLineBytes) == 0;
      if (!equal)
        check::fail(__FILE__, __LINE__, "line " + std::to_string(i) + " differs on " + std::string(cpu_isa_name(isa)));
    }
  }
}

TEST(quantize_floats_pads_the_last_line) {
  for (CpuIsa isa : available_cpu_isas()) {
    for (int64_t cols : {1, 15, 16, 17, 33}) {
      std::vector<float> x(static_cast<size_t>(cols));
      for (int64_t i = 0; i < cols; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i + 1);
      const int64_t n = lines_per_row(ActivationKind::kF32, cols);
      // Memory for two lines per packed line: one in use and one gap. The element type is used only for its alignment.
      std::vector<ActivationBlock> lines(static_cast<size_t>(2 * n));
      std::memset(static_cast<void*>(lines.data()), 0x5a, lines.size() * kLineBytes);
      matmul_kernels(isa).pack[static_cast<int>(ActivationKind::kF32)](
          x.data(), cols, reinterpret_cast<std::byte*>(lines.data()), 2 * kLineBytes);
      for (int64_t k = 0; k < n * 16; ++k) {
        float value;
        std::memcpy(&value, reinterpret_cast<std::byte*>(lines.data()) + k / 16 * 128 + k % 16 * 4, sizeof value);
        CHECK_EQ(value, k < cols ? static_cast<float>(k + 1) : 0.0f);
      }
    }
  }
}

TEST(quantize_bf16_rounds_to_nearest_even) {
  if (!cpu_has_avx512_bf16()) return check::skip("this CPU has no vdpbf16ps");
  const PackRow pack_bf16 = matmul_kernels(CpuIsa::kAvx512).pack[static_cast<int>(ActivationKind::kBf16)];
  std::vector<float> x = awkward_values();
  Random random(2);
  for (int i = 0; i < 5000; ++i) x.push_back(std::bit_cast<float>(random.bits()));
  x.push_back(1.0f);  // An odd number of values: the last line is padded.
  const int64_t n = lines_per_row(ActivationKind::kBf16, static_cast<int64_t>(x.size()));
  std::vector<ActivationBlock> lines(static_cast<size_t>(n));
  pack_bf16(x.data(), static_cast<int64_t>(x.size()), reinterpret_cast<std::byte*>(lines.data()), kLineBytes);
  for (size_t k = 0; k < static_cast<size_t>(n) * 32; ++k) {
    uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<std::byte*>(lines.data()) + 2 * k, sizeof bits);
    CHECK_EQ(bits, k < x.size() ? float_to_bfloat16(x[k]) : uint16_t{0});
  }
}

TEST(quantize_panels_return_every_row) {
  for (TensorType type : kAllTypes) {
    const TensorTypeTraits& traits = traits_of(type);
    const int64_t cols = traits.block_values == 1 ? 45 : 2 * traits.block_values;
    const size_t row_bytes = static_cast<size_t>(cols / traits.block_values * traits.block_bytes);
    const auto data = matrix_data(type, 16, cols, 3);
    std::vector<float> expected(static_cast<size_t>(16 * cols)), row(static_cast<size_t>(cols));
    dequantize(type, data.data(), 16 * cols, expected.data());
    for (int n_rows : {1, 9, 16}) {
      const PanelLayout layout = panel_layout(type, cols);
      std::vector<std::byte> panel(layout.records + 64), block_scales(layout.block_scales + 64);
      for (auto* area : {&panel, &block_scales}) std::fill(area->end() - 64, area->end(), std::byte{0x5a});
      pack_panel(type, data.data(), row_bytes, n_rows, layout, panel.data(), block_scales.data());
      for (int lane = 0; lane < n_rows; ++lane) {
        unpack_row(layout, panel.data(), block_scales.data(), lane, row.data());
        CHECK(std::memcmp(row.data(), &expected[static_cast<size_t>(lane * cols)], row.size() * 4) == 0);
      }
      for (const auto* area : {&panel, &block_scales})
        CHECK(std::all_of(area->end() - 64, area->end(), [](std::byte b) { return b == std::byte{0x5a}; }));
    }
  }
}
