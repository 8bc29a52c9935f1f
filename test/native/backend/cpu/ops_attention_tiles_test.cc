// Tests attention over 16-bit integers with AMX tiles, on a model of the tile unit and, if the processor has one, on
// the tile unit itself. With the default arithmetic, tiles produce the same bits as vector instructions. With
// Arithmetic::kFast, they are at least as precise.
#include "backend/cpu/ops/kernels.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "attention_model.h"
#include "backend/cpu/machine/isa.h"
#include "backend/cpu/ops/ops.h"
#include "check.h"

using namespace monolith;

namespace {

struct Unit {
  const char* name;
  void (*production)(const AttentionTile& tile, int span, float* states);
  void (*fast)(const AttentionTile& tile, int span, float* states);
};
std::vector<Unit> units() {
  std::vector<Unit> found;
  if (cpu_has(CpuIsa::kAvx512))
    found.push_back(
        {"model",
         [](const AttentionTile& tile, int span, float* states) { model_attention_span(tile, span, states, false); },
         [](const AttentionTile& tile, int span, float* states) { model_attention_span(tile, span, states, true); }});
  if (cpu_has(CpuIsa::kAmx))
    found.push_back(
        {"amx", op_kernels(CpuIsa::kAmx).attention_span, op_kernels(CpuIsa::kAmx, Arithmetic::kFast).attention_span});
  return found;
}
bool skip_without(const std::vector<Unit>& found) {
  if (!found.empty()) return false;
  check::skip("this processor has no AVX-512 with VNNI");
  return true;
}

struct Shape {
  int key_dim, value_dim;
  bool latents = false;  // The keys are also the values.
  KvType type = KvType::kF16;
  std::string name() const {
    return std::to_string(key_dim) + "/" + std::to_string(value_dim) + (latents ? " latents" : "") +
           (type == KvType::kQ8_0 ? " q8_0" : "");
  }
};
const std::vector<Shape> kShapes = {
    {128, 128},
    {144, 144},
    {160, 128},
    {256, 256},
    {320, 264},
    {576, 512, true},
    {96, 64, true},
    {96, 64, true, KvType::kQ8_0},
    {288, 256, true, KvType::kQ8_0},
};

constexpr int kPages = 40, kPositions = kPages * kPageTokens;
float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }

// A tile of queries, and pages of keys and values.
class Problem {
 public:
  // Values are produced by next().
  template <typename Next>
  Problem(const Shape& shape, int n_queries, Next next)
      : keys_(bytes(shape.key_dim, shape)),
        values_(shape.latents ? size_t{0} : bytes(shape.value_dim, shape)),
        scores_(kTileQueries * kScoreStride + 16),
        rows_(static_cast<size_t>(latent_scratch_floats(shape.key_dim)) + 16),
        query_(static_cast<size_t>(kTileQueries * packed_query_floats(shape.key_dim)) + 16) {
    fill(shape, shape.key_dim, aligned(keys_), next);
    if (!shape.latents) fill(shape, shape.value_dim, aligned(values_), next);
    const OpKernels& kernels = op_kernels_avx512();
    const int64_t stride = round_up_to_latents(shape.key_dim);
    auto* const numbers = reinterpret_cast<int16_t*>(aligned(query_));
    auto* const steps = reinterpret_cast<float*>(numbers + kTileQueries * stride);
    const int n_blocks = latent_blocks(shape.key_dim);
    for (int i = 0; i < n_queries; ++i)
      for (int b = 0; b < n_blocks; ++b) {
        const int first = b * kLatentBlock, count = std::min(kLatentBlock, shape.key_dim - first);
        std::vector<float> row(static_cast<size_t>(count));
        for (float& x : row) x = next();
        steps[i * n_blocks + b] =
            kernels.pack_latents(row.data(), count, kMaxLatentQuery, numbers + i * stride + first) /
            std::sqrt(static_cast<float>(shape.key_dim));
      }
    for (int i = 0; i < kPages; ++i) pages_[i] = kPages - 1 - i;
    const auto page_bytes = [&](int dim) { return static_cast<size_t>(latents_page_bytes(dim, shape.type)); };
    tile = {.n_queries = n_queries,
            .key_dim = shape.key_dim,
            .value_dim = shape.value_dim,
            .starts = starts,
            .limits = limits,
            .q = aligned(query_),
            .q_stride = shape.key_dim,
            .pages = pages_,
            .keys = aligned(keys_),
            .values = shape.latents ? aligned(keys_) : aligned(values_),
            .key_page_bytes = page_bytes(shape.key_dim),
            .value_page_bytes = page_bytes(shape.latents ? shape.key_dim : shape.value_dim),
            .value_stride = round_up_to_latents(shape.latents ? shape.key_dim : shape.value_dim),
            .type = shape.type,
            .soft_cap = 0,
            .scores = aligned(scores_),
            .rows = aligned(rows_),
            .key_stride = stride};
    std::fill_n(starts, kTileQueries, 0);
    std::fill_n(limits, kTileQueries, kPositions);
  }

  // Returns the states after one span. The states of queries that attend to no position of the span are zero.
  std::vector<float> states(void (*attend)(const AttentionTile&, int, float*), int span) {
    const int64_t floats = attention_state_floats(tile.value_dim);
    std::vector<float> memory(static_cast<size_t>(kTileQueries * floats) + 16, 0.0f);
    float* const from = aligned(memory);
    attend(tile, span, from);
    std::vector<float> found(from, from + tile.n_queries * floats);
    for (int i = 0; i < tile.n_queries; ++i)
      if (limits[i] <= span * kAttentionSpan || starts[i] >= (span + 1) * kAttentionSpan)
        std::fill_n(found.begin() + i * floats, floats, 0.0f);
    return found;
  }

  // Sets all bits of the rows of positions [first, last), and of their scales.
  void fill_with_nan(int first, int last) {
    const auto fill = [&](std::byte* pages, size_t page_bytes, int64_t stride, int dim) {
      const bool halves = tile.type == KvType::kQ8_0;
      const int64_t number_bytes = halves ? 1 : 2, scale_bytes = halves ? 2 : 4;
      for (int at = first; at < last; ++at) {
        std::byte* const page = pages + static_cast<size_t>(pages_[at / kPageTokens]) * page_bytes;
        const int slot = at % kPageTokens;
        std::memset(page + slot * stride * number_bytes, 0xff, static_cast<size_t>(stride * number_bytes));
        std::byte* const scales = page + stride * kPageTokens * number_bytes;
        for (int b = 0; b < (halves ? q8_blocks(dim) : latent_blocks(dim)); ++b)
          std::memset(scales + (b * kPageTokens + slot) * scale_bytes, 0xff, static_cast<size_t>(scale_bytes));
      }
    };
    fill(aligned(keys_), tile.key_page_bytes, tile.key_stride, tile.key_dim);
    if (!values_.empty()) fill(aligned(values_), tile.value_page_bytes, tile.value_stride, tile.value_dim);
  }

  AttentionTile tile{};
  int starts[kTileQueries], limits[kTileQueries];

 private:
  template <typename T>
  static T* aligned(std::vector<T>& memory) {
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }
  static size_t bytes(int dim, const Shape& shape) {
    return static_cast<size_t>(kPages * latents_page_bytes(dim, shape.type)) + 64;
  }
  template <typename Next>
  static void fill(const Shape& shape, int dim, std::byte* pages, Next next) {
    const OpKernels& kernels = op_kernels_avx512();
    const int64_t stride = round_up_to_latents(dim), page_bytes = latents_page_bytes(dim, shape.type);
    std::vector<float> row(static_cast<size_t>(dim));
    for (int at = 0; at < kPositions; ++at) {
      for (float& x : row) x = next();
      std::byte* const page = pages + at / kPageTokens * page_bytes;
      const int slot = at % kPageTokens;
      if (shape.type == KvType::kF16) {
        auto* const numbers = reinterpret_cast<int16_t*>(page);
        auto* const steps = reinterpret_cast<float*>(numbers + stride * kPageTokens);
        for (int b = 0; b < latent_blocks(dim); ++b)
          steps[b * kPageTokens + slot] =
              kernels.pack_latents(row.data() + b * kLatentBlock, std::min(kLatentBlock, dim - b * kLatentBlock),
                                   kMaxLatent, numbers + slot * stride + b * kLatentBlock);
      } else {
        auto* const scales = reinterpret_cast<uint16_t*>(page + stride * kPageTokens);
        for (int b = 0; b < q8_blocks(dim); ++b) {
          int8_t numbers[kQ8Block];
          kernels.quantize_q8(row.data() + b * kQ8Block, std::min(kQ8Block, dim - b * kQ8Block), numbers,
                              scales + b * kPageTokens + slot);
          std::memcpy(page + slot * stride + b * kQ8Block, numbers, sizeof numbers);
        }
      }
    }
  }

  std::vector<std::byte> keys_, values_;
  std::vector<float> scores_, rows_, query_;
  int32_t pages_[kPages];
};

// All NaNs count as equal.
void check_same_bits(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &expected[i], 4) != 0 && !(std::isnan(got[i]) && std::isnan(expected[i])))
      return check::fail(__FILE__, __LINE__,
                         what + ": float " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
                             std::to_string(expected[i]));
}

void check_all_spans(const Unit& unit, Problem& problem, const std::string& what) {
  for (int span = 0; span * kAttentionSpan < kPositions; ++span) {
    const auto expected = problem.states(op_kernels_avx512().attention_span, span);
    check_same_bits(problem.states(unit.production, span), expected,
                    what + " on " + unit.name + ", span " + std::to_string(span));
  }
}

}  // namespace

// Covers all numbers of queries. The queries attend to all positions, to ranges with any start and end, or to windows.
TEST(attention_in_tiles_gives_the_bits_of_vector_instructions) {
  const auto found = units();
  if (skip_without(found)) return;
  for (const Shape& shape : kShapes)
    for (const int n_queries : {1, 31, 32}) {
      std::mt19937 random(static_cast<uint32_t>(n_queries));
      Problem problem(shape, n_queries, [&] { return normal(random); });
      for (int trial = 0; trial < 4; ++trial) {
        const int low = trial == 0 ? 0 : static_cast<int>(random() % 400);
        const int high = trial == 0 ? kPositions : low + 1 + static_cast<int>(random() % 200);
        for (int i = 0; i < n_queries; ++i) {
          problem.starts[i] = low + (trial % 2 == 0 ? 0 : i);
          problem.limits[i] = std::min(kPositions, high + (trial < 2 ? 0 : 3) * i);
          problem.limits[i] = std::max(problem.limits[i], problem.starts[i] + 1);
        }
        for (const Unit& unit : found)
          check_all_spans(unit, problem,
                          shape.name() + ", " + std::to_string(n_queries) + " queries, positions " +
                              std::to_string(low) + " to " + std::to_string(high));
      }
    }
}

// All numbers have the maximum magnitude, and all weights are equal or a single one has all the weight.
TEST(attention_in_tiles_gives_the_bits_of_vector_instructions_for_extreme_numbers) {
  const auto found = units();
  if (skip_without(found)) return;
  for (const Shape& shape : {Shape{128, 128}, Shape{256, 256}, Shape{576, 512, true}})
    for (const float sign : {1.0f, -1.0f, 0.0f}) {
      std::mt19937 random(7);
      Problem problem(shape, 32, [&] { return sign != 0.0f ? sign * 3.0f : random() % 2 == 0 ? 100.0f : -100.0f; });
      for (const Unit& unit : found) check_all_spans(unit, problem, shape.name() + ", sign " + std::to_string(sign));
    }
}

// A row with NaN affects only queries that attend to it.
TEST(attention_in_tiles_gives_the_bits_of_vector_instructions_for_nan_and_zeros) {
  const auto found = units();
  if (skip_without(found)) return;
  for (const Shape& shape : {Shape{128, 128}, Shape{96, 64, true}, Shape{96, 64, true, KvType::kQ8_0}})
    for (const bool zeros : {false, true}) {
      std::mt19937 random(9);
      Problem problem(shape, 32, [&] { return zeros ? 0.0f : normal(random); });
      for (int i = 0; i < 32; ++i) problem.limits[i] = 275 + i;
      if (!zeros) problem.fill_with_nan(290, 291);
      for (const Unit& unit : found) check_all_spans(unit, problem, shape.name() + (zeros ? ", zeros" : ", NaN"));
    }
}

// Rows to which no query attends may contain anything, even in pages to other rows of which queries attend.
TEST(attention_in_tiles_does_not_depend_on_other_rows) {
  const auto found = units();
  if (skip_without(found)) return;
  for (const Shape& shape : {Shape{128, 128}, Shape{256, 256}, Shape{96, 64, true}, Shape{96, 64, true, KvType::kQ8_0}})
    for (const Unit& unit : found)
      for (const auto attend : {unit.production, unit.fast}) {
        std::mt19937 random(11);
        Problem problem(shape, 32, [&] { return normal(random); });
        for (int i = 0; i < 32; ++i) problem.starts[i] = 41 + i, problem.limits[i] = 335 + i;
        std::vector<std::vector<float>> expected;
        for (int span = 0; span < 2; ++span) expected.push_back(problem.states(attend, span));
        problem.fill_with_nan(0, problem.starts[0]);
        problem.fill_with_nan(problem.limits[31], kPositions);
        for (int span = 0; span < 2; ++span)
          check_same_bits(problem.states(attend, span), expected[static_cast<size_t>(span)],
                          shape.name() + " on " + unit.name + ", span " + std::to_string(span));
      }
}

// Compares the results of one span with results computed from the same integers in double precision.
TEST(fast_attention_in_tiles_is_as_precise_as_vector_instructions) {
  const auto found = units();
  if (skip_without(found)) return;
  for (const Shape& shape : {Shape{128, 128}, Shape{160, 128}, Shape{256, 256}, Shape{576, 512, true}}) {
    std::mt19937 random(3);
    Problem problem(shape, 27, [&] { return normal(random); });
    const AttentionTile& tile = problem.tile;
    const int64_t floats = attention_state_floats(shape.value_dim), top = round_up_to_lanes(shape.value_dim);
    const auto number = [&](const std::byte* pages, size_t page_bytes, int64_t stride, int position, int d) {
      const std::byte* const page = pages + static_cast<size_t>(tile.pages[position / kPageTokens]) * page_bytes;
      const auto* const numbers = reinterpret_cast<const int16_t*>(page);
      const auto* const steps = reinterpret_cast<const float*>(numbers + stride * kPageTokens);
      const int slot = position % kPageTokens;
      return double(steps[d / kLatentBlock * kPageTokens + slot]) * numbers[slot * stride + d];
    };
    std::vector<double> expected(static_cast<size_t>(tile.n_queries * shape.value_dim));
    const auto* const queries = reinterpret_cast<const int16_t*>(tile.q);
    const auto* const query_steps = reinterpret_cast<const float*>(queries + kTileQueries * tile.key_stride);
    for (int i = 0; i < tile.n_queries; ++i) {
      std::vector<double> weights(kAttentionSpan);
      double sum = 0;
      for (int p = 0; p < kAttentionSpan; ++p) {
        double score = 0;
        for (int d = 0; d < shape.key_dim; ++d)
          score += double(query_steps[i * latent_blocks(shape.key_dim) + d / kLatentBlock]) *
                   queries[i * tile.key_stride + d] * number(tile.keys, tile.key_page_bytes, tile.key_stride, p, d);
        sum += weights[static_cast<size_t>(p)] = std::exp(score);
      }
      for (int p = 0; p < kAttentionSpan; ++p)
        for (int d = 0; d < shape.value_dim; ++d)
          expected[static_cast<size_t>(i * shape.value_dim + d)] +=
              weights[static_cast<size_t>(p)] / sum *
              number(tile.values, tile.value_page_bytes, tile.value_stride, p, d);
    }
    const auto error_of = [&](const std::vector<float>& states) {
      double error = 0, size = 0;
      for (int i = 0; i < tile.n_queries; ++i)
        for (int d = 0; d < shape.value_dim; ++d) {
          const double exact = expected[static_cast<size_t>(i * shape.value_dim + d)];
          const double got = double(states[static_cast<size_t>(i * floats + d)]) /
                             double(states[static_cast<size_t>(i * floats + top + 1)]);
          error += (got - exact) * (got - exact);
          size += exact * exact;
        }
      return std::sqrt(error / size);
    };
    const double vectors = error_of(problem.states(op_kernels_avx512().attention_span, 0));
    for (const Unit& unit : found) {
      const double fast = error_of(problem.states(unit.fast, 0));
      check::note(shape.name() + " on " + unit.name + ": relative error " + std::to_string(fast * 1e6) +
                  "e-6, with vector instructions " + std::to_string(vectors * 1e6) + "e-6");
      CHECK(fast < 1.02 * vectors && fast > 0);
    }
  }
}

#endif
