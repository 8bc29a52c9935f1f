// Tests variants of attention on the CUDA backend: MLA, values that differ in size from keys, chunked attention, and
// queries scaled by position. Results are compared with the definition in double precision. They must be bit-identical
// for any division of a sequence into chunks, any other sequences in the step, and any order of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "base/half.h"
#include "check.h"
#include "emulator/emulator.h"
#include "formats/gguf/quantize.h"

using namespace monolith;

namespace {

using Floats = std::vector<float>;

Floats random_floats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x(n);
  for (float& value : x) value = normal(random);
  return x;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Rotates the first `n_dims` numbers of x as adjacent pairs, in double precision.
void rotate_exactly(int n_dims, int position, double* x) {
  for (int i = 0; i < n_dims / 2; ++i) {
    const double angle = position * std::pow(10000.0, -2.0 * i / n_dims), c = std::cos(angle), s = std::sin(angle);
    const double a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
  }
}
Floats frequencies(int n_dims) {
  Floats f(static_cast<size_t>(n_dims / 2));
  for (int i = 0; i < n_dims / 2; ++i)
    f[static_cast<size_t>(i)] = static_cast<float>(std::pow(10000.0, -2.0 * i / n_dims));
  return f;
}

double rounded(double x, KvType type) {
  return type == KvType::kF16 ? half_to_float(float_to_half(static_cast<float>(x))) : x;
}

// The range of tokens that attend to each other bidirectionally, such as the tokens of an image. There is no such range
// if `end` is 0.
struct Span {
  int begin = 0, end = 0;
  int last_seen(int position) const { return position >= begin && position < end ? end - 1 : position; }
};

// Splits a sequence of `n` tokens into segments of at most `most` tokens; a bidirectional span is one segment.
std::vector<Segment> pieces(int n, int most, const Span& span, const int32_t* pages) {
  std::vector<Segment> segments;
  for (int at = 0; at < n;) {
    const bool inside = at >= span.begin && at < span.end;
    int end = inside ? span.end : std::min(at + most, n);
    if (at < span.begin) end = std::min(end, span.begin);
    Segment segment{0, end - at, at, pages};
    if (inside) segment.seen_end = span.end;
    segments.push_back(segment);
    at = end;
  }
  return segments;
}

// Computes, by the definition, the attention output of the token at `position`. Keys have the shape [n][key], and
// values [n][value].
std::vector<double> attend(const std::vector<double>& q, int position, const Span& span,
                           const std::vector<std::vector<double>>& keys, const std::vector<std::vector<double>>& values,
                           const AttentionParams& params) {
  int first = 0;
  if (params.chunked)
    first = position - position % params.window;
  else if (params.window > 0)
    first = std::max(0, position - params.window + 1);
  const double scale =
      params.scale * (1 + params.temperature_scale *
                              std::log(1.0 + (position + params.temperature_offset) / params.temperature_length));
  std::vector<double> weights, out(values[0].size());
  double top = -1e300, sum = 0;
  for (int p = first; p <= span.last_seen(position); ++p) {
    double score = 0;
    for (size_t d = 0; d < q.size(); ++d) score += q[d] * keys[static_cast<size_t>(p)][d];
    weights.push_back(score * scale);
    top = std::max(top, weights.back());
  }
  for (double& weight : weights) sum += weight = std::exp(weight - top);
  for (int p = first; p <= span.last_seen(position); ++p)
    for (size_t d = 0; d < out.size(); ++d)
      out[d] += weights[static_cast<size_t>(p - first)] / sum * values[static_cast<size_t>(p)][d];
  return out;
}

// How a sequence is computed: its division into chunks, whether another sequence is in the same step, and the order in
// which threads run.
struct Way {
  int piece;
  bool company;
  cuda::emulator::Order order;
};
using enum cuda::emulator::Order;

struct LatentShape {
  int n_heads, row, value, n_rows;
  KvType type;
  Span span = {};
  std::string name() const {
    return std::to_string(n_heads) + " heads, rows of " + std::to_string(row) + " with values of " +
           std::to_string(value) +
           (type == KvType::kF32    ? ", f32"
            : type == KvType::kF16  ? ", f16"
            : type == KvType::kQ8_0 ? ", q8_0"
                                    : ", fp8");
  }
};
constexpr int kOwn = 8;  // Query dimensions that were projected to the `value` dimensions of the latent.
constexpr AttentionParams kLatentParams = {.scale = 0.11f, .temperature_scale = 0.3f, .temperature_length = 20};

Floats run_latents(const LatentShape& shape, const Way& way) {
  cuda::emulator::set_order(way.order);
  const int shared = shape.row - shape.value, n = shape.n_rows, n_pages = (n + kPageTokens - 1) / kPageTokens;
  const auto wide = size_t(shape.n_heads) * size_t(shape.row), own = size_t(shape.n_heads) * size_t(kOwn + shared);
  const auto out_dim = size_t(shape.n_heads) * size_t(shape.value);
  auto made = make_cuda_backend({});
  CHECK(made.ok());
  Backend& backend = **made;
  CHECK(backend.reserve(n + 1, int64_t(wide), n + 1, shape.row).ok());
  CHECK(backend.reserve_heads(n + 1, {shape.n_heads, shape.value, shape.value}).ok());
  const KvShape kv{{{StateKind::kKeysAndValues, 2, 32, 32, 0}, {StateKind::kLatents, 1, shape.row, shape.value, 1}},
                   n_pages + 3,
                   shape.type};
  auto cache = backend.kv_cache(kv);
  CHECK(cache.ok() && (*cache)->bytes == backend.kv_cache_bytes(kv));
  const Floats absorbed = random_floats(size_t(n) * wide, 1), q = random_floats(size_t(n) * own, 2),
               latents = random_floats(size_t(n) * size_t(shape.row), 3);
  const auto put = [&](const float* from, size_t count) {
    float* const at = *backend.allocate(static_cast<int64_t>(count));
    backend.write_floats(at, from, static_cast<int64_t>(count));
    return at;
  };
  std::vector<int32_t> pages, others = {0};
  for (int i = 0; i < n_pages; ++i) pages.push_back(n_pages - i);
  const Floats frequency = frequencies(shared);
  const RopeParams rope{RopeStyle::kAdjacentPairs, shared, frequency.data(), 1.0f};
  Floats all;
  for (Segment segment : pieces(n, way.piece, shape.span, pages.data())) {
    const int at = segment.first_position, rows = segment.n_tokens, n_others = way.company ? 1 : 0;
    // A token from another sequence comes first in the step.
    const auto some = [&](const Floats& from, size_t dim) {
      Floats numbers(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(dim) * n_others);
      numbers.insert(numbers.end(), from.begin() + static_cast<std::ptrdiff_t>(dim) * at,
                     from.begin() + static_cast<std::ptrdiff_t>(dim) * (at + rows));
      return put(numbers.data(), numbers.size());
    };
    std::vector<Segment> segments;
    if (way.company) segments.push_back({0, 1, 0, others.data()});
    segment.first_row = n_others;
    segments.push_back(segment);
    float* const queries = some(absorbed, wide);
    float* const kept = some(latents, size_t(shape.row));
    float* const out = put(Floats(size_t(rows + 1) * out_dim, NAN).data(), size_t(rows + 1) * out_dim);
    const auto stride = static_cast<int64_t>(wide);
    backend.rope_and_store_latents({rope,
                                    segments,
                                    {some(q, own), int64_t(own), kOwn + shared, queries, stride, shape.n_heads},
                                    kept,
                                    shape.row,
                                    1,
                                    **cache});
    backend.attention(
        {segments, queries, stride, shape.n_heads, 1, **cache, kLatentParams, out, static_cast<int64_t>(out_dim)});
    Floats got(size_t(rows + n_others) * out_dim);
    backend.wait();
    backend.read_floats(got.data(), out, static_cast<int64_t>(got.size()));
    all.insert(all.end(), got.begin() + static_cast<std::ptrdiff_t>(out_dim) * n_others, got.end());
  }
  cuda::emulator::set_order(kAscending);
  return all;
}

}  // namespace

TEST(cuda_mla_matches_the_definition_with_any_chunks) {
  const LatentShape shapes[] = {{2, 48, 32, 40, KvType::kF32},           {17, 72, 64, 21, KvType::kF16},
                                {5, 96, 64, 30, KvType::kQ8_0},          {3, 48, 40, 20, KvType::kFp8},
                                {2, 34, 32, 300, KvType::kF32},          {3, 576, 512, 18, KvType::kF16},
                                {2, 48, 32, 40, KvType::kF32, {12, 33}}, {1, 700, 640, 17, KvType::kF32}};
  for (const LatentShape& shape : shapes) {
    const int shared = shape.row - shape.value, n = shape.n_rows;
    const Floats got = run_latents(shape, {n, false, kAscending});
    const Floats absorbed = random_floats(size_t(n * shape.n_heads * shape.row), 1),
                 q = random_floats(size_t(n * shape.n_heads * (kOwn + shared)), 2),
                 latents = random_floats(size_t(n * shape.row), 3);
    std::vector<std::vector<double>> rows, values;
    for (int p = 0; p < n; ++p) {
      rows.emplace_back(latents.begin() + p * shape.row, latents.begin() + (p + 1) * shape.row);
      rotate_exactly(shared, p, rows.back().data() + shape.value);
      for (double& x : rows.back()) x = rounded(x, shape.type);
      values.emplace_back(rows.back().begin(), rows.back().begin() + shape.value);
    }
    double worst = 0;
    for (int p = 0; p < n; ++p)
      for (int head = 0; head < shape.n_heads; ++head) {
        const int index = p * shape.n_heads + head;
        std::vector<double> query(absorbed.begin() + index * shape.row, absorbed.begin() + (index + 1) * shape.row);
        for (int d = 0; d < shared; ++d) query[size_t(shape.value + d)] = q[size_t(index * (kOwn + shared) + kOwn + d)];
        rotate_exactly(shared, p, query.data() + shape.value);
        const std::vector<double> expected = attend(query, p, shape.span, rows, values, kLatentParams);
        for (int d = 0; d < shape.value; ++d) {
          const double error = std::abs(got[size_t(index * shape.value + d)] - expected[size_t(d)]);
          if (!(error <= worst)) worst = error;
        }
      }
    const double tolerance = shape.type == KvType::kF32    ? 2e-5
                             : shape.type == KvType::kF16  ? 3e-3
                             : shape.type == KvType::kQ8_0 ? 0.1
                                                           : 0.6;
    if (!(worst <= tolerance)) check::fail(__FILE__, __LINE__, shape.name() + ": off by " + std::to_string(worst));
    for (const Way& way : {Way{1, true, kShuffled}, {7, false, kDescending}, {n - 1, true, kAscending}}) {
      if (n > 100 && way.piece == 7) continue;
      if (!same_bits(run_latents(shape, way), got))
        check::fail(__FILE__, __LINE__, shape.name() + ": different bits in chunks of " + std::to_string(way.piece));
    }
  }
}

// A token's result is the same whether its attention is computed in a single tile or split across many thread blocks,
// by chunks or by groups of chunks.
TEST(cuda_mla_of_long_contexts_does_not_depend_on_the_split) {
  constexpr int kRow = 34, kValue = 32, kHeads = 2, kContext = 2300;
  auto made = make_cuda_backend({});
  REQUIRE(made.ok());
  Backend& backend = **made;
  REQUIRE(backend.reserve(kContext, kHeads * kRow, kContext, kRow).ok());
  REQUIRE(backend.reserve_heads(kContext, {kHeads, kValue, kValue}).ok());
  auto cache = backend.kv_cache({{{StateKind::kLatents, 1, kRow, kValue, 0}}, 150, KvType::kF16});
  REQUIRE(cache.ok());
  std::vector<int32_t> pages(150);
  for (int i = 0; i < 150; ++i) pages[size_t(i)] = (i * 7) % 150;
  const auto put = [&](const Floats& values) {
    float* const at = *backend.allocate(static_cast<int64_t>(values.size()));
    backend.write_floats(at, values.data(), static_cast<int64_t>(values.size()));
    return at;
  };
  const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
  const Segment whole{0, kContext, 0, pages.data()};
  backend.rope_and_store_latents(
      {none, {&whole, 1}, {}, put(random_floats(size_t(kContext) * kRow, 5)), kRow, 0, **cache});
  const Floats q = random_floats(size_t(kHeads) * kRow, 6);
  Floats seventeen;
  for (int i = 0; i < 17; ++i) seventeen.insert(seventeen.end(), q.begin(), q.end());
  // Computes the last `n` tokens of the context, which all have the same query, and returns the last token's result.
  const auto attend_last = [&](int n) {
    const Segment segment{0, n, kContext - n, pages.data()};
    float* const out = put(Floats(size_t(17 * kHeads * kValue), NAN));
    backend.attention(
        {{&segment, 1}, put(seventeen), kHeads * kRow, kHeads, 0, **cache, {.scale = 0.2f}, out, kHeads * kValue});
    Floats got(size_t(kHeads) * kValue);
    backend.wait();
    backend.read_floats(got.data(), out + int64_t{n - 1} * kHeads * kValue, static_cast<int64_t>(got.size()));
    return got;
  };
  const Floats alone = attend_last(1), in_tile = attend_last(17), beside = attend_last(9);
  CHECK(same_bits(alone, in_tile));
  CHECK(same_bits(alone, beside));
}

// Batched matrix products: each head's product is the same as the product with the head's matrix alone, for every kind
// of matrix.
TEST(cuda_batched_matmul_equals_the_matmul_of_each_head) {
  for (const bool exact : {true, false})
    for (const TensorType type :
         {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0})
      for (const auto& [n_heads, rows, cols] : {std::tuple{3, 32, 64}, std::tuple{5, 48, 128}})
        for (const int n_rows : {1, 19}) {
          if (exact && type != TensorType::kF32) continue;
          auto made = make_cuda_backend({.exact = exact});
          REQUIRE(made.ok());
          Backend& backend = **made;
          REQUIRE(backend.reserve(n_rows, 1024, 16, 64).ok());
          REQUIRE(backend.reserve_heads(n_rows, {n_heads, rows, cols}).ok());
          const Floats weights = random_floats(size_t(n_heads * rows * cols), 1),
                       x = random_floats(size_t(n_rows * n_heads * (cols + 8)), 2);
          const TensorTypeTraits& traits = traits_of(type);
          const size_t head_bytes =
              size_t(rows) * size_t(cols) / size_t(traits.block_values) * size_t(traits.block_bytes);
          std::vector<std::byte> data(head_bytes * size_t(n_heads));
          for (size_t i = 0; i < weights.size(); ++i) {
            const uint16_t half = type == TensorType::kF16 ? float_to_half(weights[i]) : float_to_bfloat16(weights[i]);
            if (type == TensorType::kF16 || type == TensorType::kBF16) std::memcpy(data.data() + 2 * i, &half, 2);
          }
          if (type != TensorType::kF16 && type != TensorType::kBF16)
            quantize(type, weights.data(), int64_t(weights.size()), data.data());
          const auto all = backend.matrix({type, int64_t{n_heads} * rows, cols, data});
          REQUIRE(all.ok());
          const auto put = [&](const Floats& values) {
            float* const at = *backend.allocate(static_cast<int64_t>(values.size()));
            backend.write_floats(at, values.data(), static_cast<int64_t>(values.size()));
            return at;
          };
          const int wanted = rows - 3;  // Only these output rows are written.
          float* const out = put(Floats(size_t(n_rows * n_heads * rows), -1.0f));
          backend.batched_matmul(
              {all->get(), n_heads, wanted, put(x), n_heads * (cols + 8), cols + 8, out, n_heads * rows, rows},
              RowCount::fixed(n_rows));
          Floats got(size_t(n_rows * n_heads * rows));
          backend.wait();
          backend.read_floats(got.data(), out, static_cast<int64_t>(got.size()));
          for (int head = 0; head < n_heads; ++head) {
            const auto own =
                backend.matrix({type, rows, cols, std::span(data).subspan(size_t(head) * head_bytes, head_bytes)});
            REQUIRE(own.ok());
            Floats dense;
            for (int row = 0; row < n_rows; ++row) {
              const auto from = x.begin() + (row * n_heads + head) * (cols + 8);
              dense.insert(dense.end(), from, from + cols);
            }
            float* const product = put(Floats(size_t(n_rows * rows)));
            const MatmulTarget target{own->get(), product, rows};
            backend.matmul({&target, 1}, put(dense), RowCount::fixed(n_rows));
            Floats expected(size_t(n_rows * rows));
            backend.wait();
            backend.read_floats(expected.data(), product, static_cast<int64_t>(expected.size()));
            for (int row = 0; row < n_rows; ++row)
              for (int r = 0; r < rows; ++r) {
                const float is = got[size_t((row * n_heads + head) * rows + r)];
                if (r < wanted ? std::memcmp(&is, &expected[size_t(row * rows + r)], 4) != 0 : is != -1.0f)
                  return check::fail(__FILE__, __LINE__,
                                     std::string(traits.name) + ", head " + std::to_string(head) + ", " +
                                         std::to_string(n_rows) + " rows: number " + std::to_string(r));
              }
          }
        }
}

// Covers keys and values of equal and different sizes, full and partial attention, and queries scaled by position, with
// both the scalar kernel and the tensor core kernel.
TEST(cuda_attention_of_every_kind_matches_the_definition) {
  struct Kind {
    int key, value;
    KvType type;
    AttentionParams params;
    Span span = {};
  };
  const Kind kinds[] = {
      {48, 32, KvType::kF32, {.scale = 0.2f}},
      {32, 72, KvType::kF16, {.scale = 0.2f}},
      {64, 48, KvType::kQ8_0, {.scale = 0.1f}},
      {40, 40, KvType::kF32, {.scale = 0.2f, .window = 24, .chunked = true}},
      {64, 64, KvType::kF16, {.scale = 0.1f, .window = 24, .chunked = true}},
      {40,
       40,
       KvType::kF32,
       {.scale = 0.2f, .temperature_scale = 0.4f, .temperature_length = 9, .temperature_offset = 1}},
      {64,
       64,
       KvType::kF16,
       {.scale = 0.1f, .temperature_scale = 0.4f, .temperature_length = 9, .temperature_offset = 1}},
      // Tests the tokens of an image, with the scalar kernel and with tensor cores. The image has fewer tokens than a
      // tile, and the sliding window starts within it.
      {40, 40, KvType::kF32, {.scale = 0.2f}, {10, 37}},
      {64, 64, KvType::kF16, {.scale = 0.1f}, {7, 47}},
      {64, 64, KvType::kF16, {.scale = 0.1f, .window = 8}, {21, 33}},
      {64, 64, KvType::kQ8_0, {.scale = 0.1f}, {0, 2}},
  };
  constexpr int kRows = 60, kHeads = 4, kKvHeads = 2;
  for (const Kind& kind : kinds) {
    const int key = kind.key, value = kind.value;
    const Floats q = random_floats(size_t(kRows * kHeads * key), 1),
                 k = random_floats(size_t(kRows * kKvHeads * key), 2),
                 v = random_floats(size_t(kRows * kKvHeads * value), 3);
    const auto run = [&](int piece) {
      auto made = make_cuda_backend({});
      Backend& backend = **made;
      CHECK(backend.reserve(kRows, kHeads * std::max(key, value), kRows, std::max(key, value)).ok());
      auto cache = backend.kv_cache({{{StateKind::kKeysAndValues, kKvHeads, key, value, 0}}, 5, kind.type});
      CHECK(cache.ok());
      const int32_t page_table[] = {3, 0, 4, 1};
      const auto put = [&](const float* from, int count) {
        float* const at = *backend.allocate(count);
        backend.write_floats(at, from, count);
        return at;
      };
      Floats all;
      for (const Segment& segment : pieces(kRows, piece, kind.span, page_table)) {
        const int at = segment.first_position, n = segment.n_tokens;
        float* const queries = put(q.data() + at * kHeads * key, n * kHeads * key);
        const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
        backend.rope_and_store({none,
                                {&segment, 1},
                                queries,
                                kHeads * key,
                                kHeads,
                                put(k.data() + at * kKvHeads * key, n * kKvHeads * key),
                                kKvHeads * key,
                                put(v.data() + at * kKvHeads * value, n * kKvHeads * value),
                                kKvHeads * value,
                                0,
                                **cache});
        float* const out = *backend.allocate(n * kHeads * value);
        backend.attention({{&segment, 1}, queries, kHeads * key, kHeads, 0, **cache, kind.params, out, kHeads * value});
        Floats got(size_t(n * kHeads * value));
        backend.wait();
        backend.read_floats(got.data(), out, static_cast<int64_t>(got.size()));
        all.insert(all.end(), got.begin(), got.end());
      }
      return all;
    };
    const Floats got = run(kRows);
    double worst = 0;
    for (int head = 0; head < kHeads; ++head) {
      std::vector<std::vector<double>> keys, values;
      for (int p = 0; p < kRows; ++p) {
        const int at = p * kKvHeads + head / (kHeads / kKvHeads);
        keys.emplace_back(k.begin() + at * key, k.begin() + (at + 1) * key);
        values.emplace_back(v.begin() + at * value, v.begin() + (at + 1) * value);
        for (double& x : keys.back()) x = rounded(x, kind.type);
        for (double& x : values.back()) x = rounded(x, kind.type);
      }
      for (int p = 0; p < kRows; ++p) {
        const int at = p * kHeads + head;
        const std::vector<double> expected =
            attend({q.begin() + at * key, q.begin() + (at + 1) * key}, p, kind.span, keys, values, kind.params);
        for (int d = 0; d < value; ++d) {
          const double error = std::abs(got[size_t(at * value + d)] - expected[size_t(d)]);
          if (!(error <= worst)) worst = error;
        }
      }
    }
    const double tolerance = kind.type == KvType::kF32 ? 2e-5 : kind.type == KvType::kF16 ? 5e-3 : 0.1;
    const std::string what = "keys of " + std::to_string(key) + ", values of " + std::to_string(value) + ", window " +
                             std::to_string(kind.params.window) + ", span to " + std::to_string(kind.span.end) +
                             ", temperature " + std::to_string(kind.params.temperature_scale);
    if (!(worst <= tolerance)) check::fail(__FILE__, __LINE__, what + ": off by " + std::to_string(worst));
    for (const int piece : {1, 23})
      if (!same_bits(run(piece), got))
        check::fail(__FILE__, __LINE__, what + ": different bits in chunks of " + std::to_string(piece));
  }
}

TEST(cuda_unsupported_latents_are_rejected_by_name) {
  const auto backend = make_cuda_backend({});
  REQUIRE(backend.ok());
  KvShape shape{{{StateKind::kLatents, 1, 1100, 1024, 0}}, 4, KvType::kF16};
  const auto refused = [&](const char* what) {
    const Status status = (*backend)->supports(shape);
    CHECK(!status.ok() && status.error().code == ErrorCode::kUnsupported &&
          status.error().message.find(what) != std::string::npos);
    CHECK(!(*backend)->kv_cache(shape).ok());
  };
  refused("layer 0: latent dimension 1100 exceeds");
  shape = {{{StateKind::kLatents, 1, 576, 512, 0}, {StateKind::kLatents, 1, 128, 128, 1}}, 4, KvType::kF16, 20000};
  refused("sparse attention selects 20000 positions");
}

TEST(cuda_refuses_the_kv_types_of_the_cpu_by_name) {
  const auto backend = make_cuda_backend({});
  REQUIRE(backend.ok());
  for (const auto& [type, name] : {std::pair{KvType::kQ4_0, "kv_type q4_0"}, {KvType::kQ5_0, "kv_type q5_0"}}) {
    const Status status = (*backend)->supports(type);
    CHECK(!status.ok() && status.error().code == ErrorCode::kUnsupported && status.error().message.starts_with(name));
    CHECK(!(*backend)->kv_cache(KvShape::of_equal_layers(1, 1, 64, 4, type)).ok());
  }
}
