// Tests matrix products with cuBLASLt, which is loaded at run time. In the emulator, a fake library with the same
// interface computes on the emulated device (support/fake_cublaslt.cc). On a GPU, the real library is used if it is
// installed.
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/dense/library.h"
#include "backend/cuda/matmul/matmul.h"
#include "base/half.h"
#include "check.h"
#include "support/fake_cublaslt.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

std::mt19937 source(20261123);

std::vector<float> numbers(size_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(source);
  return values;
}

std::unique_ptr<Runtime> open_runtime() {
  auto opened = Runtime::open(0);
  return std::move(*opened);
}

bool is_emulated(const Runtime& runtime) { return runtime.device().driver == "none"; }
// Returns the path of the library to load. On a GPU, the path is empty, which selects the installed library.
std::string path_for(const Runtime& runtime) { return is_emulated(runtime) ? MONOLITH_FAKE_CUBLASLT : ""; }

fake_cublaslt::Control& control() {
  // Gets the handle of the library that is already loaded.
  void* const library = dlopen(MONOLITH_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<fake_cublaslt::GetControl>(dlsym(library, "fake_cublaslt_control"))();
}

float* upload(Runtime& runtime, const std::vector<float>& host) {
  auto memory = runtime.allocate(host.size() * sizeof(float));
  runtime.upload(*memory, host.data(), host.size() * sizeof(float));
  runtime.synchronize();
  return static_cast<float*>(*memory);
}
std::vector<float> download(Runtime& runtime, const float* from, size_t n) {
  std::vector<float> host(n);
  runtime.download(host.data(), from, n * sizeof(float));
  runtime.synchronize();
  return host;
}

struct Weights {
  std::vector<float> values;  // Weights after rounding to the storage type.
  std::unique_ptr<Matrix> matrix;
};
Weights weights(Runtime& runtime, TensorType type, int64_t rows, int64_t cols) {
  Weights made{numbers(static_cast<size_t>(rows * cols)), nullptr};
  std::vector<uint16_t> bits(made.values.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = type == TensorType::kBF16 ? float_to_bfloat16(made.values[i]) : float_to_half(made.values[i]);
    made.values[i] = type == TensorType::kBF16 ? bfloat16_to_float(bits[i]) : half_to_float(bits[i]);
  }
  if (auto matrix = make_matrix(runtime, {type, rows, cols, std::as_bytes(std::span(bits))}, false); matrix)
    made.matrix = std::move(*matrix);
  return made;
}

// Compares some outputs with double precision.
void check_product(const Weights& w, int64_t rows, int64_t cols, const std::vector<float>& x, int64_t columns,
                   const std::vector<float>& before, const std::vector<float>& bias, const std::vector<float>& y,
                   int64_t stride, const std::string& what) {
  double worst = 0;
  for (int64_t column = 0; column < columns; column += column < 16 ? 1 : 61)
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<size_t>(column * stride + row);
      double sum = (before.empty() ? 0 : before[at]) + (bias.empty() ? 0 : bias[static_cast<size_t>(row)]);
      for (int64_t k = 0; k < cols; ++k)
        sum += double{w.values[static_cast<size_t>(row * cols + k)]} *
               bfloat16_to_float(float_to_bfloat16(x[static_cast<size_t>(column * cols + k)]));
      worst = std::max(worst, std::isnan(y[at]) ? INFINITY : std::abs(sum - y[at]));
    }
  if (!(worst < 2e-5 * std::sqrt(static_cast<double>(cols)) + 2e-5))
    check::fail(__FILE__, __LINE__, what + ": off by " + std::to_string(worst));
}

constexpr int64_t kRows = 150, kCols = 200, kColumns = kLibraryColumns + 3;

}  // namespace

TEST(cublaslt_serves_wide_products_of_bfloat16) {
  CHECK(library_serves(Format::kBf16, 4096, 4096, kLibraryColumns));
  CHECK(!library_serves(Format::kBf16, 4096, 4096, kLibraryColumns - 1));
  CHECK(!library_serves(Format::kBf16, 16, 4096, 8192));
  // Each column of binary16 activations has its own scale, so cuBLASLt is not used.
  CHECK(!library_serves(Format::kF16, 4096, 4096, 8192));
  CHECK(!library_serves(Format::kQuant, 4096, 4096, 8192));
}

TEST(cublaslt_weights_are_unpacked_row_by_row) {
  const auto runtime = open_runtime();
  for (const auto& [rows, cols] : {std::pair{int64_t{48}, int64_t{64}}, std::pair{int64_t{70}, int64_t{650}}}) {
    const Weights w = weights(*runtime, TensorType::kBF16, rows, cols);
    const int64_t stride = dense_blocks(cols) * kDenseBlockK, first = 16, n = dense_tiles(rows) * 16 - first;
    std::vector<uint16_t> host(static_cast<size_t>(n * stride), 0xffff);
    auto memory = runtime->allocate(host.size() * sizeof(uint16_t));
    REQUIRE(memory.ok());
    runtime->upload(*memory, host.data(), host.size() * sizeof(uint16_t));
    unpack_dense(*runtime, static_cast<const CudaMatrix&>(*w.matrix).data(), cols, first, n, *memory);
    runtime->download(host.data(), *memory, host.size() * sizeof(uint16_t));
    runtime->synchronize();
    bool same = true;
    for (int64_t row = 0; row < n; ++row)
      for (int64_t k = 0; k < stride; ++k) {
        const bool inside = first + row < rows && k < cols;
        const float expected = inside ? w.values[static_cast<size_t>((first + row) * cols + k)] : 0.0f;
        same &= bfloat16_to_float(host[static_cast<size_t>(row * stride + k)]) == expected;
      }
    CHECK(same);
  }
}

TEST(cublaslt_matmul_is_correct) {
  const auto runtime = open_runtime();
  // With room for all rows of the unpacked weights, the product is computed as a whole; with room for only 64 rows, it
  // is computed in parts.
  for (const size_t bytes : {DenseLibrary::kWeightBytes, size_t{64} * 256 * sizeof(uint16_t)}) {
    auto library = DenseLibrary::open(*runtime, path_for(*runtime), bytes);
    if (!library && !is_emulated(*runtime)) return check::skip(library.error().message);
    REQUIRE(library.ok());
    MatmulContext context{DenseScratch(*runtime), dense_device(*runtime, {}), Int8Activations(*runtime),
                          std::move(*library)};
    REQUIRE(context.dense.reserve(kColumns, kCols).ok());
    const Weights w = weights(*runtime, TensorType::kBF16, kRows, kCols),
                  other = weights(*runtime, TensorType::kBF16, 128, kCols);
    const std::vector<float> x = numbers(kColumns * kCols), bias = numbers(kRows);
    constexpr int64_t kStride = kRows + 128 + 1;
    const std::vector<float> before = numbers(kColumns * kStride);
    float* const x_there = upload(*runtime, x);
    float* const bias_there = upload(*runtime, bias);
    for (const bool add : {false, true}) {
      float* const out = upload(*runtime, before);
      // Two adjacent outputs; the second one is aligned to only four bytes.
      const MatmulTarget targets[] = {{w.matrix.get(), out, kStride, bias_there, add},
                                      {other.matrix.get(), out + kRows + 1, kStride, nullptr, add}};
      matmul(*runtime, context, targets, x_there, static_cast<int>(kColumns));
      const std::vector<float> y = download(*runtime, out, before.size());
      check_product(w, kRows, kCols, x, kColumns, add ? before : std::vector<float>{}, bias, y, kStride,
                    "the first, buffer size " + std::to_string(bytes));
      const std::vector<float> second_before(before.begin() + kRows + 1, before.end());
      check_product(other, 128, kCols, x, kColumns, add ? second_before : std::vector<float>{}, {},
                    {y.begin() + kRows + 1, y.end()}, kStride, "the second");
      // Nothing is written between the outputs.
      for (auto at = static_cast<size_t>(kRows); at < y.size(); at += kStride) CHECK_EQ(y[at], before[at]);
      runtime->free(out);
    }
    CHECK_EQ(context.library->failures(), 0);
  }
}

TEST(cublaslt_caches_algorithms_and_evicts_the_oldest) {
  const auto runtime = open_runtime();
  if (!is_emulated(*runtime)) return check::skip("the real library does not count heuristic queries");
  auto workspace = runtime->allocate(CublasLt::kWorkspaceBytes);
  REQUIRE(workspace.ok());
  fake_cublaslt::Control& fake = control();
  fake = {};
  {
    auto opened = CublasLt::open(*runtime, MONOLITH_FAKE_CUBLASLT, *workspace);
    REQUIRE(opened.ok());
    CHECK_EQ((*opened)->version(), std::string("13.0.2"));
    CHECK_EQ(fake.heuristics, 1);  // From the product that tests the library when it is opened.
    float* const memory = upload(*runtime, std::vector<float>(100'000, 0.0f));
    const auto ask = [&](int64_t columns) {
      CHECK((*opened)->multiply({16, columns, 64, 16, memory, memory, memory + 50'000, false}));
    };
    for (int64_t columns = 1; columns <= 63; ++columns) ask(columns), ask(columns);
    CHECK_EQ(fake.heuristics, 64);
    CHECK_EQ(fake.layouts, 3 * 64);
    ask(1);  // The algorithm for this shape is still cached.
    CHECK_EQ(fake.heuristics, 64);
    // The algorithms for two new shapes replace the two oldest algorithms in the cache.
    ask(64), ask(65), ask(1), ask(65), ask(64);
    CHECK_EQ(fake.heuristics, 66);
    CHECK_EQ(fake.layouts, 3 * 64);
    ask(2);
    CHECK_EQ(fake.heuristics, 67);
  }
  CHECK_EQ(fake.layouts, 0);
  CHECK_EQ(fake.handles, 0);
}

TEST(cublaslt_failures_fall_back_without_losing_results) {
  const auto runtime = open_runtime();
  if (!is_emulated(*runtime)) return check::skip("the real library cannot be made to fail");
  const Weights w = weights(*runtime, TensorType::kBF16, kRows, kCols);
  const std::vector<float> x = numbers(kColumns * kCols), bias = numbers(kRows), before = numbers(kColumns * kRows);
  float* const x_there = upload(*runtime, x);
  float* const bias_there = upload(*runtime, bias);
  fake_cublaslt::Control& fake = control();
  struct Way {
    const char* name;
    bool finds_nothing;
    int fails_after;
    int products;  // Number of products computed before the failure.
  };
  for (const Way& way : {Way{"no algorithm", true, -1, 0}, Way{"the first part fails", false, 0, 0},
                         Way{"the second part fails", false, 1, 1}}) {
    fake = {};
    auto library = DenseLibrary::open(*runtime, MONOLITH_FAKE_CUBLASLT, size_t{64} * 256 * sizeof(uint16_t));
    REQUIRE(library.ok());
    MatmulContext context{DenseScratch(*runtime), dense_device(*runtime, {}), Int8Activations(*runtime),
                          std::move(*library)};
    REQUIRE(context.dense.reserve(kColumns, kCols).ok());
    fake.products = 0, fake.finds_nothing = way.finds_nothing, fake.fails_after = way.fails_after;
    for (int i = 0; i < 2; ++i) {
      float* const out = upload(*runtime, before);
      const MatmulTarget target{w.matrix.get(), out, kRows, bias_there, true};
      matmul(*runtime, context, {&target, 1}, x_there, static_cast<int>(kColumns));
      check_product(w, kRows, kCols, x, kColumns, before, bias, download(*runtime, out, before.size()), kRows,
                    way.name);
      runtime->free(out);
      if (i == 0) CHECK_EQ(fake.products, way.products);
      CHECK_EQ(context.library->failures(), 1);  // After a failure the library is not used again.
    }
  }
  fake = {};
}

TEST(unusable_cublaslt_is_rejected) {
  const auto runtime = open_runtime();
  if (!is_emulated(*runtime)) return check::skip("the real library cannot be changed");
  const auto why = [&](const std::string& path) {
    auto opened = DenseLibrary::open(*runtime, path);
    return opened ? std::string() : opened.error().message;
  };
  CHECK(why("/nowhere/libcublasLt.so").find("/nowhere/libcublasLt.so") != std::string::npos);
  CHECK_EQ(why(MONOLITH_FAKE_CUBLASLT_LESS), std::string("the library does not export cublasLtMatmul"));
  fake_cublaslt::Control& fake = control();
  fake = {};
  fake.is_wrong = true;
  CHECK_EQ(why(MONOLITH_FAKE_CUBLASLT), std::string("its test matmul gave a wrong result"));
  fake = {};
  fake.fails_after = 0;
  CHECK_EQ(why(MONOLITH_FAKE_CUBLASLT), std::string("its test matmul failed"));
  CHECK_EQ(fake.layouts, 0);
  CHECK_EQ(fake.handles, 0);
  fake = {};

  // Checks what the backend reports with and without a usable library.
  const auto isa = [](bool invariant, const std::string& path) {
    CudaBackendOptions options;
    options.invariant = invariant, options.cublaslt = path;
    auto backend = make_cuda_backend(options);
    return backend ? (*backend)->info().isa : "error: " + backend.error().message;
  };
  CHECK(isa(false, MONOLITH_FAKE_CUBLASLT).ends_with(", cuBLASLt 13.0.2"));
  CHECK_EQ(isa(true, MONOLITH_FAKE_CUBLASLT),
           std::string("error: cuBLASLt can be used only with batch invariance off"));
  CHECK(isa(true, "auto").find("cuBLASLt") == std::string::npos);
  CHECK(isa(false, "").find("cuBLASLt") == std::string::npos);
  CHECK_EQ(isa(false, MONOLITH_FAKE_CUBLASLT_LESS),
           "error: cuBLASLt at " MONOLITH_FAKE_CUBLASLT_LESS ": the library does not export cublasLtMatmul");
}
