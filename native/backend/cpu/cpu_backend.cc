#include "backend/cpu/cpu_backend_impl.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/machine/topology.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/registry/registry.h"
#include "base/checked.h"

namespace monolith {
namespace {

// Upper limit on the number of threads, larger than any machine's core count. Prevents a typo in the settings from
// starting a million threads.
constexpr int kMaxThreads = 1024;

constexpr int64_t kEmbedGrain = 4;

Status check_type(KvType type) {
  if (type != KvType::kFp8) return {};
  return Error{ErrorCode::kUnsupported,
               "kv_type fp8 is supported only on GPUs (engine.device cuda): the CPU stores keys and "
               "values in f16, q8_0, q5_0, q4_0 or f32"};
}

// Returns the number of columns of the widest matrix, including the experts' matrices, because MoE layers use the same
// scratch memory.
int64_t widest(int64_t max_cols, const MixtureShape& mixture) {
  return std::max<int64_t>({max_cols, mixture.n_embd, mixture.n_ff});
}

}  // namespace

CpuBackend::CpuBackend(CpuIsa isa, int threads, Arithmetic arithmetic, ThreadPlacement placement)
    : arithmetic_(arithmetic),
      matmul_(matmul_kernels(isa, arithmetic)),
      fixed16_(fixed16_kernels(isa)),
      ops_(op_kernels(isa, arithmetic)),
      pool_(threads, std::move(placement)),
      mixture_(matmul_, ops_, pool_, scratch_) {}

BackendInfo CpuBackend::info() const {
  const bool denied = cpu_is_denied_amx() && matmul_.name == cpu_isa_name(CpuIsa::kAvx512);
  return {"cpu", matmul_.name, pool_.size(),
          denied ? "the operating system denies this process the AMX tile registers" : ""};
}

size_t CpuBackend::matrix_bytes(TensorType type, int64_t rows, int64_t cols) const {
  return CpuMatrix::bytes_for(stored_as(type), rows, cols);
}

size_t CpuBackend::factor_bytes(int64_t rows) const { return CpuMatrix::factor_bytes(rows); }

size_t CpuBackend::kv_cache_bytes(const KvShape& shape) const { return CpuKvCache::bytes_for(shape); }

Result<std::unique_ptr<Matrix>> CpuBackend::matrix(const MatrixSource& source) {
  auto matrix = CpuMatrix::create(source, stored_as(source.type), pool_);
  if (!matrix) return matrix.error();
  return std::unique_ptr<Matrix>(std::move(*matrix));
}

size_t CpuBackend::collapse_huge_pages(const Matrix& matrix, const Stopped& stopped) {
  return static_cast<const CpuMatrix&>(matrix).collapse_huge_pages(stopped);
}

Status CpuBackend::supports(const Requirement& requirement) const {
  return std::visit(ForEach{[](OperationKind) { return Status(); },
                            [](MemoryFeature feature) {
                              return feature == MemoryFeature::kFp8Weights ? Status(unsupported(feature)) : Status();
                            },
                            [](TensorType) { return Status(); },  //
                            [](KvType type) { return check_type(type); },
                            [](const KvShape& shape) { return check_shape(shape, CpuKvCache::kKeeps); },
                            [](const Convolution&) { return Status(); },  //
                            [](const DeltaRule&) { return Status(); },    //
                            [](const StateSpace&) { return Status(); },   //
                            [](const TimeMix&) { return Status(); },      //
                            [](const Mixture&) { return Status(); }, [](AlibiBias) { return Status(); },
                            [&](Fixed16Heads heads) {
                              return fixed16_ != nullptr && arithmetic_ != Arithmetic::kExact &&
                                             heads.head_dim <= kFixed16MostHead
                                         ? Status()
                                         : Status(unsupported(heads));
                            }},
                    requirement);
}

Result<std::unique_ptr<KvCache>> CpuBackend::kv_cache(const KvShape& shape) {
  if (Status status = check_type(shape.type); !status) return status.error();
  auto cache = CpuKvCache::create(shape);
  if (!cache) return cache.error();
  return std::unique_ptr<KvCache>(std::move(*cache));
}

Result<float*> CpuBackend::allocate(int64_t count) {
  const auto bytes = checked_mul<int64_t>(count, sizeof(float));
  if (count < 0 || !bytes)
    return Error{ErrorCode::kInvalidArgument, "cannot allocate " + std::to_string(count) + " floats"};
  auto memory = Mapping::create(std::max<size_t>(static_cast<size_t>(*bytes), sizeof(float)));
  if (!memory) return memory.error();
  allocations_.push_back(std::move(*memory));
  return reinterpret_cast<float*>(allocations_.back().data());
}

void CpuBackend::write_floats(float* to, const float* host_from, int64_t count) {
  if (count > 0) std::memcpy(to, host_from, static_cast<size_t>(count) * sizeof(float));
}

void CpuBackend::read_floats(float* host_to, const float* from, int64_t count) {
  if (count > 0) std::memcpy(host_to, from, static_cast<size_t>(count) * sizeof(float));
}

size_t CpuBackend::scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                                 const MixtureShape& mixture) const {
  return MatmulScratch::bytes_for(max_rows, widest(max_cols, mixture), tile_threads()) +
         CpuMixture::bytes_for(max_rows, mixture) +
         OpsScratch::bytes_for(pool_.size(), max_rows, max_cols, max_context, max_head_dim);
}

Status CpuBackend::reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                           const MixtureShape& mixture) {
  if (max_rows < 1 || max_cols < 1 || max_cols > INT64_MAX / 4096 / max_rows)
    return Error{ErrorCode::kInvalidArgument,
                 "cannot reserve for " + std::to_string(max_rows) + " rows of " + std::to_string(max_cols) + " values"};
  if (mixture.n_experts > 0 && shape_.n_experts > 0 && !(mixture == shape_))
    return Error{ErrorCode::kUnsupported, "MoE layers of different shapes are not supported on the same backend"};
  if (mixture.n_experts > 0) shape_ = mixture;
  max_rows_ = std::max(max_rows_, max_rows);
  max_cols_ = std::max(max_cols_, max_cols);
  max_context_ = std::max(max_context_, max_context);
  max_head_dim_ = std::max(max_head_dim_, max_head_dim);
  if (Status status = scratch_.reserve(max_rows_, widest(max_cols_, shape_), tile_threads()); !status) return status;
  if (Status status = mixture_.reserve(max_rows_, shape_); !status) return status;
  return ops_scratch_.reserve(pool_.size(), max_rows_, max_cols_, max_context_, max_head_dim_);
}

void CpuBackend::embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) {
  const CpuMatrix& matrix = static_cast<const CpuMatrix&>(table);
  // Processing one row takes a few microseconds, so splitting the work across threads is worthwhile for prefill but not
  // for decode.
  pool_.parallel_for(rows.value(), kEmbedGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) matrix.dequantize_row(tokens[row], out + row * matrix.cols);
  });
}

void CpuBackend::matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse) {
  cpu_matmul(matmul_, pool_, scratch_, targets, x, rows.value());
}

void CpuBackend::batched_matmul(const BatchedMatmul& products, RowCount rows) {
  cpu_matmul_heads(matmul_, pool_, scratch_, products, rows.value());
}

void CpuBackend::mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
                         bool add_to_out) {
  mixture_.run(mixture, router_logits, x, rows.value(), out, add_to_out);
}

bool CpuBackend::rounds_to_bf16() const {
  return arithmetic_ != Arithmetic::kExact &&
         matmul_.activation[panel_type_index(TensorType::kBF16)] == ActivationKind::kBf16;
}

size_t CpuBackend::fixed16_bytes(int64_t rows, int64_t cols) const { return Fixed16Matrix::bytes_for(rows, cols); }

Result<std::unique_ptr<Matrix>> CpuBackend::fixed16_matrix(const MatrixSource& source) {
  auto matrix = Fixed16Matrix::create(source, pool_);
  if (!matrix) return matrix.error();
  return std::unique_ptr<Matrix>(std::move(*matrix));
}

int64_t CpuBackend::fixed16_key_floats(int max_rows, int n_heads, int head_dim) const {
  return monolith::fixed16_key_floats(max_rows, n_heads, head_dim);
}

size_t CpuBackend::fixed16_scratch_bytes(int max_rows, int64_t max_cols) const {
  return Fixed16Scratch::bytes_for(max_rows, max_cols) + Fixed16AttentionScratch::bytes_for(pool_.size());
}

Status CpuBackend::reserve_fixed16(int max_rows, int64_t max_cols) {
  if (Status status = fixed16_attention_.reserve(pool_.size()); !status) return status;
  return fixed16_scratch_.reserve(max_rows, max_cols);
}

void CpuBackend::fixed16_matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows) {
  monolith::fixed16_matmul(*fixed16_, pool_, fixed16_scratch_, targets, x, n_rows);
}

void CpuBackend::run_on_host(int64_t n, HostWork work, const void* context) {
  pool_.parallel_for(n, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) work(context, i, thread);
  });
}

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options) {
  const Result<CpuIsa> isa = choose_cpu_isa(options.isa);
  if (!isa) return isa.error();
  if (options.threads < 0 || options.threads > kMaxThreads)
    return Error{ErrorCode::kInvalidArgument, "threads must be 0 (one per core) to " + std::to_string(kMaxThreads) +
                                                  ", not " + std::to_string(options.threads)};
  if (options.arithmetic == Arithmetic::kFast && *isa != CpuIsa::kAmx)
    return Error{ErrorCode::kUnsupported,
                 "engine.arithmetic fast requires AMX (INT8 and BF16), but the kernels in use are " +
                     std::string(cpu_isa_name(*isa)) + ": set engine.isa to auto or amx on a CPU with AMX"};
  const int threads = options.threads > 0 ? options.threads : std::min(usable_cores(), kMaxThreads);
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(*isa, threads, options.arithmetic,
                                                               place_threads(read_topology(allowed_cpus()), threads)));
}

BackendKind cpu_backend_kind() {
  return {.name = "cpu",
          .has_devices = false,
          .probe = []() -> Result<std::vector<std::string>> { return std::vector<std::string>{"cpu"}; },
          .create = [](const BackendOptions& options, int) -> Result<std::unique_ptr<Backend>> {
            if (options.arithmetic == Arithmetic::kFast && options.batch_invariant)
              return Error{ErrorCode::kInvalidArgument,
                           "engine.arithmetic fast makes the output of a request depend on the rest of the batch, "
                           "so engine.batch_invariant cannot be true"};
            return make_cpu_backend({.threads = options.threads, .isa = options.isa, .arithmetic = options.arithmetic});
          }};
}

}  // namespace monolith
