// Tests vision-encoder operations. Results are compared with double precision, between instruction sets, and between
// different divisions of the work into calls.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/cpu_backend_impl.h"
#include "check.h"
#include "support/encoder_cases.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

struct AttentionCase : EncoderAttentionCase {
  using EncoderAttentionCase::EncoderAttentionCase;

  // Stores keys and computes attention `run` rows at a time.
  std::vector<float> computed(CpuIsa isa, int threads, int run) const {
    CpuBackend ops(isa, threads);
    CHECK(ops.reserve(64, 64, 1, head_dim, {}).ok());
    std::vector<float> memory(size_t(ops.encoder_key_floats(n_rows + 5, n_heads, head_dim)), std::nanf("")),
        out(q.size());
    const EncoderKeys keys{memory.data(), n_rows + 5, n_heads, head_dim};
    const int64_t stride = int64_t{n_heads} * head_dim;
    for (int at = 0; at < n_rows; at += run)
      ops.store_encoder_keys(keys, k.data() + at * stride, v.data() + at * stride, stride, at,
                             std::min(run, n_rows - at));
    for (int at = 0; at < n_rows; at += run)
      ops.attend_rows({keys, q.data() + at * stride, stride, starts.data() + at, limits.data() + at,
                       std::min(run, n_rows - at), scale(), out.data() + at * stride});
    return out;
  }
};

}  // namespace

TEST(vision_attention_matches_double_with_any_split_and_instruction_set) {
  const std::vector<AttentionCase> cases = {
      {300, 2, 72, {300}}, {1, 3, 32, {1}}, {530, 1, 20, {64, 64, 30, 272, 100}}, {37, 2, 64, {16, 21}}};
  for (const AttentionCase& one : cases) {
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas()) {
      const std::vector<float> out = one.computed(isa, 1, one.n_rows);
      if (first.empty()) {
        first = out;
        for (int row = 0; row < one.n_rows; row += 7)
          for (int head = 0; head < one.n_heads; ++head)
            for (int d = 0; d < one.head_dim; d += 3) {
              const double expected = one.expected(row, head, d);
              const double got = out[size_t((row * one.n_heads + head) * one.head_dim + d)];
              CHECK(std::abs(got - expected) <= 2e-6 * (1 + std::abs(expected)));
            }
      }
      CHECK(same_bits(out, first));
      CHECK(same_bits(one.computed(isa, 3, one.n_rows), first));
      CHECK(same_bits(one.computed(isa, 2, 19), first));
    }
  }
}

TEST(vision_rope_uses_the_given_factors) {
  const int n_rows = 9, n_heads = 3, head_dim = 24;
  for (const auto& [style, section] : {std::pair{RopeStyle::kAdjacentPairs, 24}, std::pair{RopeStyle::kHalves, 24},
                                       std::pair{RopeStyle::kHalves, 12}}) {
    const auto x = random_floats(size_t(n_rows) * n_heads * head_dim, 4),
               own = random_floats(size_t(n_rows) * head_dim, 5), partner = random_floats(size_t(n_rows) * head_dim, 6);
    for (const CpuIsa isa : available_cpu_isas()) {
      CpuBackend ops(isa, 2);
      auto got = x;
      ops.rotate_rows({own.data(), partner.data(), style, section}, n_rows, got.data(), n_heads * head_dim, n_heads,
                      head_dim);
      for (int row = 0; row < n_rows; ++row)
        for (int head = 0; head < n_heads; ++head)
          for (int d = 0; d < head_dim; ++d) {
            const int within = d % section, half = section / 2;
            const int other = style == RopeStyle::kAdjacentPairs ? d ^ 1 : within < half ? d + half : d - half;
            const size_t at = size_t((row * n_heads + head) * head_dim);
            const double expected = double(x[at + size_t(d)]) * own[size_t(row * head_dim + d)] +
                                    double(x[at + size_t(other)]) * partner[size_t(row * head_dim + d)];
            CHECK(std::abs(got[at + size_t(d)] - expected) <= 1e-6 * (1 + std::abs(expected)));
          }
    }
  }
}

TEST(patches_are_ordered_by_color_row_and_column) {
  const int width = 11, height = 9, patch = 3;  // The image has a margin that no patch covers.
  std::vector<uint8_t> pixels(size_t(width) * height * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(i * 37);
  const auto levels = random_floats(3 * 256, 7);
  const std::vector<PatchPlace> places = {{2, 0}, {0, 2}, {1, 1}};
  CpuBackend ops(CpuIsa::kPlain, 2);
  std::vector<float> out(places.size() * 27);
  ops.take_patches({pixels.data(), width, patch, levels.data()}, places, out.data());
  for (size_t i = 0; i < places.size(); ++i)
    for (int color = 0; color < 3; ++color)
      for (int y = 0; y < patch; ++y)
        for (int x = 0; x < patch; ++x) {
          const size_t pixel = size_t((places[i].row * patch + y) * width + places[i].column * patch + x);
          CHECK_EQ(out[i * 27 + size_t(color * 9 + y * 3 + x)],
                   levels[size_t(color * 256 + pixels[pixel * 3 + size_t(color)])]);
        }
}

TEST(table_rows_are_added_and_rows_are_summed) {
  const int dim = 21, n_rows = 8;
  const auto table = random_floats(size_t(5 * dim), 8), x = random_floats(size_t(n_rows * dim), 9);
  std::vector<int32_t> rows;
  std::vector<float> weights;
  for (int row = 0; row < n_rows; ++row) {
    // Rows with weight 0 are not read, so their index may be out of range.
    rows.insert(rows.end(), {row % 5, 4 - row % 5, 1000000});
    weights.insert(weights.end(), {0.25f * static_cast<float>(row), -0.5f, 0.0f});
  }
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 2);
    auto got = x;
    ops.add_table_rows({3, rows.data(), weights.data()}, table.data(), n_rows, dim, got.data());
    for (int row = 0; row < n_rows; ++row)
      for (int i = 0; i < dim; ++i) {
        double expected = x[size_t(row * dim + i)];
        for (int tap = 0; tap < 2; ++tap)
          expected += double(weights[size_t(3 * row + tap)]) * table[size_t(rows[size_t(3 * row + tap)] * dim + i)];
        CHECK(std::abs(got[size_t(row * dim + i)] - expected) <= 1e-6 * (1 + std::abs(expected)));
      }
    std::vector<float> sums(size_t(2 * dim));
    ops.add_up_rows(x.data(), 4, 0.25f, 2, dim, sums.data());
    for (int group = 0; group < 2; ++group)
      for (int i = 0; i < dim; ++i) {
        double sum = 0;
        for (int row = 4 * group; row < 4 * group + 4; ++row) sum += x[size_t(row * dim + i)];
        CHECK(std::abs(sums[size_t(group * dim + i)] - sum / 4) <= 1e-6);
      }
    auto held = x;
    ops.clamp(held.data(), int64_t(held.size()), -0.5f, 0.25f);
    for (size_t i = 0; i < x.size(); ++i) CHECK_EQ(held[i], std::clamp(x[i], -0.5f, 0.25f));
  }
}

TEST(quick_gelu_matches_double_with_and_without_a_gate) {
  auto x = random_floats(4099, 20, 3.0f);
  x[0] = 80.0f, x[1] = -50.0f, x[2] = 0.0f;
  const auto up = random_floats(x.size(), 21);
  std::vector<float> first;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 3);
    auto plain = x;
    std::vector<float> gated(x.size());
    ops.activate(Activation::kQuickGelu, plain.data(), RowCount::fixed(1), int64_t(x.size()));
    ops.gated(Activation::kQuickGelu, x.data(), up.data(), RowCount::fixed(1), int64_t(x.size()), gated.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = x[i] / (1 + std::exp(-double(1.702f) * x[i]));
      CHECK(std::abs(plain[i] - expected) <= 0x1p-22 * std::abs(expected) + 0x1p-22 * std::abs(x[i] * expected));
      CHECK(std::abs(gated[i] - expected * up[i]) <= (0x1p-21 + 0x1p-22 * std::abs(x[i])) * std::abs(expected * up[i]));
    }
    if (first.empty()) first = plain;
    CHECK(same_bits(plain, first));
  }
}
