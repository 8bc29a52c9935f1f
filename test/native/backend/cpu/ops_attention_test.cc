// Tests attention and the KV cache. Results are compared with double precision. They must be bit-identical with every
// instruction set and for any division into chunks, any pages and any number of threads. Pages initially contain NaN,
// which an earlier request may have left there.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;

namespace {

struct Shape {
  int n_heads, n_kv_heads, head_dim;
  KvType type;
  std::string name() const {
    return std::to_string(n_heads) + "/" + std::to_string(n_kv_heads) + " heads of " + std::to_string(head_dim) +
           (type == KvType::kF16    ? ", f16"
            : type == KvType::kF32  ? ", f32"
            : type == KvType::kQ8_0 ? ", q8_0"
            : type == KvType::kQ5_0 ? ", q5_0"
                                    : ", q4_0");
  }
};

// The queries, keys and values of one sequence, before RoPE.
struct Rows {
  int n;
  std::vector<float> q, k, v;
};

Rows random_rows(const Shape& shape, int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Rows rows{n, {}, {}, {}};
  rows.q.resize(size_t(n) * shape.n_heads * shape.head_dim);
  rows.k.resize(size_t(n) * shape.n_kv_heads * shape.head_dim);
  rows.v.resize(rows.k.size());
  for (auto* values : {&rows.q, &rows.k, &rows.v})
    for (float& x : *values) x = normal(random);
  return rows;
}

constexpr int kLayers = 2;

struct Setup {
  CpuIsa isa = CpuIsa::kPlain;
  int threads = 1;
  std::vector<int> cuts = {};  // Segment lengths, one attention call per segment. Empty = a single segment.
  int first_page = 0, page_step = 1;
  int window = 0;
  float soft_cap = 0.0f;
  const float* sinks = nullptr;
  bool chunked = false;
  int seen_begin = 0, seen_end = 0;  // Tokens that attend to each other bidirectionally.
  // RoPE positions of all tokens. If the list is empty, each token's RoPE position is its position in the sequence.
  std::vector<RopePosition> rope_positions = {};
  Arithmetic arithmetic = Arithmetic::kProduction;
};

AttentionParams params_of(const Shape& shape, int window, float soft_cap) {
  return {.scale = 1.0f / std::sqrt(float(shape.head_dim)), .window = window, .soft_cap = soft_cap};
}

// Runs one sequence through rope_and_store and attention in layer 1. Returns [n][n_heads][head_dim].
std::vector<float> run(const Shape& shape, const Rows& rows, const RopeParams& rope, const Setup& setup) {
  const int n_pages_used = (rows.n + kPageTokens - 1) / kPageTokens;
  const int n_pages = setup.first_page + n_pages_used * setup.page_step + 1;
  auto cache =
      CpuKvCache::create(KvShape::of_equal_layers(kLayers, shape.n_kv_heads, shape.head_dim, n_pages, shape.type));
  if (!cache) {
    check::fail(__FILE__, __LINE__, cache.error().message);
    return {};
  }
  // Fills the KV cache with 0xff bytes, which are NaN both as binary16 and as binary32.
  std::memset((*cache)->layer(0).keys.of_head(0), 0xff, (*cache)->bytes);
  std::vector<int32_t> pages(n_pages_used);
  for (int i = 0; i < n_pages_used; ++i)  // Pages in descending order, with gaps between them.
    pages[i] = setup.first_page + (n_pages_used - 1 - i) * setup.page_step;

  CpuBackend ops(setup.isa, setup.threads, setup.arithmetic);
  const int64_t q_dim = int64_t{shape.n_heads} * shape.head_dim;
  const int64_t kv_dim = int64_t{shape.n_kv_heads} * shape.head_dim;
  const Status reserved = ops.reserve(rows.n, q_dim, rows.n, shape.head_dim, {});
  CHECK(reserved.ok());
  std::vector<float> out(rows.q.size(), -1.0f);
  const std::vector<int> cuts = setup.cuts.empty() ? std::vector<int>{rows.n} : setup.cuts;
  int at = 0;
  for (size_t c = 0; at < rows.n; ++c) {
    int n = std::min(cuts[c % cuts.size()], rows.n - at);
    // Tokens with bidirectional attention are passed together in one call, as a separate segment.
    const bool together = at >= setup.seen_begin && at < setup.seen_end;
    if (at < setup.seen_begin) n = std::min(n, setup.seen_begin - at);
    if (together) n = setup.seen_end - at;
    // Pages that lie entirely before the sliding window of this call's first token must not be read. They are given an
    // invalid page number.
    if (setup.window > 0)
      for (int p = 0; (p + 1) * kPageTokens <= (setup.chunked ? at - at % setup.window : at - setup.window + 1); ++p)
        pages[p] = -1;
    std::vector<float> q(rows.q.begin() + at * q_dim, rows.q.begin() + (at + n) * q_dim);
    std::vector<float> k(rows.k.begin() + at * kv_dim, rows.k.begin() + (at + n) * kv_dim);
    Segment segment = {0, n, at, pages.data()};
    if (together) segment.seen_end = setup.seen_end;
    if (!setup.rope_positions.empty()) segment.rope_positions = setup.rope_positions.data() + at;
    ops.rope_and_store({rope,
                        {&segment, 1},
                        q.data(),
                        q_dim,
                        shape.n_heads,
                        k.data(),
                        kv_dim,
                        rows.v.data() + at * kv_dim,
                        kv_dim,
                        1,
                        **cache});
    AttentionParams params = params_of(shape, setup.window, setup.soft_cap);
    params.sinks = setup.sinks;
    params.chunked = setup.chunked;
    ops.attention({{&segment, 1}, q.data(), q_dim, shape.n_heads, 1, **cache, params, out.data() + at * q_dim, q_dim});
    at += n;
  }
  return out;
}

std::vector<float> frequencies(int n_dims) {
  std::vector<float> f(n_dims / 2);
  for (int i = 0; i < n_dims / 2; ++i) f[i] = float(std::pow(10000.0, -2.0 * i / n_dims));
  return f;
}

void rotate_exactly(const RopeParams& rope, const RopePosition& place, std::vector<double>& x) {
  for (int i = 0; i < rope.n_dims / 2; ++i) {
    const int axis = rope.axes == nullptr ? 0 : rope.axes[i];
    const int position = axis == 0 ? place.time : axis == 1 ? place.height : place.width;
    const int a = rope.style == RopeStyle::kAdjacentPairs ? 2 * i : i;
    const int b = rope.style == RopeStyle::kAdjacentPairs ? 2 * i + 1 : i + rope.n_dims / 2;
    const double angle = double(position) * rope.inverse_frequency[i];
    const double c = std::cos(angle) * rope.magnitude, s = std::sin(angle) * rope.magnitude;
    const double xa = x[a], xb = x[b];
    x[a] = xa * c - xb * s;
    x[b] = xa * s + xb * c;
  }
}

// Rounds to 8 bits and back, in blocks of 32 values with one scale each. In the KV cache, the scale is stored as
// binary16.
void round_to_q8(std::vector<double>& x, bool half_scale) {
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    const size_t end = std::min(begin + 32, x.size());
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    double scale = largest / 127;
    if (half_scale) scale = half_to_float(float_to_half(float(scale)));
    for (size_t i = begin; i < end; ++i)
      x[i] = scale > 0 ? std::clamp(std::nearbyint(x[i] / scale), -127.0, 127.0) * scale : 0;
  }
}

// Rotates by the matrix of Sylvester's construction, in blocks of the largest power of two that divides the size, at
// most 128.
void rotate_by_hadamard(std::vector<double>& x) {
  size_t size = 1;
  while (size < 128 && x.size() % (2 * size) == 0) size *= 2;
  const std::vector<double> before = x;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 0;
    for (size_t j = 0; j < size; ++j)
      x[i] += (std::popcount((i % size) & j) % 2 == 0 ? 1 : -1) * before[i / size * size + j] / std::sqrt(double(size));
  }
}

// Rounds to 4 or 5 bits and back, in blocks of 32 values. The value of the largest magnitude becomes -zero.
void round_to_packed(std::vector<double>& x, int zero) {
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    const size_t end = std::min(begin + 32, x.size());
    double top = 0;
    for (size_t i = begin; i < end; ++i)
      if (std::abs(x[i]) > std::abs(top)) top = x[i];
    const double scale = half_to_float(float_to_half(float(top / -zero)));
    for (size_t i = begin; i < end; ++i)
      x[i] = scale != 0 ? std::clamp(std::nearbyint(x[i] / scale), -double(zero), zero - 1.0) * scale : 0;
  }
}

// Computes attention by its definition, in double precision. Keys and values are rounded as in the KV cache, and
// queries as in the kernel's dot products. If `unrounded` is true, nothing is rounded.
std::vector<double> exact(const Shape& shape, const Rows& rows, const RopeParams& rope, int window = 0,
                          double soft_cap = 0, bool unrounded = false, const std::vector<float>& sinks = {},
                          bool chunked = false, int seen_begin = 0, int seen_end = 0,
                          const std::vector<RopePosition>& rope_positions = {}) {
  const auto place = [&](int row) {
    return rope_positions.empty() ? RopePosition{row, row, row} : rope_positions[size_t(row)];
  };
  const int dim = shape.head_dim, group = shape.n_heads / shape.n_kv_heads;
  const KvType type = unrounded ? KvType::kF32 : shape.type;
  std::vector<std::vector<double>> keys(size_t(rows.n) * shape.n_kv_heads), values = keys;
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i].assign(rows.k.begin() + i * dim, rows.k.begin() + (i + 1) * dim);
    rotate_exactly(rope, place(int(i) / shape.n_kv_heads), keys[i]);
    values[i].assign(rows.v.begin() + i * dim, rows.v.begin() + (i + 1) * dim);
    for (auto* row : {&keys[i], &values[i]}) {
      if (is_packed(type)) {
        rotate_by_hadamard(*row);
        round_to_packed(*row, packed_zero(type));
        rotate_by_hadamard(*row);
      }
      if (type == KvType::kQ8_0) round_to_q8(*row, true);
      if (type == KvType::kF16)
        for (double& x : *row) x = half_to_float(float_to_half(float(x)));
    }
  }
  std::vector<double> out(rows.q.size());
  for (int row = 0; row < rows.n; ++row)
    for (int head = 0; head < shape.n_heads; ++head) {
      const size_t at = (size_t(row) * shape.n_heads + head) * dim;
      const int last = row >= seen_begin && row < seen_end ? seen_end - 1 : row;
      std::vector<double> q(rows.q.begin() + at, rows.q.begin() + at + dim), weights(last + 1);
      rotate_exactly(rope, place(row), q);
      if (is_packed(type)) rotate_by_hadamard(q);
      if (type == KvType::kQ8_0 || is_packed(type)) round_to_q8(q, false);
      if (is_packed(type)) rotate_by_hadamard(q);
      double top = -1e300, sum = 0;
      const int start = chunked ? row - row % window : window > 0 ? std::max(0, row - window + 1) : 0;
      for (int p = start; p <= last; ++p) {
        const auto& key = keys[size_t(p) * shape.n_kv_heads + head / group];
        for (int d = 0; d < dim; ++d) weights[p] += q[d] * key[d];
        weights[p] /= std::sqrt(double(dim));
        if (soft_cap > 0) weights[p] = soft_cap * std::tanh(weights[p] / soft_cap);
        top = std::max(top, weights[p]);
      }
      for (int p = start; p <= last; ++p) sum += weights[p] = std::exp(weights[p] - top);
      if (!sinks.empty()) sum += std::exp(sinks[head] - top);
      for (int p = start; p <= last; ++p)
        for (int d = 0; d < dim; ++d)
          out[at + d] += weights[p] / sum * values[size_t(p) * shape.n_kv_heads + head / group][d];
    }
  return out;
}

// Compares all elements and reports the one with the largest error. An error of NaN counts as the largest.
void check_close(const std::vector<float>& got, const std::vector<double>& expected, double tolerance, int64_t row_size,
                 const std::string& what) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    if (!(error <= worst)) worst = error, at = i;
    if (std::isnan(error)) break;
  }
  if (!(worst <= tolerance))
    check::fail(__FILE__, __LINE__,
                what + ": row " + std::to_string(at / row_size) + " column " + std::to_string(at % row_size) + " is " +
                    std::to_string(got[at]) + ", expected " + std::to_string(expected[at]) + ", tolerance " +
                    std::to_string(tolerance));
}

void check_same_bits(const std::vector<float>& got, const std::vector<float>& expected, int64_t row_size,
                     const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &expected[i], 4) != 0)
      return check::fail(__FILE__, __LINE__,
                         what + ": row " + std::to_string(i / row_size) + " column " + std::to_string(i % row_size) +
                             " is " + std::to_string(got[i]) + ", expected the bits of " + std::to_string(expected[i]));
}

// Scores and sums are chains of float operations on values of order 1, with a score error of about sqrt(head_dim) *
// 2^-24 * |score|. The error of the weighted mean is then at most a few times as large. In binary16, the stored key is
// rounded from a float rotation, so about one in 2^13 keys is rounded to the adjacent binary16 number, which is 2^-11
// away. With 8 bits, the adjacent number is 2^-6 away, with 5 bits 2^-3, and with 4 bits 2^-2.
double tolerance_of(const Shape& shape) {
  if (shape.type == KvType::kQ4_0) return 8e-2;
  if (shape.type == KvType::kQ5_0) return 5e-2;
  if (shape.type == KvType::kQ8_0) return 2e-2;
  return shape.type == KvType::kF32 ? 2e-6 * std::sqrt(double(shape.head_dim)) : 1.5e-3;
}

const std::vector<Shape> kShapes = {
    {4, 4, 32, KvType::kF16},    {4, 2, 64, KvType::kF16},    {4, 1, 80, KvType::kF32},   {8, 1, 96, KvType::kF16},
    {8, 2, 128, KvType::kF32},   {16, 2, 64, KvType::kF32},   {14, 2, 128, KvType::kF16}, {4, 2, 256, KvType::kF16},
    {7, 1, 80, KvType::kF16},    {40, 1, 32, KvType::kF32},   {3, 3, 40, KvType::kF16},   {4, 2, 64, KvType::kQ8_0},
    {14, 2, 128, KvType::kQ8_0}, {7, 1, 80, KvType::kQ8_0},   {3, 3, 42, KvType::kQ8_0},  {40, 1, 96, KvType::kQ8_0},
    {4, 2, 64, KvType::kQ4_0},   {14, 2, 128, KvType::kQ5_0}, {7, 1, 80, KvType::kQ4_0},  {3, 3, 42, KvType::kQ5_0},
    {40, 1, 96, KvType::kQ4_0},  {3, 3, 36, KvType::kQ4_0},   {4, 1, 80, KvType::kQ5_0},  {2, 2, 256, KvType::kQ4_0},
};

}  // namespace

TEST(attention_matches_the_definition_in_double) {
  for (const Shape& shape : kShapes) {
    const auto frequency = frequencies(shape.head_dim / 4 * 2);
    const RopeParams rope = {shape.head_dim % 64 ? RopeStyle::kAdjacentPairs : RopeStyle::kHalves,
                             shape.head_dim / 4 * 2, frequency.data(), 1.2f};
    const Rows rows = random_rows(shape, 53, 7);
    const auto expected = exact(shape, rows, rope);
    for (const CpuIsa isa : available_cpu_isas())
      check_close(run(shape, rows, rope, {.isa = isa}), expected, tolerance_of(shape),
                  int64_t{shape.n_heads} * shape.head_dim, shape.name() + " on " + std::string(cpu_isa_name(isa)));
  }
}

// Compares Arithmetic::kFast with the default arithmetic. If a tile has enough queries, kFast splits each factor into
// two bfloat16 numbers, or sums the scores of wide heads in another order. Covers several spans, incomplete pages,
// windows, chunks, sinks, soft caps, and segments of any length. Unused memory is filled with NaN.
TEST(fast_attention_is_close_to_production) {
  if (!cpu_has(CpuIsa::kAmx)) return check::skip("this processor has no AMX");
  const float sinks[] = {0.5f, -1.0f, 0.0f, 2.0f, 1.0f, 0.25f, -0.5f, 0.75f};
  for (const Shape& shape :
       {Shape{8, 2, 64, KvType::kF16}, Shape{3, 3, 32, KvType::kF16}, Shape{7, 1, 96, KvType::kF16},
        Shape{8, 2, 128, KvType::kF16}, Shape{2, 1, 192, KvType::kF16}}) {
    const auto frequency = frequencies(shape.head_dim);
    const RopeParams rope = {RopeStyle::kHalves, shape.head_dim, frequency.data(), 1.0f};
    const Rows rows = random_rows(shape, 619, 31);
    const bool even = shape.n_heads == 8;
    for (Setup setup : {Setup{}, Setup{.threads = 3, .cuts = {1, 17, 300, 5}}, Setup{.window = 100},
                        Setup{.window = 128, .chunked = true}, Setup{.soft_cap = 5.0f},
                        Setup{.sinks = even ? sinks : nullptr}, Setup{.seen_begin = 40, .seen_end = 90}}) {
      setup.isa = CpuIsa::kAmx;
      const auto expected = run(shape, rows, rope, setup);
      setup.arithmetic = Arithmetic::kFast;
      const auto got = run(shape, rows, rope, setup);
      double error = 0, size = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(double(got[i]) - expected[i], 2);
        size += std::pow(double(expected[i]), 2);
      }
      const double relative = std::sqrt(error / size);
      check::note(shape.name() + ": relative error " + std::to_string(relative));
      CHECK(relative > 1e-7 && relative < 2e-5);
    }
  }
}

// Compares attention over 8-bit pages with attention in double precision over unrounded keys and values: the error is a
// few hundredths for values of order 1.
TEST(attention_over_8_bit_pages_stays_close_to_unrounded_keys_and_values) {
  const Shape shape = {8, 2, 128, KvType::kQ8_0};
  const auto frequency = frequencies(128);
  const RopeParams rope = {RopeStyle::kHalves, 128, frequency.data(), 1.0f};
  const Rows rows = random_rows(shape, 300, 29);
  const auto expected = exact(shape, rows, rope, 0, 0, true);
  const std::vector<float> got = run(shape, rows, rope, {.isa = available_cpu_isas().back()});
  double sum = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i)
    sum += (got[i] - expected[i]) * (got[i] - expected[i]), size += expected[i] * expected[i];
  check::note("relative error " + std::to_string(std::sqrt(sum / size)));
  CHECK(std::sqrt(sum / size) < 0.015);
  check_close(got, expected, 0.1, 8 * 128, "8 bits");
}

// An 8-bit page takes half as many bytes as a binary16 page, plus the scales, which are one byte in 17 of the 8-bit
// page.
TEST(an_8_bit_page_takes_just_over_half_the_memory) {
  for (const int head_dim : {64, 80, 128, 256}) {
    const size_t half = CpuKvCache::bytes_for(KvShape::of_equal_layers(2, 3, head_dim, 100, KvType::kF16));
    const size_t eight = CpuKvCache::bytes_for(KvShape::of_equal_layers(2, 3, head_dim, 100, KvType::kQ8_0));
    CHECK(eight * 100 <= half * 55);
  }
}

// Compares attention over pages of each packed type with attention in double precision over unrounded keys and values.
// As in many models, a few dimensions are much larger than the others. Without the rotation, the errors would be about
// twice as large.
TEST(packed_pages_stay_close_to_unrounded_keys_and_values) {
  for (const auto& [type, most] : {std::pair{KvType::kQ5_0, 0.085}, {KvType::kQ4_0, 0.17}})
    for (const int dim : {64, 128}) {
      const Shape shape = {8, 2, dim, type};
      const auto frequency = frequencies(dim);
      const RopeParams rope = {RopeStyle::kHalves, dim, frequency.data(), 1.0f};
      Rows rows = random_rows(shape, 300, 29);
      for (int i = 0; i < 300 * 2; ++i)
        for (const int d : {3, 17, 40})
          for (auto* values : {&rows.k, &rows.v}) values->at(size_t(i) * dim + d) *= 8;
      for (int i = 0; i < 300 * 8; ++i)  // Queries of such models have small numbers in these dimensions.
        for (const int d : {3, 17, 40})
          for (const int pair : {d, (d + dim / 2) % dim}) rows.q[size_t(i) * dim + pair] /= 8;
      const auto expected = exact(shape, rows, rope, 0, 0, true);
      const std::vector<float> got = run(shape, rows, rope, {.isa = available_cpu_isas().back()});
      double sum = 0, size = 0;
      for (size_t i = 0; i < got.size(); ++i)
        sum += (got[i] - expected[i]) * (got[i] - expected[i]), size += expected[i] * expected[i];
      const double error = std::sqrt(sum / size);
      check::note(shape.name() + ": relative error " + std::to_string(error));
      if (!(error < most)) check::fail(__FILE__, __LINE__, shape.name() + ": relative error " + std::to_string(error));
    }
}

TEST(packed_pages_take_4_and_a_half_or_5_and_a_half_bits_per_number) {
  for (const int head_dim : {64, 80, 128, 256}) {
    const auto bytes = [&](KvType type) {
      return double(CpuKvCache::bytes_for(KvShape::of_equal_layers(2, 3, head_dim, 100, type)));
    };
    // Heads of 80 dimensions are padded to 96.
    const double numbers = 2.0 * 2 * 3 * 100 * 16 * (head_dim == 80 ? 96 : head_dim);
    CHECK(bytes(KvType::kQ4_0) <= numbers * 4.5 / 8 && bytes(KvType::kQ5_0) <= numbers * 5.5 / 8);
    if (head_dim != 80) CHECK(bytes(KvType::kQ4_0) < 0.54 * bytes(KvType::kQ8_0));
  }
}

// For wide heads, pages store 16-bit integers with scales instead of binary16 numbers. The error of a head's result may
// be at most 1.5 times the error with binary16 keys and values and with unrounded queries and sums. The error reaches
// this bound if attention is spread over all positions, and is smaller otherwise. It is three times as large if one key
// dimension is thirty times as large as the others: the other dimensions then keep fewer bits, whereas binary16 loses
// nothing.
TEST(wide_heads_are_as_precise_as_binary16) {
  constexpr int kRows = 600, kHeads = 8;
  for (const int dim : {128, 256})
    for (const float outlier : {1.0f, 30.0f}) {
      const Shape shape{kHeads, 1, dim, KvType::kF16};
      Rows rows = random_rows(shape, kRows, 19);
      for (int p = 0; p < kRows; ++p) rows.k[size_t(p) * dim + 3] *= outlier;
      // Without this division, the outlier dimension alone would determine the scores.
      for (int i = 0; i < kRows * kHeads; ++i) rows.q[size_t(i) * dim + 3] /= outlier;
      auto cache = CpuKvCache::create(KvShape::of_equal_layers(1, 1, dim, kRows / kPageTokens + 1, shape.type));
      REQUIRE(cache.ok());
      std::vector<int32_t> pages(kRows / kPageTokens + 1);
      for (size_t i = 0; i < pages.size(); ++i) pages[i] = int32_t(i);
      CpuBackend ops(available_cpu_isas().back(), 2);
      REQUIRE(ops.reserve(kRows, kHeads * dim, kRows, dim, {}).ok());
      const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
      std::vector<float> q = rows.q, k = rows.k;
      const Segment all{0, kRows, 0, pages.data()}, last{0, 1, kRows - 1, pages.data()};
      ops.rope_and_store(
          {none, {&all, 1}, q.data(), kHeads * dim, kHeads, k.data(), dim, rows.v.data(), dim, 0, **cache});
      for (const float scale : {0.02f, 0.09f, 0.3f}) {
        std::vector<float> got(kHeads * dim);
        ops.attention(
            {{&last, 1}, rows.q.data(), kHeads * dim, kHeads, 0, **cache, {.scale = scale}, got.data(), kHeads * dim});
        double own = 0, halves = 0;
        for (int head = 0; head < kHeads; ++head) {
          const auto attend = [&](bool rounded) {
            const auto number = [&](float x) { return double(rounded ? half_to_float(float_to_half(x)) : x); };
            std::vector<double> weights(kRows), out(dim);
            double top = -1e300, sum = 0;
            for (int p = 0; p < kRows; ++p) {
              for (int d = 0; d < dim; ++d)
                weights[p] += double(rows.q[size_t(head) * dim + d]) * number(rows.k[size_t(p) * dim + d]);
              top = std::max(top, weights[p] *= double(scale));
            }
            for (double& weight : weights) sum += weight = std::exp(weight - top);
            for (int p = 0; p < kRows; ++p)
              for (int d = 0; d < dim; ++d) out[d] += weights[p] / sum * number(rows.v[size_t(p) * dim + d]);
            return out;
          };
          const auto exactly = attend(false), from_halves = attend(true);
          for (int d = 0; d < dim; ++d) {
            own += std::pow(got[size_t(head) * dim + d] - exactly[d], 2);
            halves += std::pow(from_halves[d] - exactly[d], 2);
          }
        }
        const double ratio = std::sqrt(own / halves), most = outlier > 1 ? 4.0 : scale < 0.05f ? 1.6 : 1.0;
        const std::string what = "heads of " + std::to_string(dim) + ", a dimension " + std::to_string(int(outlier)) +
                                 " times, scale " + std::to_string(scale);
        check::note(what + ": " + std::to_string(ratio) + " times the error of binary16");
        if (!(ratio <= most))
          check::fail(__FILE__, __LINE__, what + ": off by " + std::to_string(ratio) + " times what binary16 would be");
      }
    }
}

// Tests the largest possible sums: every number and weight has its maximum magnitude, with both signs.
TEST(sums_of_wide_heads_never_overflow) {
  for (const CpuIsa isa : available_cpu_isas())
    for (const float sign : {1.0f, -1.0f}) {
      const Shape shape{2, 1, 256, KvType::kF16};
      Rows rows = random_rows(shape, 290, 3);
      std::fill(rows.q.begin(), rows.q.end(), 0.25f);
      for (auto* numbers : {&rows.k, &rows.v}) std::fill(numbers->begin(), numbers->end(), sign * 3.0f);
      const std::vector<double> expected(rows.q.size(), sign * 3.0);
      check_close(run(shape, rows, {RopeStyle::kHalves, 0, nullptr, 1}, {.isa = isa}), expected, 3e-3, 2 * 256,
                  std::string(cpu_isa_name(isa)));
    }
}

// Two bytes per number, plus a scale of four bytes for each block of 256 numbers in a row.
TEST(pages_of_wide_heads_have_a_scale_per_256_numbers) {
  CHECK_EQ(CpuKvCache::bytes_for(KvShape::of_equal_layers(2, 3, 128, 100, KvType::kF16)),
           size_t{2 * 2 * 3 * 100 * 16 * (128 * 2 + 4)});
  CHECK_EQ(CpuKvCache::bytes_for(KvShape::of_equal_layers(1, 1, 512, 100, KvType::kF16)),
           size_t{2 * 100 * 16 * (512 * 2 + 8)});
  CHECK_EQ(CpuKvCache::bytes_for(KvShape::of_equal_layers(1, 1, 112, 100, KvType::kF16)),
           size_t{2 * 100 * 16 * 112 * 2});
}

// Tests zeros, values that are too small or too large for the scale, NaN and infinity.
TEST(quantizing_to_8_bits_is_correct_at_the_limits) {
  for (const CpuIsa isa : available_cpu_isas()) {
    const OpKernels& kernels = op_kernels(isa);
    const auto quantized = [&](std::vector<float> x) {
      int8_t numbers[kQ8Block];
      uint16_t scale;
      kernels.quantize_q8(x.data(), int(x.size()), numbers, &scale);
      for (size_t i = x.size(); i < kQ8Block; ++i) CHECK_EQ(int(numbers[i]), 0);
      for (size_t i = 0; i < x.size(); ++i) x[i] = numbers[i] * half_to_float(scale);
      return x;
    };
    CHECK(quantized({0, 0, 0}) == (std::vector<float>{0, 0, 0}));
    CHECK(quantized({1e-30f, -1e-9f}) == (std::vector<float>{0, 0}));
    CHECK(quantized({127, -63.5f, 1.5f, 2.5f}) == (std::vector<float>{127, -64, 2, 2}));
    CHECK(quantized({3e38f})[0] == 127 * 65504.0f);
    CHECK(std::isnan(quantized({1, std::numeric_limits<float>::infinity()})[0]));
    CHECK(std::isnan(quantized(std::vector<float>(20, std::nanf("")))[19]));
  }
}

// The value of the largest magnitude uses the whole range, regardless of its sign.
TEST(quantizing_to_packed_numbers_is_correct_at_the_limits) {
  for (const CpuIsa isa : available_cpu_isas()) {
    const OpKernels& kernels = op_kernels(isa);
    for (const int zero : {8, 16}) {
      const auto quantized = [&](std::vector<float> x) {
        int8_t numbers[kQ8Block];
        uint16_t scale;
        kernels.quantize_packed(x.data(), int(x.size()), zero, numbers, &scale);
        for (size_t i = x.size(); i < kQ8Block; ++i) CHECK_EQ(int(numbers[i]), 0);
        for (size_t i = 0; i < x.size(); ++i) {
          CHECK(numbers[i] >= -zero && numbers[i] < zero);
          x[i] = numbers[i] * half_to_float(scale);
        }
        return x;
      };
      const auto z = float(zero);
      CHECK(quantized({0, 0, 0}) == (std::vector<float>{0, 0, 0}));
      CHECK(quantized({1e-30f, -1e-9f}) == (std::vector<float>{0, 0}));
      CHECK(quantized({z, 1.5f, 2.5f, -z}) == (std::vector<float>{z, 2, 2, 1 - z}));
      CHECK(quantized({-z, 1.5f, 2.5f, z}) == (std::vector<float>{1 - z, 2, 2, z}));
      CHECK(quantized({3e38f})[0] == z * 65504.0f);
      CHECK(quantized({-3e38f})[0] == -z * 65504.0f);
      CHECK(std::isnan(quantized({1, std::numeric_limits<float>::infinity()})[0]));
      CHECK(std::isnan(quantized({1, 2, std::nanf("")})[0]));
    }
  }
}

TEST(attention_over_several_spans_matches_the_definition_in_double) {
  const Shape shape = {4, 2, 32, KvType::kF32};
  const auto frequency = frequencies(32);
  const RopeParams rope = {RopeStyle::kHalves, 32, frequency.data(), 1.0f};
  const Rows rows = random_rows(shape, 600, 3);
  const auto expected = exact(shape, rows, rope);
  for (const CpuIsa isa : available_cpu_isas())
    check_close(run(shape, rows, rope, {.isa = isa, .threads = 2}), expected, tolerance_of(shape), 4 * 32,
                std::string(cpu_isa_name(isa)));
}

// Tests a span of tokens with bidirectional attention that lies within a page, extends across pages, or extends across
// spans of the attention kernel. The sliding window limits only how far back the tokens attend. Results are
// bit-identical regardless of how the tokens before and after the span are divided into chunks.
TEST(bidirectional_attention_matches_the_definition_in_double) {
  for (const Shape& shape :
       {Shape{4, 2, 32, KvType::kF32}, Shape{7, 1, 80, KvType::kF16}, Shape{4, 1, 48, KvType::kQ8_0},
        Shape{5, 1, 128, KvType::kF16}, Shape{4, 1, 48, KvType::kQ4_0}, Shape{5, 1, 64, KvType::kQ5_0}}) {
    const auto frequency = frequencies(shape.head_dim);
    const RopeParams rope = {RopeStyle::kHalves, shape.head_dim, frequency.data(), 1.0f};
    const int n = shape.head_dim == 32 ? 600 : 90;
    const Rows rows = random_rows(shape, n, 41);
    for (const auto& [begin, end] : {std::pair{3, 14}, {0, n / 2}, {n / 3, n}, {20, n - 9}})
      for (const int window : {0, 5, 300}) {
        const auto expected = exact(shape, rows, rope, window, 0, false, {}, false, begin, end);
        std::vector<float> whole;
        for (const CpuIsa isa : available_cpu_isas()) {
          // The portable kernels are slow, so they run with only one of the windows.
          if (isa == CpuIsa::kPlain && window != 5 && available_cpu_isas().size() > 1) continue;
          for (const int cut : {n, 7}) {
            const auto got = run(shape, rows, rope,
                                 {.isa = isa,
                                  .threads = cut == 7 ? 1 : 2,
                                  .cuts = {cut},
                                  .window = window,
                                  .seen_begin = begin,
                                  .seen_end = end});
            const std::string what = shape.name() + ", " + std::to_string(begin) + " to " + std::to_string(end) +
                                     ", window " + std::to_string(window) + " on " + std::string(cpu_isa_name(isa));
            check_close(got, expected, tolerance_of(shape), int64_t{shape.n_heads} * shape.head_dim, what);
            if (whole.empty()) whole = got;
            check_same_bits(got, whole, int64_t{shape.n_heads} * shape.head_dim, what);
          }
        }
      }
  }
}

// Tests M-RoPE: each pair is rotated by one of three positions, which can differ from the token's position in the
// sequence.
TEST(mrope_rotates_by_three_positions) {
  const Shape shape = {4, 2, 32, KvType::kF32};
  const auto frequency = frequencies(32);
  std::vector<uint8_t> axes;
  for (int i = 0; i < 16; ++i) axes.push_back(static_cast<uint8_t>(i % 3));
  const RopeParams rope = {RopeStyle::kHalves, 32, frequency.data(), 1.0f, axes.data()};
  const Rows rows = random_rows(shape, 40, 43);
  std::vector<RopePosition> places;
  for (int i = 0; i < 40; ++i)
    places.push_back(i < 8 || i >= 32 ? RopePosition{i, i, i} : RopePosition{8, 8 + (i - 8) / 6, 8 + (i - 8) % 6});
  const auto expected = exact(shape, rows, rope, 0, 0, false, {}, false, 0, 0, places);
  for (const CpuIsa isa : available_cpu_isas())
    check_close(run(shape, rows, rope, {.isa = isa, .threads = 2, .cuts = {13}, .rope_positions = places}), expected,
                tolerance_of(shape), 4 * 32, std::string(cpu_isa_name(isa)));
  check_close(run(shape, rows, rope, {.isa = available_cpu_isas().back()}),
              exact(shape, rows, {RopeStyle::kHalves, 32, frequency.data(), 1.0f}), tolerance_of(shape), 4 * 32,
              "text");
}

// Covers sliding windows within a page, across pages, across spans of the attention kernel, and longer than the
// sequence.
TEST(windows_and_soft_caps_match_the_definition_in_double) {
  for (const Shape& shape :
       {Shape{4, 2, 32, KvType::kF32}, Shape{7, 1, 80, KvType::kF16}, Shape{4, 1, 48, KvType::kQ8_0},
        Shape{2, 1, 144, KvType::kF16}, Shape{4, 1, 48, KvType::kQ5_0}, Shape{2, 1, 144, KvType::kQ4_0}}) {
    const auto frequency = frequencies(shape.head_dim);
    const RopeParams rope = {RopeStyle::kHalves, shape.head_dim, frequency.data(), 1.0f};
    const int n = shape.head_dim == 32 ? 600 : shape.head_dim == 144 ? 310 : 70;
    const Rows rows = random_rows(shape, n, 17);
    for (const int window : {1, 5, 16, 39, 256, 300, 5000}) {
      const float soft_cap = window == 5 || window == 300 ? 1.5f : 0.0f;
      const auto expected = exact(shape, rows, rope, window, soft_cap);
      for (const CpuIsa isa : available_cpu_isas()) {
        // The portable kernels are slow, so they run only with small windows. Another test compares them with the other
        // kernels.
        if (isa == CpuIsa::kPlain && window > 39) continue;
        check_close(run(shape, rows, rope, {.isa = isa, .threads = 2, .window = window, .soft_cap = soft_cap}),
                    expected, tolerance_of(shape), int64_t{shape.n_heads} * shape.head_dim,
                    shape.name() + ", window " + std::to_string(window) + " on " + std::string(cpu_isa_name(isa)));
      }
    }
  }
}

// Tests attention sinks below, among and above the scores, and far below and far above all of them, over several spans
// of the attention kernel, both in one call and in chunks that are merged.
TEST(attention_sinks_match_the_definition_in_double) {
  const Shape shape = {6, 2, 48, KvType::kF32};
  const auto frequency = frequencies(shape.head_dim);
  const RopeParams rope = {RopeStyle::kHalves, shape.head_dim, frequency.data(), 1.0f};
  const Rows rows = random_rows(shape, 531, 29);
  const std::vector<float> sinks = {-3.0f, 0.0f, 2.5f, 9.0f, 1000.0f, -1000.0f};
  const int64_t row_size = int64_t{shape.n_heads} * shape.head_dim;
  for (const int window : {0, 300}) {
    const auto expected = exact(shape, rows, rope, window, 0, false, sinks);
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas())
      for (const std::vector<int>& cuts : std::vector<std::vector<int>>{{531}, {1}, {256, 9}}) {
        if (isa == CpuIsa::kPlain && cuts[0] == 1) continue;  // Skip the portable kernels, because they are slow.
        const auto got =
            run(shape, rows, rope,
                {.isa = isa, .threads = cuts[0] == 531 ? 1 : 3, .cuts = cuts, .window = window, .sinks = sinks.data()});
        const std::string what = "sinks, window " + std::to_string(window) + ", chunks of " + std::to_string(cuts[0]) +
                                 " on " + std::string(cpu_isa_name(isa));
        check_close(got, expected, tolerance_of(shape), row_size, what);
        if (first.empty()) first = got;
        check_same_bits(got, first, row_size, what);
      }
    for (int row = 0; row < rows.n; ++row)  // An attention sink of 1000 leaves no weight for the values.
      for (int d = 0; d < shape.head_dim; ++d) CHECK_EQ(first[row * row_size + 4 * 48 + d], 0.0f);
  }
}

TEST(chunked_attention_matches_the_definition_in_double_with_any_split) {
  const Shape shape = {4, 2, 64, KvType::kF32};
  const auto frequency = frequencies(64);
  const RopeParams rope = {RopeStyle::kHalves, 64, frequency.data(), 1.0f};
  const Rows rows = random_rows(shape, 300, 31);
  for (const int window : {16, 40, 270}) {
    const auto expected = exact(shape, rows, rope, window, 0, false, {}, true);
    for (const CpuIsa isa : available_cpu_isas())
      for (const std::vector<int>& cuts : {std::vector<int>{}, {7}, {64, 1}})
        check_close(run(shape, rows, rope, {.isa = isa, .threads = 2, .cuts = cuts, .window = window, .chunked = true}),
                    expected, tolerance_of(shape), int64_t{shape.n_heads} * shape.head_dim,
                    "chunks of " + std::to_string(window) + " on " + std::string(cpu_isa_name(isa)));
  }
}

TEST(windows_and_soft_caps_give_the_same_bits_on_every_instruction_set_with_any_split) {
  for (const Shape& shape : {Shape{6, 2, 48, KvType::kF16}, Shape{2, 1, 144, KvType::kF16},
                             Shape{6, 2, 48, KvType::kQ4_0}, Shape{2, 1, 128, KvType::kQ5_0}})
    for (const int window : {7, 40, 270}) {
      const auto frequency = frequencies(shape.head_dim);
      const RopeParams rope = {RopeStyle::kHalves, shape.head_dim, frequency.data(), 1.0f};
      const Rows rows = random_rows(shape, 531, 23);
      const int64_t row_size = int64_t{shape.n_heads} * shape.head_dim;
      const float soft_cap = window == 40 ? 0.0f : 2.0f;
      const auto expected = run(shape, rows, rope, {.threads = 2, .window = window, .soft_cap = soft_cap});
      for (const CpuIsa isa : available_cpu_isas())
        for (const std::vector<int>& cuts : std::vector<std::vector<int>>{{531}, {1}, {23}, {256, 9}}) {
          if (isa == CpuIsa::kPlain) continue;
          const int threads = cuts[0] == 531 ? 1 : 3;
          check_same_bits(run(shape, rows, rope,
                              {.isa = isa,
                               .threads = threads,
                               .cuts = cuts,
                               .first_page = 2,
                               .page_step = 2,
                               .window = window,
                               .soft_cap = soft_cap}),
                          expected, row_size,
                          shape.name() + ", window " + std::to_string(window) + ", chunks of " +
                              std::to_string(cuts[0]) + " on " + std::string(cpu_isa_name(isa)));
        }
    }
}

TEST(attention_gives_the_same_bits_on_every_instruction_set) {
  for (const Shape& shape : kShapes) {
    const auto frequency = frequencies(shape.head_dim);
    const RopeParams rope = {RopeStyle::kHalves, shape.head_dim, frequency.data(), 1.0f};
    // The portable kernels are slow, so with them only one shape has a sequence that extends past the first span; the
    // other shapes test the tiles.
    const Rows rows = random_rows(shape, shape.head_dim == 80 ? 290 : 37, 11);
    const auto expected = run(shape, rows, rope, {.isa = CpuIsa::kPlain, .threads = 2});
    for (const CpuIsa isa : available_cpu_isas())
      if (isa != CpuIsa::kPlain)
        check_same_bits(run(shape, rows, rope, {.isa = isa}), expected, int64_t{shape.n_heads} * shape.head_dim,
                        shape.name() + " on " + std::string(cpu_isa_name(isa)));
  }
}

TEST(attention_does_not_depend_on_chunks_pages_and_threads) {
  const CpuIsa isa = available_cpu_isas().back();
  for (const Shape& shape :
       {Shape{8, 1, 64, KvType::kF16}, Shape{3, 3, 80, KvType::kF32}, Shape{14, 2, 128, KvType::kF16},
        Shape{40, 1, 32, KvType::kF16}, Shape{8, 1, 64, KvType::kQ8_0}, Shape{3, 3, 80, KvType::kQ8_0},
        Shape{8, 1, 64, KvType::kQ4_0}, Shape{3, 3, 80, KvType::kQ5_0}}) {
    const auto frequency = frequencies(shape.head_dim);
    const RopeParams rope = {RopeStyle::kAdjacentPairs, shape.head_dim, frequency.data(), 1.0f};
    // The sequence is long enough for two or three spans of the attention kernel.
    const Rows rows = random_rows(shape, shape.n_heads == 3 ? 531 : 275, 5);
    const int64_t row_size = int64_t{shape.n_heads} * shape.head_dim;
    const auto expected = run(shape, rows, rope, {.isa = isa});
    for (const std::vector<int>& cuts : std::vector<std::vector<int>>{{1}, {7}, {16}, {100}, {256, 1, 15}})
      for (const int threads : {1, 2, 3})
        check_same_bits(
            run(shape, rows, rope, {.isa = isa, .threads = threads, .cuts = cuts, .first_page = 5, .page_step = 3}),
            expected, row_size,
            shape.name() + ", chunks of " + std::to_string(cuts[0]) + ", " + std::to_string(threads) + " threads");
  }
}

// Tests that the sequences in a step do not affect each other's results, and that an infinity in a later row does not
// spread.
TEST(attention_keeps_sequences_of_a_step_apart) {
  for (const Shape& shape : {Shape{6, 3, 64, KvType::kF32}, Shape{6, 3, 128, KvType::kF16},
                             Shape{6, 3, 64, KvType::kQ4_0}, Shape{6, 3, 128, KvType::kQ5_0}})
    for (const CpuIsa isa : available_cpu_isas()) {
      const int dim = shape.head_dim;
      const auto frequency = frequencies(dim);
      const RopeParams rope = {RopeStyle::kHalves, dim, frequency.data(), 1.0f};
      const int64_t q_dim = 6 * dim, kv_dim = 3 * dim;
      std::vector<int> lengths = {40, 1, 17, 300};
      std::vector<std::vector<float>> expected;
      std::vector<float> q, k, v;
      std::vector<Segment> segments;
      std::vector<std::vector<int32_t>> pages;
      int row = 0, page = 0;
      for (size_t s = 0; s < lengths.size(); ++s) {
        Rows rows = random_rows(shape, lengths[s], uint32_t(40 + s));
        expected.push_back(run(shape, rows, rope, {.isa = isa}));
        if (s == 2)
          for (auto* values : {&rows.k, &rows.v})
            for (int64_t i = 0; i < kv_dim; ++i) values->at(16 * kv_dim + i) = std::numeric_limits<float>::infinity();
        q.insert(q.end(), rows.q.begin(), rows.q.end());
        k.insert(k.end(), rows.k.begin(), rows.k.end());
        v.insert(v.end(), rows.v.begin(), rows.v.end());
        pages.emplace_back();
        for (int i = 0; i < (lengths[s] + kPageTokens - 1) / kPageTokens; ++i) pages.back().push_back(page++);
        segments.push_back({row, lengths[s], 0, pages.back().data()});
        row += lengths[s];
      }
      auto cache = CpuKvCache::create(KvShape::of_equal_layers(kLayers, 3, dim, page, shape.type));
      REQUIRE(cache.ok());
      CpuBackend ops(isa, 3);
      CHECK(ops.reserve(row, q_dim, 300, dim, {}).ok());
      std::vector<float> out(q.size());
      ops.rope_and_store({rope, segments, q.data(), q_dim, 6, k.data(), kv_dim, v.data(), kv_dim, 0, **cache});
      ops.attention({segments, q.data(), q_dim, 6, 0, **cache, params_of(shape, 0, 0.0f), out.data(), q_dim});
      for (size_t s = 0; s < lengths.size(); ++s) {
        const int n = s == 2 ? 16 : lengths[s];
        const float* begin = out.data() + segments[s].first_row * q_dim;
        expected[s].resize(n * q_dim);
        check_same_bits(std::vector<float>(begin, begin + n * q_dim), expected[s], q_dim,
                        "sequence " + std::to_string(s) + " on " + std::string(cpu_isa_name(isa)));
      }
    }
}

// Long sequences are split into spans; short sequences in the same step are not. Each result is bit-identical to the
// result of the sequence alone.
TEST(attention_of_mixed_sequence_lengths_equals_each_alone) {
  const int n_heads = 6, n_kv_heads = 2;
  const std::vector<int> positions = {5, 1999, 40, 700, 3, 1300, 0};
  for (const auto& [dim, window] : {std::pair{64, 0}, {64, 600}, {128, 0}, {128, 600}}) {
    std::vector<Segment> segments;
    std::vector<std::vector<int32_t>> pages;
    int page = 0;
    for (const int position : positions) {
      pages.emplace_back();
      for (int i = 0; i <= position / kPageTokens; ++i) pages.back().push_back(page++);
      segments.push_back({int(segments.size()), 1, position, pages.back().data()});
    }
    auto cache = CpuKvCache::create(KvShape::of_equal_layers(1, n_kv_heads, dim, page, KvType::kF16));
    REQUIRE(cache.ok());
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    auto* halves = reinterpret_cast<uint16_t*>((*cache)->layer(0).keys.of_head(0));
    for (size_t i = 0; i < (*cache)->bytes / 2; ++i) halves[i] = float_to_half(normal(random));
    std::vector<float> q(positions.size() * n_heads * dim), together(q.size()), alone(q.size());
    for (float& x : q) x = normal(random);
    const CpuIsa isa = available_cpu_isas().back();
    CpuBackend three(isa, 3), one(isa, 1);
    for (CpuBackend* ops : {&three, &one})
      CHECK(ops->reserve(int(positions.size()), n_heads * dim, 2000, dim, {}).ok());
    const AttentionParams params = {.scale = 0.125f, .window = window};
    three.attention({segments, q.data(), n_heads * dim, n_heads, 0, **cache, params, together.data(), n_heads * dim});
    for (const Segment& segment : segments)
      one.attention({{&segment, 1}, q.data(), n_heads * dim, n_heads, 0, **cache, params, alone.data(), n_heads * dim});
    check_same_bits(together, alone, n_heads * dim,
                    "heads of " + std::to_string(dim) + ", window " + std::to_string(window));
  }
}

TEST(copy_page_copies_all_layers_and_heads_and_nothing_else) {
  for (const int dim : {40, 144}) {
    auto made = CpuKvCache::create(KvShape::of_equal_layers(3, 2, dim, 4, KvType::kF16));
    REQUIRE(made.ok());
    CpuKvCache& cache = **made;
    auto* bytes = reinterpret_cast<uint8_t*>(cache.layer(0).keys.of_head(0));
    for (size_t i = 0; i < cache.bytes; ++i) bytes[i] = uint8_t(i * 31 % 251);
    const std::vector<uint8_t> before(bytes, bytes + cache.bytes);
    CpuBackend ops(CpuIsa::kPlain, 2);
    ops.copy_page(cache, 1, 3);
    const size_t key = cache.layer(0).keys.page_stride, value = cache.layer(0).values.page_stride;
    CHECK_EQ(key, dim == 40 ? size_t{40 * 16 * 2} : size_t{16 * (160 * 2 + 4)});
    CHECK_EQ(value, dim == 40 ? size_t{48 * 16 * 2} : size_t{16 * (160 * 2 + 4)});
    CHECK_EQ(cache.bytes, CpuKvCache::bytes_for(cache.shape));
    for (int layer = 0; layer < 3; ++layer)
      for (int head = 0; head < 2; ++head) {
        CHECK(std::memcmp(cache.layer(layer).keys.of_head(head) + 3 * key, cache.layer(layer).keys.of_head(head) + key,
                          key) == 0);
        CHECK(std::memcmp(cache.layer(layer).values.of_head(head) + 3 * value,
                          cache.layer(layer).values.of_head(head) + value, value) == 0);
        const size_t keys_at = reinterpret_cast<uint8_t*>(cache.layer(layer).keys.of_head(head)) - bytes;
        const size_t values_at = reinterpret_cast<uint8_t*>(cache.layer(layer).values.of_head(head)) - bytes;
        CHECK(std::memcmp(bytes + keys_at, before.data() + keys_at, 3 * key) == 0);
        CHECK(std::memcmp(bytes + values_at, before.data() + values_at, 3 * value) == 0);
      }
  }
}

TEST(kv_cache_rejects_invalid_shapes) {
  for (const KvShape& shape :
       {KvShape::of_equal_layers(0, 1, 64, 1, KvType::kF16), KvShape::of_equal_layers(1, -1, 64, 1, KvType::kF16),
        KvShape::of_equal_layers(1, 1, 64, int64_t{1} << 62, KvType::kF32),
        KvShape::of_equal_layers(2, 1, 64, int64_t{1} << 52, KvType::kF32)}) {
    CHECK_EQ(CpuKvCache::bytes_for(shape), SIZE_MAX);
    const auto cache = CpuKvCache::create(shape);
    CHECK(!cache.ok() && cache.error().code == ErrorCode::kInvalidArgument);
  }
}
