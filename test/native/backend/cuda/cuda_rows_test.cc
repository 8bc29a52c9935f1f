// Compares the CUDA backend's row operations with double precision: both variants of each kernel, with other rows in
// the batch, and with all orders of threads. Also checks that nothing is written past the end of an array.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "backend/cuda/attention/rope.h"
#include "backend/cuda/rows.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

using Floats = std::vector<float>;

// The device and a test's arrays in its memory. Each array is followed by a NaN.
class Desk {
 public:
  Desk() {
    auto opened = Runtime::open(0);
    runtime_ = std::move(*opened);
    host_ = static_cast<float*>(*runtime_->allocate_pinned(kMax * sizeof(float)));
  }
  Runtime& runtime() { return *runtime_; }
  float* put(const Floats& values) {
    auto* const at = static_cast<float*>(*runtime_->allocate((values.size() + 1) * sizeof(float)));
    std::memcpy(host_, values.data(), values.size() * sizeof(float));
    runtime_->fill(at, 0xff, (values.size() + 1) * sizeof(float));
    runtime_->upload(at, host_, values.size() * sizeof(float));
    runtime_->synchronize();
    return at;
  }
  float* poison(size_t n) { return put(Floats(n, std::nanf(""))); }
  Floats get(const float* at, size_t n) {
    runtime_->download(host_, at, (n + 1) * sizeof(float));
    runtime_->synchronize();
    CHECK(std::isnan(host_[n]));
    return {host_, host_ + n};
  }
  Floats random(size_t n) {
    std::normal_distribution<float> normal(0, 1);
    Floats values(n);
    for (float& value : values) value = normal(random_);
    return values;
  }

 private:
  static constexpr size_t kMax = 1 << 17;
  std::unique_ptr<Runtime> runtime_;
  std::mt19937 random_{11};
  float* host_ = nullptr;
};

void check_close(const Floats& got, const std::function<double(size_t)>& wanted, double tolerance, const char* what) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(got[i] - wanted(i));
    if (!(off <= tolerance * (1 + std::abs(wanted(i))))) {
      check::fail(__FILE__, __LINE__,
                  std::string(what) + ": number " + std::to_string(i) + " is off by " + std::to_string(off));
      return;
    }
  }
}

}  // namespace

TEST(cuda_norms) {
  CHECK(norm_form(4096) == NormForm::kQuads);
  CHECK(norm_form(4098) == NormForm::kPlain);
  CHECK(norm_form(16384) == NormForm::kPlain);
  Desk desk;
  using enum emulator::Order;
  for (const int64_t dim : {7, 64, 100, 2052, 2049, 8192, 8196}) {
    const int rows = 3;
    const auto width = static_cast<size_t>(dim);
    const Floats x = desk.random(rows * width), weight = desk.random(width);
    const float* const w = desk.put(weight);
    float* const out = desk.poison(rows * width);
    emulator::set_order(kShuffled);
    rms_norm(desk.runtime(), desk.put(x), w, 1e-5f, rows, dim, out);
    const Floats all = desk.get(out, rows * width);
    check_close(
        all,
        [&](size_t i) {
          double sum = 0;
          for (size_t k = i / width * width; k < i / width * width + width; ++k)
            sum += static_cast<double>(x[k]) * x[k];
          return x[i] / std::sqrt(sum / static_cast<double>(dim) + 1e-5f) * weight[i % width];
        },
        1e-5, "rms_norm");
    emulator::set_order(kDescending);
    float* const last = desk.put({x.end() - dim, x.end()});  // Normalizes the last row alone and in place.
    rms_norm(desk.runtime(), last, w, 1e-5f, 1, dim, last);
    CHECK(std::memcmp(desk.get(last, width).data(), all.data() + 2 * dim, width * sizeof(float)) == 0);
  }
  for (const int head_dim : {33, 64, 128, 256}) {
    const int rows = 2, heads = 5;
    const auto width = static_cast<size_t>(head_dim), stride = width * heads + 3;
    const Floats x = desk.random(rows * stride), weight = desk.random(width);
    float* const at = desk.put(x);
    rms_norm_heads(desk.runtime(), at, static_cast<int64_t>(stride), desk.put(weight), 1e-6f, rows, heads, head_dim);
    check_close(
        desk.get(at, x.size()),
        [&](size_t i) -> double {
          const size_t in_row = i % stride, first = i - in_row + in_row / width * width;
          if (in_row >= width * heads) return x[i];
          double sum = 0;
          for (size_t k = first; k < first + width; ++k) sum += static_cast<double>(x[k]) * x[k];
          return x[i] / std::sqrt(sum / head_dim + 1e-6f) * weight[in_row % width];
        },
        1e-5, "rms_norm_heads");
    Floats dense(x.begin(), x.begin() + static_cast<int64_t>(width * heads));
    const Floats weights = desk.random(width * heads);
    for (const bool weighted : {true, false}) {
      float* const groups = desk.put(dense);
      if (weighted)
        rms_norm_groups(desk.runtime(), groups, desk.put(weights), 1e-6f, 1, heads, head_dim);
      else
        rms_norm_heads(desk.runtime(), groups, static_cast<int64_t>(dense.size()), nullptr, 1e-6f, 1, heads, head_dim);
      check_close(
          desk.get(groups, dense.size()),
          [&](size_t i) -> double {
            double sum = 0;
            for (size_t k = i / width * width; k < i / width * width + width; ++k)
              sum += static_cast<double>(dense[k]) * dense[k];
            return dense[i] / std::sqrt(sum / head_dim + 1e-6f) * (weighted ? weights[i] : 1.0f);
          },
          1e-5, weighted ? "rms_norm_groups" : "rms_norm_heads without weights");
    }
  }
  emulator::set_order(kAscending);
}

TEST(cuda_gates_sums_and_copies) {
  Desk desk;
  for (const size_t dim : {size_t{1}, size_t{30}, size_t{64}, size_t{1028}}) {
    const size_t rows = 3, n = rows * dim;
    const Floats x = desk.random(n), y = desk.random(n), gates = desk.random(rows);
    const auto width = static_cast<int64_t>(dim);
    const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
    float* const out = desk.poison(n);
    gated(desk.runtime(), Activation::kSilu, desk.put(x), desk.put(y), static_cast<int64_t>(n), out);
    check_close(
        desk.get(out, n), [&](size_t i) { return silu(x[i]) * y[i]; }, 1e-5, "SiLU gate");
    gated(desk.runtime(), Activation::kGelu, desk.put(x), desk.put(y), static_cast<int64_t>(n), out);
    check_close(
        desk.get(out, n),
        [&](size_t i) {
          const double v = x[i], u = std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v);
          return v / (1 + std::exp(-2 * u)) * y[i];
        },
        1e-5, "gated by GELU");
    float* at = desk.put(x);
    scale(desk.runtime(), at, static_cast<int64_t>(n), 0.3f);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] * 0.3; }, 1e-6, "scale");
    soft_cap(desk.runtime(), at = desk.put(x), static_cast<int64_t>(n), 1.5f);
    check_close(
        desk.get(at, n), [&](size_t i) { return 1.5 * std::tanh(x[i] / 1.5); }, 1e-5, "soft_cap");
    add_rows(desk.runtime(), at = desk.put(x), desk.put(y), 0.7f, nullptr, rows, width);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] + 0.7 * y[i]; }, 1e-6, "add_rows");
    add_rows(desk.runtime(), at = desk.put(x), desk.put(y), 0.7f, desk.put(gates), rows, width);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] + 0.7 / (1 + std::exp(-gates[i / dim])) * y[i]; }, 1e-5,
        "add_rows with a gate");
    const int32_t picked[] = {2, 0, 2, 1};
    Floats bits(4);
    std::memcpy(bits.data(), picked, sizeof picked);
    float* const copies = desk.poison(4 * dim);
    gather_rows(desk.runtime(), desk.put(x), reinterpret_cast<const int32_t*>(desk.put(bits)), 4, width, copies);
    const Floats copied = desk.get(copies, 4 * dim);
    for (size_t i = 0; i < copied.size(); ++i)
      CHECK(copied[i] == x[static_cast<size_t>(picked[i / dim]) * dim + i % dim]);
  }
}

TEST(cuda_operations_of_whole_rows) {
  Desk desk;
  for (const int dim : {6, 66, 1029}) {
    const int rows = 3, heads = 3;
    const auto width = static_cast<size_t>(dim), n = rows * width;
    const Floats x = desk.random(n), y = desk.random(n), columns = desk.random(width),
                 gates = desk.random(rows * heads);
    const Floats weights = desk.random(rows * 4);
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    const auto of_row = [&](const Floats& from, size_t i, auto term) {
      double sum = 0;
      for (size_t k = i / width * width; k < (i / width + 1) * width; ++k) sum += term(double{from[k]});
      return sum;
    };
    const auto square = [](double v) { return v * v; };
    float* at = desk.put(x);
    gate_heads(desk.runtime(), HeadGate::kSigmoid, at, desk.put(gates), rows, heads, dim / heads);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] * sigmoid(gates[i / (width / heads)]); }, 1e-5, "gate_heads");
    gate_heads(desk.runtime(), HeadGate::kSoftplus, at = desk.put(x), desk.put(gates), rows, heads, dim / heads);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] * std::log1p(std::exp(double{gates[i / (width / heads)]})); },
        1e-5, "gate_heads, softplus");
    clamp(desk.runtime(), at = desk.put(x), static_cast<int64_t>(n), 0.5f);
    check_close(
        desk.get(at, n), [&](size_t i) { return std::clamp(double{x[i]}, -0.5, 0.5); }, 1e-6, "clamp");
    scale_columns(desk.runtime(), at = desk.put(x), desk.put(columns), rows, dim);
    check_close(
        desk.get(at, n), [&](size_t i) { return double{x[i]} * columns[i % width]; }, 1e-6, "scale_columns");
    add_bias(desk.runtime(), at = desk.put(x), desk.put(columns), rows, dim);
    check_close(
        desk.get(at, n), [&](size_t i) { return double{x[i]} + columns[i % width]; }, 1e-6, "add_bias");
    add_weighted(desk.runtime(), at = desk.put(x), desk.put(y), desk.put(weights) + 1, 4, 0.5f, rows, dim);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] + (weights[i / width * 4 + 1] + 0.5) * y[i]; }, 1e-5,
        "add_weighted");
    rescale_to_norm(desk.runtime(), at = desk.put(x), desk.put(y), rows, dim);
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] * std::sqrt(of_row(y, i, square) / of_row(x, i, square)); }, 1e-5,
        "match_length");
    gaussian_topk(desk.runtime(), at = desk.put(x), 0.8f, rows, dim);
    check_close(
        desk.get(at, n),
        [&](size_t i) {
          const double mean = of_row(x, i, [](double v) { return v; }) / dim;
          const double deviation =
              std::sqrt(of_row(x, i, [&](double v) { return (v - mean) * (v - mean); }) / (dim - 1));
          return std::max(x[i] - mean - double{0.8f} * deviation, 0.0);
        },
        1e-5, "keep_outliers");
    for (const bool biased : {false, true}) {
      float* const out = desk.poison(n);
      layer_norm(desk.runtime(), desk.put(x), desk.put(columns), biased ? desk.put(y) : nullptr, 1e-5f, rows, dim, out);
      check_close(
          desk.get(out, n),
          [&](size_t i) {
            const double mean = of_row(x, i, [](double v) { return v; }) / dim;
            const double variance = of_row(x, i, [&](double v) { return (v - mean) * (v - mean); }) / dim;
            return (x[i] - mean) / std::sqrt(variance + 1e-5) * columns[i % width] + (biased ? y[i % width] : 0.0f);
          },
          1e-5, "layer_norm");
    }
    activate(desk.runtime(), Activation::kReluSquared, at = desk.put(x), static_cast<int64_t>(n));
    check_close(
        desk.get(at, n), [&](size_t i) { return x[i] > 0 ? double{x[i]} * x[i] : 0.0; }, 1e-6, "activate");
    at = desk.put(x);
    gated(desk.runtime(), {Activation::kSilu, 0.4f}, at, desk.put(y), static_cast<int64_t>(n), at);
    check_close(
        desk.get(at, n),
        [&](size_t i) {
          return std::min(x[i] * sigmoid(x[i]), double{0.4f}) * std::clamp(double{y[i]}, -double{0.4f}, double{0.4f});
        },
        1e-5, "gated with a limit");
    float* const copies = desk.poison(n);
    copy_rows(desk.runtime(), desk.put(y), dim - 2, rows, dim, copies);
    check_close(
        desk.get(copies, n), [&](size_t i) { return double{y[i / width * (width - 2) + i % width]}; }, 0, "copy_rows");
  }
}

TEST(cuda_rope_rotates_and_stores) {
  CHECK(rope_form(128, 128, 4096, 1024, 1024) == RopeForm::kQuads);
  CHECK(rope_form(128, 0, 4096, 1024, 1024) == RopeForm::kQuads);
  CHECK(rope_form(90, 88, 4096, 1024, 1024) == RopeForm::kPlain);
  CHECK(rope_form(128, 126, 4096, 1024, 1024) == RopeForm::kPlain);
  struct Case {
    RopeStyle style;
    int head_dim, n_dims;
    KvType type;
  };
  using enum RopeStyle;
  for (const Case& c : {Case{kAdjacentPairs, 64, 64, KvType::kF16}, Case{kHalves, 128, 128, KvType::kF16},
                        Case{kHalves, 80, 20, KvType::kF32}, Case{kAdjacentPairs, 80, 40, KvType::kF32},
                        Case{kHalves, 50, 30, KvType::kF16}, Case{kAdjacentPairs, 30, 10, KvType::kF32},
                        Case{kHalves, 64, 0, KvType::kF16}, Case{kHalves, 256, 256, KvType::kF32}}) {
    Desk desk;
    Runtime& runtime = desk.runtime();
    const int heads = 3, kv_heads = 2;
    auto cache = CudaKvCache::create(runtime, KvShape::of_equal_layers(2, kv_heads, c.head_dim, 8, c.type));
    REQUIRE(cache.ok());
    StepTables tables(runtime);
    REQUIRE(tables.reserve(16, 128).ok());
    RopeTables ropes(runtime);
    REQUIRE(ropes.reserve(16, c.head_dim).ok());
    Floats frequencies(static_cast<size_t>(c.n_dims / 2));
    for (size_t i = 0; i < frequencies.size(); ++i)
      frequencies[i] = std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(c.n_dims));
    const RopeParams rope{c.style, c.n_dims, frequencies.data(), 1.1f};
    const int32_t first_pages[] = {5, 2, 7}, second_pages[] = {0, 3};
    const Segment segments[] = {{0, 4, 14, first_pages}, {4, 1, 20, second_pages}, {5, 1, 47, first_pages}};
    const int32_t tokens[6] = {};
    const std::span<const Segment> lists[] = {segments};
    tables.send({.model = nullptr, .tokens = tokens, .logit_rows = {}, .segment_lists = lists, .max_rows = 16}, 0,
                kSparePage);
    const RowList& rows = *tables.find(segments);
    const auto dim = static_cast<size_t>(c.head_dim);
    const size_t q_stride = heads * dim, k_stride = kv_heads * dim;
    const Floats q = desk.random(6 * q_stride), k = desk.random(6 * k_stride), v = desk.random(6 * k_stride);
    float *const q_at = desk.put(q), *const k_at = desk.put(k), *const v_at = desk.put(v);
    ropes.begin_step();
    const KvView view = (*cache)->view(1);
    rope_and_store(runtime, rope, ropes.prepare(rope, rows),
                   {&rows, q_at, static_cast<int64_t>(q_stride), heads, k_at, static_cast<int64_t>(k_stride), v_at,
                    static_cast<int64_t>(k_stride), view, c.type});
    const int positions[] = {14, 15, 16, 17, 20, 47};
    const int32_t pages[] = {5, 5, 2, 2, 3, 7};
    const auto rotated = [&](const Floats& x, size_t i, size_t stride) -> double {
      const size_t d = i % dim, half = static_cast<size_t>(c.n_dims / 2);
      if (d >= 2 * half) return x[i];
      const bool adjacent = c.style == kAdjacentPairs;
      const size_t pair = adjacent ? d / 2 : d % half;
      const bool is_first = adjacent ? d % 2 == 0 : d < half;
      const size_t other = adjacent ? (is_first ? i + 1 : i - 1) : (is_first ? i + half : i - half);
      const double angle = static_cast<double>(positions[i / stride]) * frequencies[pair];
      const double cosine = 1.1f * std::cos(angle), sine = 1.1f * std::sin(angle);
      return is_first ? x[i] * cosine - x[other] * sine : x[i] * cosine + x[other] * sine;
    };
    check_close(
        desk.get(q_at, q.size()), [&](size_t i) { return rotated(q, i, q_stride); }, 1e-5, "RoPE of queries");
    const Floats keys = desk.get(k_at, k.size());
    check_close(
        keys, [&](size_t i) { return rotated(k, i, k_stride); }, 1e-5, "RoPE of keys");
    // The pages must contain the computed values, rounded only once.
    const size_t number = c.type == KvType::kF32 ? 4 : 2;
    std::vector<unsigned char> held((*cache)->bytes);
    runtime.download(held.data(), view.data, 8 * static_cast<size_t>(view.page_bytes));
    runtime.synchronize();
    size_t written = 0;
    for (size_t row = 0; row < 6; ++row)
      for (size_t head = 0; head < kv_heads; ++head)
        for (size_t d = 0; d < dim; ++d) {
          const size_t slot = (head * kPageTokens + static_cast<size_t>(positions[row] % kPageTokens)) * dim + d;
          const size_t at = static_cast<size_t>(pages[row]) * static_cast<size_t>(view.page_bytes) + slot * number;
          const size_t from = row * k_stride + head * dim + d;
          const auto same = [&](const unsigned char* bytes, float wanted) {
            if (number == 4) return std::memcmp(bytes, &wanted, 4) == 0;
            const uint16_t half = ::monolith::float_to_half(wanted);
            return std::memcmp(bytes, &half, 2) == 0;
          };
          written +=
              same(held.data() + at, keys[from]) && same(held.data() + at + static_cast<size_t>(view.values), v[from]);
        }
    CHECK_EQ(written, 6 * kv_heads * dim);
  }
}

// Cached RoPE angles depend on the segments and the frequencies, not on the addresses where these are stored.
TEST(cuda_rope_angles_follow_the_segments_and_the_frequencies) {
  constexpr int kDim = 8, kHalf = kDim / 2;
  auto made = make_cuda_backend({.exact = true});
  REQUIRE(made.ok());
  Backend& backend = **made;
  auto cache = backend.kv_cache(KvShape::of_equal_layers(1, 1, kDim, 4, KvType::kF32));
  REQUIRE(cache.ok());
  float* const q = *backend.allocate(kDim);
  float* const k = *backend.allocate(kDim);
  float frequencies[kHalf];
  const int32_t pages[] = {0, 1};
  const std::vector<int32_t> tokens = {0};
  for (const float base : {1.0f, 0.25f}) {  // Another model's frequencies at the same address.
    REQUIRE(backend.reserve(4, 64, 32, kDim).ok());
    for (int i = 0; i < kHalf; ++i) frequencies[i] = base / static_cast<float>(i + 1);
    const uint8_t axes[kHalf] = {0, 2, 1, 2};  // M-RoPE: which of the three positions rotates each pair.
    const bool three = base < 1;
    const RopeParams rope{RopeStyle::kHalves, kDim, frequencies, 1.0f, three ? axes : nullptr};
    // The three RoPE positions for position p in a segment that has its own positions.
    const auto place_of = [](int p) { return RopePosition{p + 2, 3 * p, p + 11}; };
    const RopePosition own[] = {place_of(7)};
    const Segment sent[] = {
        {.first_row = 0, .n_tokens = 1, .first_position = 7, .pages = pages, .rope_positions = three ? own : nullptr}};
    const std::span<const Segment> lists[] = {sent};
    backend.begin_step({.model = nullptr, .tokens = tokens, .logit_rows = {}, .segment_lists = lists, .max_rows = 4});
    for (const int position : {3, 20, 7}) {
      const bool brings = three && position != 20;
      const RopePosition place = brings ? place_of(position) : RopePosition{position, position, position};
      const Segment unsent[] = {{.first_row = 0,
                                 .n_tokens = 1,
                                 .first_position = position,
                                 .pages = pages,
                                 .rope_positions = brings ? &place : nullptr}};
      const std::span<const Segment> list = position == 7 ? std::span<const Segment>(sent) : unsent;
      Floats x(kDim, 0.0f);
      std::fill_n(x.begin(), kHalf, 1.0f);
      backend.write_floats(q, x.data(), kDim);
      backend.write_floats(k, x.data(), kDim);
      Floats alone(kDim);
      backend.rotate(rope, list, q, kDim, 1, kDim);
      backend.read_floats(alone.data(), q, kDim);
      backend.write_floats(q, x.data(), kDim);
      backend.rope_and_store({rope, list, q, kDim, 1, k, kDim, k, kDim, 0, **cache});
      backend.read_floats(x.data(), q, kDim);
      CHECK(std::memcmp(alone.data(), x.data(), kDim * sizeof(float)) == 0);
      for (int i = 0; i < kHalf; ++i) {
        const int axis = three ? axes[i] : 0;
        const double angle = double{frequencies[i]} * (axis == 0 ? place.time : axis == 1 ? place.height : place.width);
        CHECK(std::abs(x[static_cast<size_t>(i)] - std::cos(angle)) < 1e-5);
        CHECK(std::abs(x[static_cast<size_t>(kHalf + i)] - std::sin(angle)) < 1e-5);
      }
    }
    backend.end_step();
  }
}

// A CUDA graph is replayed for other tokens, and for more tokens than it was captured with. An operation that does not
// cover all rows of the step, or that uploads its arguments, must therefore not be part of a graph.
TEST(cuda_refuses_operations_that_a_graph_cannot_replay) {
  constexpr int kDim = 8, kRows = 3;
  auto made = make_cuda_backend({.exact = true});
  REQUIRE(made.ok());
  Backend& backend = **made;
  REQUIRE(backend.reserve(4, 64, 32, kDim).ok());
  float* const x = *backend.allocate(4 * kDim);
  const int32_t pages[] = {0};
  const std::vector<int32_t> tokens(kRows, 0), all = {0, 1, 2};
  std::vector<Segment> segments;
  for (int row = 0; row < kRows; ++row) segments.push_back({row, 1, 0, pages});
  const std::span<const Segment> lists[] = {segments};
  StepInput step{.model = &backend, .tokens = tokens, .logit_rows = all, .segment_lists = lists, .max_rows = 4};
  const auto error_of = [&](const std::function<void()>& operation) -> std::string {
    backend.begin_step(step);
    std::string message;
    try {
      operation();
    } catch (const std::logic_error& error) {
      message = error.what();
    }
    backend.end_step();
    return message;
  };
  const std::function<void()> scale_all = [&] { backend.scale(x, step.rows(), kDim, 2.0f); };
  const std::function<void()> others[] = {
      [&] { backend.scale(x, RowCount::fixed(kRows), kDim, 2.0f); },
      [&] { backend.layer_norm(x, nullptr, nullptr, 1e-5f, RowCount::fixed(2 * kRows), kDim / 2, x); },
      [&] { backend.gather_rows(x, all, kDim, x); },
      [&] {
        const std::vector<Segment> copy = segments;
        backend.rotate({RopeStyle::kHalves, 0, nullptr}, copy, x, kDim, 1, kDim);
      }};
  for (step.recordable = true; const auto& operation : others)
    CHECK(error_of(operation).find("in a decode step that is captured as a CUDA graph of 4 tokens") !=
          std::string::npos);
  CHECK_EQ(error_of(others[1]),
           "an operation computes 6 rows in a decode step that is captured as a CUDA graph of 4 tokens");
  CHECK_EQ(error_of(scale_all), std::string());
  step.recordable = false;
  for (const auto& operation : others) CHECK_EQ(error_of(operation), std::string());
}

// Tests the maximum size of the page tables, with every token of a step at the end of the longest context.
TEST(cuda_step_tables_hold_every_list_at_full_length) {
  constexpr int kRows = 4, kContext = 1 << 16;
  auto made = make_cuda_backend({.exact = true});
  REQUIRE(made.ok());
  Backend& backend = **made;
  REQUIRE(backend.reserve(kRows, 64, kContext, 8).ok());
  REQUIRE(backend.kv_cache(KvShape::of_equal_layers(1, 1, 8, 4, KvType::kF32)).ok());
  std::vector<std::vector<int32_t>> pages;
  std::vector<std::vector<Segment>> segments(kMaxSegmentLists);
  std::vector<std::span<const Segment>> lists;
  for (auto& list : segments) {
    for (int row = 0; row < kRows; ++row) {
      pages.emplace_back(kContext / kPageTokens, row);
      list.push_back({row, 1, kContext - 1, pages.back().data()});
    }
    lists.push_back(list);
  }
  const std::vector<int32_t> tokens(kRows, 0), logit_rows = {0, 1, 2, 3};
  CHECK(!backend.begin_step(
      {.model = &backend, .tokens = tokens, .logit_rows = logit_rows, .segment_lists = lists, .max_rows = kRows}));
  backend.end_step();
}
