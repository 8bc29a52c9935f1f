// Tests that ProfiledBackend returns the same results as the wrapped backend, and that its measurements match the
// calls.
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/peak.h"
#include "backend/profiled_backend.h"
#include "check.h"
#include "matrix_data.h"

using namespace monolith;

namespace {

const OpFigures* find(const std::vector<OpFigures>& all, const std::string& name) {
  for (const OpFigures& figures : all)
    if (figures.name == name) return &figures;
  return nullptr;
}

}  // namespace

TEST(profiled_backend_gives_the_same_results_and_counts) {
  constexpr int64_t kRows = 48, kCols = 64;
  auto plain = make_cpu_backend({.threads = 1});
  auto inner = make_cpu_backend({.threads = 1});
  REQUIRE(plain.ok() && inner.ok());
  const auto profile = std::make_shared<StepProfile>();
  const auto profiled = make_profiled_backend(std::move(*inner), profile);
  CHECK(profile->read().empty());
  const auto data = matrix_data(TensorType::kQ8_0, kRows, kCols, 1);
  const std::vector<float> x(3 * kCols, 0.25f);
  std::vector<float> results[2];
  size_t bytes = 0;
  for (Backend* backend : {plain->get(), profiled.get()}) {
    REQUIRE(backend->reserve(3, kCols, 64, 16).ok());
    auto matrix = backend->matrix({TensorType::kQ8_0, kRows, kCols, data});
    REQUIRE(matrix.ok());
    bytes = (*matrix)->bytes;
    std::vector<float>& out = results[backend == plain->get() ? 0 : 1];
    out.resize(3 * kRows);
    const MatmulTarget target{.weight = matrix->get(), .out = out.data(), .out_stride = kRows};
    backend->begin_step({});
    backend->matmul({&target, 1}, x.data(), RowCount::fixed(3));
    backend->matmul({&target, 1}, x.data(), RowCount::fixed(1));
    backend->end_step();
  }
  CHECK(results[0] == results[1]);
  const auto all = profile->read();
  CHECK_EQ(all.size(), 1u);
  const OpFigures* product = find(all, "matmul 64 x 48");
  REQUIRE(product != nullptr);
  CHECK_EQ(product->calls, 2u);
  CHECK_EQ(product->bytes, 2 * bytes);
  CHECK_EQ(product->operations, uint64_t{2 * kRows * kCols * (3 + 1)});
  CHECK(product->nanoseconds > 0);
}

TEST(profile_has_room_for_every_operation_after_many_matmul_shapes) {
  constexpr int kShapes = 40;
  constexpr int64_t kCols = 32;
  auto inner = make_cpu_backend({.threads = 1});
  REQUIRE(inner.ok());
  const auto profile = std::make_shared<StepProfile>();
  const auto backend = make_profiled_backend(std::move(*inner), profile);
  REQUIRE(backend->reserve(1, kCols, 64, 16).ok());
  std::vector<float> x(kCols, 0.5f);
  for (int i = 0; i < kShapes; ++i) {
    const int64_t rows = 16 * (i + 1);
    const auto data = matrix_data(TensorType::kQ8_0, rows, kCols, 1);
    auto matrix = backend->matrix({TensorType::kQ8_0, rows, kCols, data});
    REQUIRE(matrix.ok());
    std::vector<float> out(static_cast<size_t>(rows));
    const MatmulTarget target{.weight = matrix->get(), .out = out.data(), .out_stride = rows};
    backend->matmul({&target, 1}, x.data(), RowCount::fixed(1));
  }
  backend->scale(x.data(), RowCount::fixed(1), kCols, 2.0f);
  backend->soft_cap(x.data(), RowCount::fixed(1), kCols, 2.0f);
  const auto all = profile->read();
  CHECK_EQ(all.size(), size_t{32 + 1 + 2});
  CHECK(find(all, "matmul 32 x 512") != nullptr && find(all, "matmul 32 x 528") == nullptr);
  const OpFigures *const others = find(all, "matmul, other shapes"), *const scaled = find(all, "scale");
  REQUIRE(others != nullptr && scaled != nullptr && find(all, "soft_cap") != nullptr);
  CHECK_EQ(others->calls, uint64_t{kShapes - 32});
  CHECK_EQ(scaled->calls, 1u);
}

// The tokens at positions 20 and 21 attend to 21 and 22 positions, of which 22 are distinct. With a sliding window of
// 8, they attend to 8 positions each, of which 9 are distinct.
TEST(profiled_backend_counts_the_positions_that_attention_reads) {
  constexpr int kHeads = 2, kHeadDim = 16;
  auto inner = make_cpu_backend({.threads = 1});
  REQUIRE(inner.ok());
  const auto profile = std::make_shared<StepProfile>();
  const auto backend = make_profiled_backend(std::move(*inner), profile);
  REQUIRE(backend->reserve(2, 64, 64, kHeadDim).ok());
  auto cache = backend->kv_cache(KvShape::of_equal_layers(1, 1, kHeadDim, 2, KvType::kF16));
  REQUIRE(cache.ok());
  const int32_t pages[] = {0, 1};
  const Segment segment{0, 2, 20, pages};
  std::vector<float> q(2 * kHeads * kHeadDim, 0.0f), out(q.size());
  const auto attend = [&](int window) {
    const auto before = profile->read();
    backend->attention({{&segment, 1},
                        q.data(),
                        kHeads * kHeadDim,
                        kHeads,
                        0,
                        **cache,
                        {.scale = 1.0f, .window = window},
                        out.data(),
                        kHeads * kHeadDim});
    OpFigures figures = *find(profile->read(), "attention");
    if (!before.empty()) {
      figures.operations -= before[0].operations;
      figures.bytes -= before[0].bytes;
    }
    return figures;
  };
  const uint64_t per_position = (*cache)->bytes / 2 / kPageTokens;
  const OpFigures full = attend(0), windowed = attend(8);
  CHECK_EQ(full.operations, uint64_t{4 * (21 + 22) * kHeads * kHeadDim});
  CHECK_EQ(full.bytes, 22 * per_position);
  CHECK_EQ(windowed.operations, uint64_t{4 * (8 + 8) * kHeads * kHeadDim});
  CHECK_EQ(windowed.bytes, 9 * per_position);
}

TEST(peak_of_every_instruction_set_is_measured) {
  for (const CpuIsa isa : available_cpu_isas()) {
    const ArithmeticPeak peak = measure_peak(isa, 1, 1);
    const bool has_units = isa != CpuIsa::kPlain && isa != CpuIsa::kNeon && isa != CpuIsa::kNeonI8mm;
    CHECK_EQ(peak.integer8 > 1e9, has_units);
    CHECK_EQ(peak.float32 > 1e9, has_units);
  }
}
