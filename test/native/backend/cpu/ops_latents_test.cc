// Tests MLA, in which all heads share latent rows that serve as both keys and values. Results are compared with double
// precision. They must be bit-identical with every instruction set and for any division into chunks, any pages and any
// number of threads. Also tests batched matrix products with one matrix per head, and keys and values of different
// sizes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/cpu_backend_impl.h"
#include "base/half.h"
#include "check.h"
#include "formats/gguf/quantize.h"

using namespace monolith;

namespace {

constexpr int kNope = 24;  // Query dimensions that were projected to the `value` dimensions of the latent.

struct Shape {
  int n_heads, row, value;
  KvType type;
  std::string name() const {
    return std::to_string(n_heads) + " heads, rows of " + std::to_string(row) + " with values of " +
           std::to_string(value) +
           (type == KvType::kF16    ? ", f16"
            : type == KvType::kF32  ? ", f32"
            : type == KvType::kQ8_0 ? ", q8_0"
            : type == KvType::kQ5_0 ? ", q5_0"
                                    : ", q4_0");
  }
  KvShape cache(int64_t n_pages) const {
    // Three layers with separate page tables. One of the layers stores keys and values per head.
    return {{{StateKind::kKeysAndValues, 2, 32, 32, 0},
             {StateKind::kLatents, 1, row, value, 1},
             {StateKind::kLatents, 1, row, value, 2}},
            n_pages,
            type};
  }
};

struct Rows {
  int n;
  std::vector<float> absorbed, q, latents;  // Shapes: [n][n_heads][row], [n][n_heads][kNope + row - value], [n][row].
};

Rows random_rows(const Shape& shape, int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Rows rows{n, {}, {}, {}};
  rows.absorbed.resize(size_t(n) * shape.n_heads * shape.row);
  rows.q.resize(size_t(n) * shape.n_heads * (kNope + shape.row - shape.value));
  rows.latents.resize(size_t(n) * shape.row);
  for (auto* values : {&rows.absorbed, &rows.q, &rows.latents})
    for (float& x : *values) x = normal(random);
  return rows;
}

struct Setup {
  CpuIsa isa = CpuIsa::kPlain;
  int threads = 1;
  std::vector<int> cuts = {};
  int first_page = 0, page_step = 1;
};

constexpr AttentionParams kParams = {.scale = 0.11f, .temperature_scale = 0.3f, .temperature_length = 20};

// Computes attention for one sequence. Returns [n][n_heads][value].
std::vector<float> run(const Shape& shape, const Rows& rows, const RopeParams& rope, const Setup& setup) {
  const int n_used = (rows.n + kPageTokens - 1) / kPageTokens;
  const int n_pages = setup.first_page + n_used * setup.page_step + 1;
  auto cache = CpuKvCache::create(shape.cache(n_pages));
  CHECK(cache.ok());
  // Fills the KV cache with 0xff bytes, which are NaN in all types.
  std::memset((*cache)->layer(0).keys.of_head(0), 0xff, (*cache)->bytes);
  std::vector<int32_t> pages(n_used);
  for (int i = 0; i < n_used; ++i) pages[i] = setup.first_page + (n_used - 1 - i) * setup.page_step;
  CpuBackend ops(setup.isa, setup.threads);
  const int64_t q_dim = int64_t{shape.n_heads} * (kNope + shape.row - shape.value),
                wide = int64_t{shape.n_heads} * shape.row;
  const int64_t out_dim = int64_t{shape.n_heads} * shape.value;
  CHECK(ops.reserve(rows.n, wide, rows.n, shape.row, {}).ok());
  std::vector<float> out(size_t(rows.n) * out_dim, -1.0f);
  const std::vector<int> cuts = setup.cuts.empty() ? std::vector<int>{rows.n} : setup.cuts;
  int at = 0;
  for (size_t c = 0; at < rows.n; ++c) {
    const int n = std::min(cuts[c % cuts.size()], rows.n - at);
    std::vector<float> absorbed(rows.absorbed.begin() + at * wide, rows.absorbed.begin() + (at + n) * wide);
    std::vector<float> latents(rows.latents.begin() + at * shape.row, rows.latents.begin() + (at + n) * shape.row);
    const Segment segment = {0, n, at, pages.data()};
    ops.rope_and_store_latents(
        {rope,
         {&segment, 1},
         {rows.q.data() + at * q_dim, q_dim, kNope + shape.row - shape.value, absorbed.data(), wide, shape.n_heads},
         latents.data(),
         shape.row,
         2,
         **cache});
    ops.attention(
        {{&segment, 1}, absorbed.data(), wide, shape.n_heads, 2, **cache, kParams, out.data() + at * out_dim, out_dim});
    at += n;
  }
  return out;
}

void rotate_exactly(const RopeParams& rope, int position, double* x) {
  for (int i = 0; i < rope.n_dims / 2; ++i) {
    const double angle = double(position) * rope.inverse_frequency[i], c = std::cos(angle), s = std::sin(angle);
    const double a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
  }
}

void round_as_kept(std::vector<double>& row, KvType type) {
  for (size_t begin = 0; begin < row.size() && type == KvType::kF16; begin += kLatentBlock) {
    const size_t end = std::min(begin + kLatentBlock, row.size());
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(row[i]));
    for (size_t i = begin; i < end; ++i)
      row[i] = std::nearbyint(row[i] / largest * kMaxLatent) * (largest / kMaxLatent);
  }
  for (size_t begin = 0; begin < row.size() && is_packed(type); begin += 32) {
    const size_t end = std::min(begin + 32, row.size());
    const double zero = packed_zero(type);
    double top = 0;
    for (size_t i = begin; i < end; ++i)
      if (std::abs(row[i]) > std::abs(top)) top = row[i];
    const double scale = half_to_float(float_to_half(float(top / -zero)));
    for (size_t i = begin; i < end; ++i) row[i] = std::clamp(std::nearbyint(row[i] / scale), -zero, zero - 1) * scale;
  }
  for (size_t begin = 0; begin < row.size() && type == KvType::kQ8_0; begin += 32) {
    const size_t end = std::min(begin + 32, row.size());
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(row[i]));
    const double scale = half_to_float(float_to_half(float(largest / 127)));
    for (size_t i = begin; i < end; ++i) row[i] = std::clamp(std::nearbyint(row[i] / scale), -127.0, 127.0) * scale;
  }
}

std::vector<double> exact(const Shape& shape, const Rows& rows, const RopeParams& rope) {
  const int shared = shape.row - shape.value;
  std::vector<std::vector<double>> kept;
  for (int p = 0; p < rows.n; ++p) {
    kept.emplace_back(rows.latents.begin() + p * shape.row, rows.latents.begin() + (p + 1) * shape.row);
    rotate_exactly(rope, p, kept.back().data() + shape.value);
    round_as_kept(kept.back(), shape.type);
  }
  std::vector<double> out(size_t(rows.n) * shape.n_heads * shape.value);
  for (int row = 0; row < rows.n; ++row)
    for (int head = 0; head < shape.n_heads; ++head) {
      const size_t index = size_t(row) * shape.n_heads + head;
      std::vector<double> q(rows.absorbed.begin() + index * shape.row, rows.absorbed.begin() + (index + 1) * shape.row);
      for (int d = 0; d < shared; ++d) q[shape.value + d] = rows.q[index * (kNope + shared) + kNope + d];
      rotate_exactly(rope, row, q.data() + shape.value);
      const double scale =
          kParams.scale * (1 + kParams.temperature_scale * std::log(1.0 + row / kParams.temperature_length));
      std::vector<double> weights(row + 1);
      double top = -1e300, sum = 0;
      for (int p = 0; p <= row; ++p) {
        for (int d = 0; d < shape.row; ++d) weights[p] += q[d] * kept[p][d];
        top = std::max(top, weights[p] *= scale);
      }
      for (double& weight : weights) sum += weight = std::exp(weight - top);
      for (int p = 0; p <= row; ++p)
        for (int d = 0; d < shape.value; ++d) out[index * shape.value + d] += weights[p] / sum * kept[p][d];
    }
  return out;
}

void check_same_bits(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &expected[i], 4) != 0)
      return check::fail(__FILE__, __LINE__,
                         what + ": value " + std::to_string(i) + " is " + std::to_string(got[i]) +
                             ", expected the bits of " + std::to_string(expected[i]));
}

std::vector<float> frequencies(int n_dims) {
  std::vector<float> f(n_dims / 2);
  for (int i = 0; i < n_dims / 2; ++i) f[i] = float(std::pow(10000.0, -2.0 * i / n_dims));
  return f;
}

const std::vector<Shape> kShapes = {
    {2, 48, 32, KvType::kF16},   {16, 72, 64, KvType::kF32}, {5, 96, 64, KvType::kQ8_0},    {20, 82, 48, KvType::kF16},
    {37, 60, 40, KvType::kQ8_0}, {3, 40, 40, KvType::kF32},  {16, 576, 512, KvType::kF16},  {5, 96, 64, KvType::kQ4_0},
    {37, 60, 40, KvType::kQ5_0}, {3, 82, 48, KvType::kQ4_0}, {16, 576, 512, KvType::kQ5_0},
};
RopeParams rope_of(const Shape& shape, const std::vector<float>& frequency) {
  return {RopeStyle::kAdjacentPairs, shape.row - shape.value, frequency.data(), 1.0f};
}

}  // namespace

TEST(mla_matches_the_definition_in_double) {
  for (const Shape& shape : kShapes) {
    const auto frequency = frequencies(shape.row - shape.value);
    const RopeParams rope = rope_of(shape, frequency);
    const Rows rows = random_rows(shape, shape.row > 100 ? 40 : 75, 7);
    const auto expected = exact(shape, rows, rope);
    // A number that is stored with fewer bits than a float may be rounded to the adjacent value, because the RoPE
    // rotation is computed in float.
    const double tolerance = is_packed(shape.type)         ? 1e-1
                             : shape.type == KvType::kQ8_0 ? 2e-2
                             : shape.type == KvType::kF32  ? 2e-5
                                                           : 3e-3;
    for (const CpuIsa isa : available_cpu_isas()) {
      const auto got = run(shape, rows, rope, {.isa = isa});
      REQUIRE(got.size() == expected.size());
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        const double error = std::abs(got[i] - expected[i]);
        if (!(error <= worst)) worst = error;
      }
      if (!(worst <= tolerance))
        check::fail(__FILE__, __LINE__,
                    shape.name() + " on " + std::string(cpu_isa_name(isa)) + ": off by " + std::to_string(worst));
    }
  }
}

TEST(mla_does_not_depend_on_instruction_set_chunks_pages_and_threads) {
  for (const Shape& shape : kShapes) {
    const auto frequency = frequencies(shape.row - shape.value);
    const RopeParams rope = rope_of(shape, frequency);
    // Sequences as long as two or more spans of the attention kernel are used only for small shapes, because the
    // portable kernels are slow.
    const bool small = shape.n_heads < 4;
    const Rows rows = random_rows(shape, small ? 531 : shape.row > 100 ? 30 : 45, 11);
    const auto expected = run(shape, rows, rope, {.isa = CpuIsa::kPlain, .threads = 2});
    for (const CpuIsa isa : available_cpu_isas())
      for (const std::vector<int>& cuts : std::vector<std::vector<int>>{{rows.n}, {1}, {7}, {16}, {256, 1, 15}})
        for (const int threads : {1, 3}) {
          if (isa == CpuIsa::kPlain && (!small || cuts[0] == 1)) continue;
          check_same_bits(
              run(shape, rows, rope, {.isa = isa, .threads = threads, .cuts = cuts, .first_page = 3, .page_step = 2}),
              expected,
              shape.name() + ", chunks of " + std::to_string(cuts[0]) + ", " + std::to_string(threads) +
                  " threads on " + std::string(cpu_isa_name(isa)));
        }
  }
}

// Latents are stored as 16-bit integers with scales instead of binary16 numbers. The error of the result may be at most
// 1.5 times the error with binary16 latents and everything else in float. The error reaches this bound if attention is
// spread over all positions, and is smaller otherwise.
TEST(latents_of_16_bits_are_as_precise_as_binary16) {
  const Shape shape{16, 576, 512, KvType::kF16};
  constexpr int kRows = 600, kHeads = 16;
  const Rows rows = random_rows(shape, kRows, 21);
  auto cache = CpuKvCache::create(shape.cache(kRows / kPageTokens + 1));
  REQUIRE(cache.ok());
  std::vector<int32_t> pages(kRows / kPageTokens + 1);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = int32_t(i);
  CpuBackend ops(available_cpu_isas().back(), 2);
  REQUIRE(ops.reserve(kRows, kHeads * 576, kRows, 576, {}).ok());
  std::vector<float> latents = rows.latents;
  const Segment all{0, kRows, 0, pages.data()}, last{0, 1, kRows - 1, pages.data()};
  ops.rope_and_store_latents({{}, {&all, 1}, {}, latents.data(), 576, 2, **cache});
  for (const float scale : {0.02f, 0.07f, 0.2f}) {
    std::vector<float> got(kHeads * 512);
    ops.attention({{&last, 1},
                   rows.absorbed.data(),
                   kHeads * 576,
                   kHeads,
                   2,
                   **cache,
                   {.scale = scale},
                   got.data(),
                   kHeads * 512});
    double own = 0, halves = 0;
    for (int head = 0; head < kHeads; ++head) {
      const auto attend = [&](bool rounded) {
        const auto number = [&](int p, int d) {
          const float x = rows.latents[size_t(p) * 576 + d];
          return double(rounded ? half_to_float(float_to_half(x)) : x);
        };
        std::vector<double> weights(kRows), out(512);
        double top = -1e300, sum = 0;
        for (int p = 0; p < kRows; ++p) {
          for (int d = 0; d < 576; ++d) weights[p] += double(rows.absorbed[size_t(head) * 576 + d]) * number(p, d);
          top = std::max(top, weights[p] *= double(scale));
        }
        for (double& weight : weights) sum += weight = std::exp(weight - top);
        for (int p = 0; p < kRows; ++p)
          for (int d = 0; d < 512; ++d) out[d] += weights[p] / sum * number(p, d);
        return out;
      };
      const auto exactly = attend(false), from_halves = attend(true);
      for (int d = 0; d < 512; ++d) {
        own += std::pow(got[size_t(head) * 512 + d] - exactly[d], 2);
        halves += std::pow(from_halves[d] - exactly[d], 2);
      }
    }
    const double ratio = std::sqrt(own / halves), most = scale < 0.05f ? 1.5 : 1.0;
    check::note("scale " + std::to_string(scale) + ": " + std::to_string(ratio) + " times the error of binary16");
    if (!(ratio <= most))
      check::fail(__FILE__, __LINE__, "off by " + std::to_string(ratio) + " times what binary16 would be");
  }
}

// Tests the largest possible sums: every number and weight has its maximum magnitude, with both signs.
TEST(sums_of_latents_never_overflow) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0})
    for (const CpuIsa isa : available_cpu_isas())
      for (const float sign : {1.0f, -1.0f}) {
        const Shape shape{2, 576, 512, type};
        Rows rows = random_rows(shape, 512, 3);
        std::fill(rows.latents.begin(), rows.latents.end(), sign * 3.0f);
        std::fill(rows.absorbed.begin(), rows.absorbed.end(), 0.25f);
        std::fill(rows.q.begin(), rows.q.end(), 0.25f);
        const RopeParams none{RopeStyle::kAdjacentPairs, 0, nullptr, 1.0f};
        const auto got = run(shape, rows, none, {.isa = isa});
        double worst = 0;
        for (const float x : got) worst = std::max(worst, std::abs(double(x) - sign * 3.0));
        if (worst < 3e-3) continue;
        check::fail(__FILE__, __LINE__,
                    shape.name() + " on " + std::string(cpu_isa_name(isa)) + ": off by " + std::to_string(worst));
      }
}

// NaN and infinity spread to every token that attends to them, but to no other token. The previous content of a page
// has no effect.
TEST(nan_latents_affect_only_tokens_that_attend_to_them) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kF32, KvType::kQ4_0, KvType::kQ5_0})
    for (const CpuIsa isa : available_cpu_isas())
      for (const float bad : {std::nanf(""), INFINITY}) {
        const Shape shape{3, 96, 64, type};
        Rows rows = random_rows(shape, 40, 13);
        rows.latents[21 * 96 + 5] = bad;
        const RopeParams none{RopeStyle::kAdjacentPairs, 0, nullptr, 1.0f};
        const auto got = run(shape, rows, none, {.isa = isa, .cuts = {7}});
        bool before = true, behind = true;
        for (int row = 0; row < 40; ++row)
          for (int i = 0; i < 3 * 64; ++i) {
            const bool number = std::isfinite(got[size_t(row) * 3 * 64 + i]);
            if (row < 21)
              before = before && number;
            else if (i % 64 == 5 || type != KvType::kF32)
              behind = behind && !number;
          }
        if (before && behind) continue;
        check::fail(__FILE__, __LINE__,
                    shape.name() + " on " + std::string(cpu_isa_name(isa)) + (before ? ": lost" : ": spread too far"));
      }
}

// For each position, a page stores one latent row and nothing else.
TEST(latents_are_stored_once) {
  KvShape shape{{{StateKind::kLatents, 1, 576, 512, 0}}, 10, KvType::kF16};
  // Two bytes per number, plus a scale of four bytes for each block of 256 numbers in a row.
  CHECK_EQ(CpuKvCache::bytes_for(shape), size_t{10 * 16 * (576 * 2 + 3 * 4)});
  shape.type = KvType::kQ8_0;
  CHECK_EQ(CpuKvCache::bytes_for(shape), size_t{10 * 16 * (576 + 18 * 2)});
  shape.type = KvType::kQ5_0;
  CHECK_EQ(CpuKvCache::bytes_for(shape), size_t{10 * 16 * (576 / 2 + 576 / 8 + 18 * 2)});
  shape.type = KvType::kQ4_0;
  CHECK_EQ(CpuKvCache::bytes_for(shape), size_t{10 * 16 * (576 / 2 + 18 * 2)});
  shape.layers[0].value_dim = 600;
  const auto refused = CpuKvCache::create(shape);
  CHECK(!refused.ok() && refused.error().message.find("layer 0 with latents of 576 numbers, 600 of them the value") !=
                             std::string::npos);
}

TEST(pages_of_latents_are_copied_whole) {
  auto made = CpuKvCache::create({{{StateKind::kLatents, 1, 48, 32, 0},
                                   {StateKind::kKeysAndValues, 2, 32, 16, 0},
                                   {StateKind::kLatents, 1, 40, 40, 1}},
                                  4,
                                  KvType::kF16});
  REQUIRE(made.ok());
  CpuKvCache& cache = **made;
  size_t copied = 0;
  for (const CpuKvCache::Pages& piece : cache.pieces()) {
    copied += piece.bytes;
    for (size_t i = 0; i < piece.bytes; ++i) piece.data[piece.page_stride + i] = std::byte(i * 31 % 251);
  }
  CHECK_EQ(copied * 4, cache.bytes);
  CpuBackend ops(CpuIsa::kPlain, 2);
  ops.copy_page(cache, 1, 3);
  for (const int layer : {0, 2}) {
    const CpuKvCache::Pages& rows = cache.layer(layer).values;
    CHECK(std::memcmp(rows.data + 3 * rows.page_stride, rows.data + rows.page_stride, rows.bytes) == 0);
  }
}

// Keys and values have different sizes. The results must equal the results with a cache in which both have the larger
// size and the smaller rows are padded with zeros.
TEST(keys_and_values_of_different_sizes_attend_as_if_padded) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0})
    for (const auto& [key, value] : {std::pair{48, 32}, std::pair{32, 80}, std::pair{192, 128}, std::pair{128, 256}}) {
      const int most = std::max(key, value), n = 300, n_heads = 4, n_kv = 2;
      std::mt19937 random(5);
      std::normal_distribution<float> normal;
      const auto fill = [&](int heads, int dim, std::vector<float>& tight, std::vector<float>& padded) {
        for (int i = 0; i < n * heads; ++i)
          for (int d = 0; d < most; ++d) {
            const float x = d < dim ? normal(random) : 0.0f;
            if (d < dim) tight.push_back(x);
            padded.push_back(x);
          }
      };
      std::vector<float> q, k, v, wide_q, wide_k, wide_v;
      fill(n_heads, key, q, wide_q);
      fill(n_kv, key, k, wide_k);
      fill(n_kv, value, v, wide_v);
      const auto attend = [&](CpuIsa isa, int key_dim, int value_dim, std::vector<float> queries,
                              std::vector<float> keys, const std::vector<float>& values) {
        auto cache = CpuKvCache::create({{{StateKind::kKeysAndValues, n_kv, key_dim, value_dim, 0}}, 20, type});
        CHECK(cache.ok());
        CpuBackend ops(isa, 2);
        CHECK(ops.reserve(n, n_heads * most, n, most, {}).ok());
        std::vector<int32_t> pages;
        for (int i = 0; i < 19; ++i) pages.push_back(18 - i);
        const Segment segment{0, n, 0, pages.data()};
        const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
        ops.rope_and_store({none,
                            {&segment, 1},
                            queries.data(),
                            n_heads * key_dim,
                            n_heads,
                            keys.data(),
                            n_kv * key_dim,
                            values.data(),
                            n_kv * value_dim,
                            0,
                            **cache});
        std::vector<float> out(size_t(n) * n_heads * value_dim), result;
        ops.attention({{&segment, 1},
                       queries.data(),
                       n_heads * key_dim,
                       n_heads,
                       0,
                       **cache,
                       {.scale = 0.2f},
                       out.data(),
                       n_heads * value_dim});
        for (int i = 0; i < n * n_heads; ++i)
          result.insert(result.end(), out.begin() + i * value_dim, out.begin() + i * value_dim + value);
        return result;
      };
      for (const CpuIsa isa : available_cpu_isas())
        check_same_bits(
            attend(isa, key, value, q, k, v), attend(isa, most, most, wide_q, wide_k, wide_v),
            std::to_string(key) + " and " + std::to_string(value) + " on " + std::string(cpu_isa_name(isa)));
    }
}

// Each head's product is the same as the product with the head's matrix alone.
TEST(batched_matmul_equals_the_matmul_of_each_head) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  ThreadPool pool(3);
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_0})
    for (const auto& [n_heads, rows, cols] : {std::tuple{3, 32, 64}, std::tuple{16, 48, 32}, std::tuple{5, 512, 128}})
      for (const int n_rows : {1, 7, 70}) {
        std::vector<float> weights(size_t(n_heads) * rows * cols), x(size_t(n_rows) * n_heads * (cols + 8));
        for (float& value : weights) value = normal(random);
        for (float& value : x) value = normal(random);
        const TensorTypeTraits& traits = traits_of(type);
        const size_t head_bytes = size_t(rows) * cols / traits.block_values * traits.block_bytes;
        std::vector<std::byte> data(head_bytes * n_heads);
        if (type == TensorType::kF16)
          for (size_t i = 0; i < weights.size(); ++i) {
            const uint16_t half = float_to_half(weights[i]);
            std::memcpy(data.data() + 2 * i, &half, 2);
          }
        else
          quantize(type, weights.data(), int64_t(weights.size()), data.data());
        auto all = CpuMatrix::create({type, int64_t{n_heads} * rows, cols, data}, type, pool);
        REQUIRE(all.ok());
        MatmulScratch scratch;
        CHECK(scratch.reserve(n_rows, n_heads * (cols + 8), pool.size()).ok());
        for (const CpuIsa isa : available_cpu_isas()) {
          std::vector<float> out(size_t(n_rows) * n_heads * (rows + 3), -1.0f);
          cpu_matmul_heads(matmul_kernels(isa), pool, scratch,
                           {all->get(), n_heads, rows - 3, x.data(), n_heads * (cols + 8), cols + 8, out.data(),
                            n_heads * (rows + 3), rows + 3},
                           n_rows);
          for (int head = 0; head < n_heads; ++head) {
            auto own = CpuMatrix::create({type, rows, cols, std::span(data).subspan(head * head_bytes, head_bytes)},
                                         type, pool);
            REQUIRE(own.ok());
            std::vector<float> dense, product(size_t(n_rows) * rows), got, wanted;
            for (int row = 0; row < n_rows; ++row) {
              const auto from = x.begin() + (row * n_heads + head) * (cols + 8);
              dense.insert(dense.end(), from, from + cols);
            }
            const MatmulTarget target{own->get(), product.data(), rows};
            cpu_matmul(matmul_kernels(isa), pool, scratch, {&target, 1}, dense.data(), n_rows);
            for (int row = 0; row < n_rows; ++row) {
              const auto at = out.begin() + (row * n_heads + head) * (rows + 3);
              got.insert(got.end(), at, at + rows);
              wanted.insert(wanted.end(), product.begin() + row * rows, product.begin() + (row + 1) * rows - 3);
              wanted.insert(wanted.end(), 3, -1.0f);  // Output elements after the requested rows stay unchanged.
            }
            check_same_bits(got, wanted,
                            std::string(traits.name) + ", head " + std::to_string(head) + " of " +
                                std::to_string(n_heads) + ", " + std::to_string(n_rows) + " rows on " +
                                std::string(cpu_isa_name(isa)));
          }
        }
      }
}

// Sparse attention: each token selects positions by the sum of the indexer's scores over its heads, and attends to
// these positions as if the sequence consisted only of them. A token with at most top-k positions attends to all of
// them. Tested with every instruction set, with various divisions into chunks, and with various numbers of threads.
TEST(sparse_attention_uses_the_selected_latents) {
  constexpr int kRow = 82, kValue = 48, kHeads = 5, kIndexHeads = 37, kIndexDim = 32, kMax = 20, kRows = 60;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto numbers = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) x = normal(random);
    return values;
  };
  const std::vector<float> q = numbers(kRows * kHeads * kRow), latents = numbers(kRows * kRow),
                           keys = numbers(kRows * kIndexDim), index_q = numbers(kRows * kIndexHeads * kIndexDim),
                           weights = numbers(kRows * kIndexHeads);
  const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0}) {
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas())
      for (const auto& [threads, piece] : {std::pair{1, kRows}, std::pair{3, 7}}) {
        CpuBackend ops(isa, threads);
        CHECK(ops.reserve(kRows, kHeads * kRow, kRows, kRow, {}).ok());
        KvShape shape{{{StateKind::kLatents, 1, kRow, kValue, 0}, {StateKind::kLatents, 1, kIndexDim, kIndexDim, 1}},
                      9,
                      type,
                      kMax};
        auto made = CpuKvCache::create(shape);
        REQUIRE(made.ok());
        CHECK_EQ((*made)->bytes, CpuKvCache::bytes_for(shape));
        CpuKvCache& cache = **made;
        const std::vector<int32_t> pages = {7, 2, 5, 0};
        std::vector<float> all, chosen(kRows * kMax);
        for (int at = 0; at < kRows; at += piece) {
          const int n = std::min(piece, kRows - at);
          const Segment segment{0, n, at, pages.data()};
          std::vector<float> own(latents.begin() + at * kRow, latents.begin() + (at + n) * kRow),
              out(n * kHeads * kValue);
          std::vector<float> own_keys(keys.begin() + at * kIndexDim, keys.begin() + (at + n) * kIndexDim);
          ops.rope_and_store_latents({none, {&segment, 1}, {}, own.data(), kRow, 0, cache});
          ops.rope_and_store_latents({none, {&segment, 1}, {}, own_keys.data(), kIndexDim, 1, cache});
          float* const to = chosen.data() + at * kMax;
          ops.select_positions(
              {index_q.data() + at * kIndexHeads * kIndexDim, weights.data() + at * kIndexHeads, kIndexHeads, 1, kMax},
              {&segment, 1}, cache, to);
          ops.attention({{&segment, 1},
                         q.data() + at * kHeads * kRow,
                         kHeads * kRow,
                         kHeads,
                         0,
                         cache,
                         {.scale = 0.1f, .chosen = to, .most_chosen = kMax},
                         out.data(),
                         kHeads * kValue});
          all.insert(all.end(), out.begin(), out.end());
        }
        if (first.empty()) first = all;
        check_same_bits(all, first, "chosen on " + std::string(cpu_isa_name(isa)));
        for (int row = 0; row < kRows; ++row) {
          std::vector<int32_t> positions(std::min(row + 1, kMax));
          if (row < kMax) {
            for (int p = 0; p <= row; ++p) positions[p] = p;
          } else {
            std::memcpy(positions.data(), chosen.data() + row * kMax, kMax * 4);
            // No skipped position has a higher score than a selected position, apart from differences due to rounding
            // of the keys.
            std::vector<double> scores(row + 1);
            for (int p = 0; p <= row; ++p)
              for (int head = 0; head < kIndexHeads; ++head) {
                double product = 0;
                for (int d = 0; d < kIndexDim; ++d)
                  product += double(index_q[(row * kIndexHeads + head) * kIndexDim + d]) * keys[p * kIndexDim + d];
                scores[p] += weights[row * kIndexHeads + head] * std::max(0.0, product);
              }
            double least = 1e300, most = -1e300;
            for (int p = 0; p <= row; ++p) {
              if (std::binary_search(positions.begin(), positions.end(), p))
                least = std::min(least, scores[p]);
              else
                most = std::max(most, scores[p]);
            }
            CHECK(std::is_sorted(positions.begin(), positions.end()) && positions.back() <= row);
            CHECK(most - least < (type == KvType::kF32    ? 1e-3
                                  : type == KvType::kF16  ? 0.1
                                  : type == KvType::kQ8_0 ? 2.0
                                  : type == KvType::kQ5_0 ? 10.0
                                                          : 20.0));
          }
          if (isa != available_cpu_isas().back() || threads > 1 || row % 7 != 4) continue;
          // Computes attention for the same rows alone, in a separate KV cache.
          auto apart = CpuKvCache::create({{{StateKind::kLatents, 1, kRow, kValue, 0}}, 4, type});
          REQUIRE(apart.ok());
          const std::vector<int32_t> in_order = {0, 1, 2, 3};
          std::vector<float> gathered, out(kHeads * kValue);
          for (const int32_t p : positions)
            gathered.insert(gathered.end(), latents.begin() + p * kRow, latents.begin() + (p + 1) * kRow);
          const int n = static_cast<int>(positions.size());
          const Segment stored{0, n, 0, in_order.data()}, last{0, 1, n - 1, in_order.data()};
          ops.rope_and_store_latents({none, {&stored, 1}, {}, gathered.data(), kRow, 0, **apart});
          ops.attention({{&last, 1},
                         q.data() + row * kHeads * kRow,
                         kHeads * kRow,
                         kHeads,
                         0,
                         **apart,
                         {.scale = 0.1f},
                         out.data(),
                         kHeads * kValue});
          check_same_bits({all.begin() + row * kHeads * kValue, all.begin() + (row + 1) * kHeads * kValue}, out,
                          "row " + std::to_string(row));
        }
      }
  }
}
