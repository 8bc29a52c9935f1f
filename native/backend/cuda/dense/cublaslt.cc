#include "backend/cuda/dense/cublaslt.h"

#include <dlfcn.h>

#include <utility>

#include "base/half.h"

namespace monolith::cuda {
namespace {

using namespace cublaslt;

Error unsupported(const std::string& what) { return {ErrorCode::kUnsupported, what}; }

// Returns the dynamic loader's last error message.
std::string complaint() {
  const char* const text = dlerror();
  return text ? text : "the library could not be loaded";
}

Result<void*> load(const std::string& path) {
  dlerror();
  if (!path.empty()) {
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    return unsupported(complaint());
  }
  for (const char* const name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return unsupported("libcublasLt.so.13 or .12 is not installed");
}

template <typename Function>
void find(void* library, const char* name, Function*& function, const char*& missing) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (!function && !missing) missing = name;
}

Result<Functions> functions_of(void* library) {
  Functions f{};
  const char* missing = nullptr;
#define MONOLITH_FIND(name) find(library, #name, f.name, missing)
  MONOLITH_FIND(cublasLtGetVersion);
  MONOLITH_FIND(cublasLtCreate);
  MONOLITH_FIND(cublasLtDestroy);
  MONOLITH_FIND(cublasLtMatmulDescCreate);
  MONOLITH_FIND(cublasLtMatmulDescDestroy);
  MONOLITH_FIND(cublasLtMatmulDescSetAttribute);
  MONOLITH_FIND(cublasLtMatrixLayoutCreate);
  MONOLITH_FIND(cublasLtMatrixLayoutDestroy);
  MONOLITH_FIND(cublasLtMatmulPreferenceCreate);
  MONOLITH_FIND(cublasLtMatmulPreferenceDestroy);
  MONOLITH_FIND(cublasLtMatmulPreferenceSetAttribute);
  MONOLITH_FIND(cublasLtMatmulAlgoGetHeuristic);
  MONOLITH_FIND(cublasLtMatmul);
#undef MONOLITH_FIND
  if (missing) return unsupported("the library does not export " + std::string(missing));
  return f;
}

// Returns the largest power of two up to 256 that divides the address of every output column.
int alignment_of(const float* out, int64_t stride) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(out) | static_cast<uint64_t>(stride) * sizeof(float) | 256;
  return static_cast<int>(bits & -bits);
}

}  // namespace

Result<std::unique_ptr<CublasLt>> CublasLt::open(Runtime& runtime, const std::string& path, void* workspace) {
  if (path.empty() && runtime.device().driver == "none") return unsupported("the device is emulated");
  const auto library = load(path);
  if (!library) return library.error();
  const auto functions = functions_of(*library);
  if (!functions) return functions.error();
  std::unique_ptr<CublasLt> opened(new CublasLt(runtime, *functions, workspace));
  if (Status status = opened->start(); !status) return status.error();
  if (Status status = opened->try_product(); !status) return status.error();
  return opened;
}

Status CublasLt::start() {
  runtime_.make_current();
  Code failed = functions_.cublasLtCreate(&handle_);
  if (failed == kSuccess) failed = functions_.cublasLtMatmulDescCreate(&desc_, kCompute32, kReal32);
  if (failed == kSuccess)
    failed = functions_.cublasLtMatmulDescSetAttribute(desc_, kDescTransA, &kTransposed, sizeof kTransposed);
  if (failed == kSuccess) failed = functions_.cublasLtMatmulPreferenceCreate(&preference_);
  const uint64_t bytes = kWorkspaceBytes;
  if (failed == kSuccess)
    failed = functions_.cublasLtMatmulPreferenceSetAttribute(preference_, kPreferenceWorkspace, &bytes, sizeof bytes);
  if (failed != kSuccess || !handle_) return unsupported("initialization failed with status " + std::to_string(failed));
  shapes_.reserve(kMaxShapes);
  return {};
}

CublasLt::~CublasLt() {
  runtime_.make_current();  // The destructor may run on a different thread than the constructor.
  for (Shape& shape : shapes_) forget(shape);
  if (preference_) functions_.cublasLtMatmulPreferenceDestroy(preference_);
  if (desc_) functions_.cublasLtMatmulDescDestroy(desc_);
  if (handle_) functions_.cublasLtDestroy(handle_);
}

std::string CublasLt::version() const {
  const size_t number = functions_.cublasLtGetVersion();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

// Runs a small test matmul on integers, whose result is exact in any summation order. This detects a library with an
// incompatible ABI.
Status CublasLt::try_product() {
  constexpr int64_t kRows = 48, kColumns = 24, kK = 64;
  constexpr size_t kNumbers = (kRows + kColumns) * kK, kOutputs = kRows * kColumns;
  std::vector<uint16_t> numbers(kNumbers);
  for (size_t i = 0; i < kNumbers; ++i) numbers[i] = float_to_bfloat16(static_cast<float>(i * i % 7) - 3.0f);
  std::vector<float> outputs(kOutputs, 5.0f);
  const auto memory = runtime_.allocate(kNumbers * sizeof(uint16_t) + kOutputs * sizeof(float));
  if (!memory) return memory.error();
  auto* const weights = static_cast<uint16_t*>(*memory);
  auto* const out = reinterpret_cast<float*>(weights + kNumbers);
  runtime_.upload(weights, numbers.data(), kNumbers * sizeof(uint16_t));
  runtime_.upload(out, outputs.data(), kOutputs * sizeof(float));
  const bool done = multiply({kRows, kColumns, kK, kRows, weights, weights + kRows * kK, out, true});
  runtime_.download(outputs.data(), out, kOutputs * sizeof(float));
  runtime_.synchronize();
  runtime_.free(*memory);
  if (!done) return unsupported("its test matmul failed");
  for (int64_t column = 0; column < kColumns; ++column)
    for (int64_t row = 0; row < kRows; ++row) {
      float sum = 5.0f;
      for (int64_t k = 0; k < kK; ++k)
        sum += bfloat16_to_float(numbers[static_cast<size_t>(row * kK + k)]) *
               bfloat16_to_float(numbers[static_cast<size_t>((kRows + column) * kK + k)]);
      if (outputs[static_cast<size_t>(column * kRows + row)] != sum)
        return unsupported("its test matmul gave a wrong result");
    }
  return {};
}

void CublasLt::forget(Shape& shape) {
  for (MatrixLayout* const layout : {&shape.a, &shape.b, &shape.d})
    if (*layout) functions_.cublasLtMatrixLayoutDestroy(std::exchange(*layout, nullptr));
}

// cuBLASLt matrices are column-major. A is the weight matrix, k x rows, transposed. B is x, k x columns. D is the
// output, rows x columns.
void CublasLt::prepare(Shape& shape) {
  const auto rows = static_cast<uint64_t>(shape.rows), columns = static_cast<uint64_t>(shape.columns),
             k = static_cast<uint64_t>(shape.k);
  const auto alignment = static_cast<uint32_t>(shape.alignment);
  runtime_.make_current();
  HeuristicResult found{};
  int n_found = 0;
  shape.usable =
      functions_.cublasLtMatrixLayoutCreate(&shape.a, kBfloat16, k, rows, shape.k) == kSuccess &&
      functions_.cublasLtMatrixLayoutCreate(&shape.b, kBfloat16, k, columns, shape.k) == kSuccess &&
      functions_.cublasLtMatrixLayoutCreate(&shape.d, kReal32, rows, columns, shape.out_stride) == kSuccess &&
      functions_.cublasLtMatmulPreferenceSetAttribute(preference_, kPreferenceAlignmentC, &alignment,
                                                      sizeof alignment) == kSuccess &&
      functions_.cublasLtMatmulPreferenceSetAttribute(preference_, kPreferenceAlignmentD, &alignment,
                                                      sizeof alignment) == kSuccess &&
      functions_.cublasLtMatmulAlgoGetHeuristic(handle_, desc_, shape.a, shape.b, shape.d, shape.d, preference_, 1,
                                                &found, &n_found) == kSuccess &&
      n_found == 1 && found.state == kSuccess && found.workspace_bytes <= kWorkspaceBytes;
  shape.algorithm = found.algorithm;
  if (!shape.usable) {
    ++failures_;
    forget(shape);
  }
}

CublasLt::Shape& CublasLt::shape_of(const Product& p) {
  const int alignment = alignment_of(p.out, p.out_stride);
  Shape* oldest = nullptr;
  for (Shape& shape : shapes_) {
    if (shape.rows == p.rows && shape.columns == p.columns && shape.k == p.k && shape.out_stride == p.out_stride &&
        shape.alignment == alignment)
      return shape;
    if (!oldest || shape.used < oldest->used) oldest = &shape;
  }
  if (shapes_.size() < kMaxShapes)
    oldest = &shapes_.emplace_back();
  else
    forget(*oldest);
  *oldest = {p.rows, p.columns, p.k, p.out_stride, alignment, false, 0, nullptr, nullptr, nullptr, {}};
  prepare(*oldest);
  return *oldest;
}

bool CublasLt::multiply(const Product& product) {
  Shape& shape = shape_of(product);
  shape.used = ++calls_;
  if (!shape.usable) return false;
  const bool done = runtime_.use_stream([&](void* stream) {
    const float one = 1.0f, beta = product.add ? 1.0f : 0.0f;
    return functions_.cublasLtMatmul(handle_, desc_, &one, product.weights, shape.a, product.x, shape.b, &beta,
                                     product.out, shape.d, product.out, shape.d, &shape.algorithm, workspace_,
                                     kWorkspaceBytes, stream) == kSuccess;
  });
  if (!done) {
    ++failures_;
    shape.usable = false;
    forget(shape);
  }
  return done;
}

}  // namespace monolith::cuda
