// CpuBackend owns the threads, the kernel tables and the scratch memory, and forwards each operation to its kernels.
// Threads: one caller at a time (the engine thread); see backend.h.
#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "backend/cpu/fixed16/attention.h"
#include "backend/cpu/fixed16/products.h"
#include "backend/cpu/machine/isa.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/moe.h"
#include "backend/cpu/ops/ops.h"
#include "backend/registry/registry.h"
#include "base/checked.h"

namespace monolith {
namespace {

// More threads than any machine has cores, so that a typing error does not start a million threads.
constexpr int kMaxThreads = 1024;

class CpuBackend final : public Backend, public EncoderOperations {
 public:
  CpuBackend(CpuIsa isa, Arithmetic arithmetic, int threads)
      : arithmetic_(arithmetic),
        matmul_(matmul_kernels(isa, arithmetic)),
        fixed16_(fixed16_kernels(isa)),
        ops_(cpu_ops(isa, arithmetic)),
        pool_(threads),
        mixture_(matmul_, ops_.kernels(), pool_, scratch_) {}

  BackendInfo info() const override {
    const bool denied = cpu_is_denied_amx() && matmul_.name == cpu_isa_name(CpuIsa::kAvx512);
    return {"cpu", matmul_.name, pool_.size(),
            denied ? "the operating system denies this process the AMX tile registers" : ""};
  }

  size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const override {
    return CpuMatrix::bytes_for(stored_as(type), rows, cols);
  }
  size_t factor_bytes(int64_t rows) const override { return CpuMatrix::factor_bytes(rows); }
  size_t kv_cache_bytes(const KvShape& shape) const override { return CpuKvCache::bytes_for(shape); }

  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override {
    auto matrix = CpuMatrix::create(source, stored_as(source.type), pool_);
    if (!matrix) return matrix.error();
    return std::unique_ptr<Matrix>(std::move(*matrix));
  }

  size_t collapse_huge_pages(const Matrix& matrix, std::chrono::steady_clock::time_point until) override {
    return static_cast<const CpuMatrix&>(matrix).collapse_huge_pages(until);
  }

  Status supports(const Requirement& requirement) const override {
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
                              [](const Mixture&) { return Status(); },
                              [&](Fixed16Heads heads) {
                                return fixed16_ != nullptr && arithmetic_ != Arithmetic::kExact &&
                                               heads.head_dim <= kFixed16MostHead
                                           ? Status()
                                           : Status(unsupported(heads));
                              }},
                      requirement);
  }
  Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) override {
    if (Status status = check_type(shape.type); !status) return status.error();
    auto cache = CpuKvCache::create(shape);
    if (!cache) return cache.error();
    return std::unique_ptr<KvCache>(std::move(*cache));
  }

  Result<float*> allocate(int64_t count) override {
    const auto bytes = checked_mul<int64_t>(count, sizeof(float));
    if (count < 0 || !bytes)
      return Error{ErrorCode::kInvalidArgument, "cannot allocate " + std::to_string(count) + " floats"};
    auto memory = Mapping::create(std::max<size_t>(static_cast<size_t>(*bytes), sizeof(float)));
    if (!memory) return memory.error();
    allocations_.push_back(std::move(*memory));
    return reinterpret_cast<float*>(allocations_.back().data());
  }

  void write_floats(float* to, const float* host_from, int64_t count) override {
    if (count > 0) std::memcpy(to, host_from, static_cast<size_t>(count) * sizeof(float));
  }
  void read_floats(float* host_to, const float* from, int64_t count) override {
    if (count > 0) std::memcpy(host_to, from, static_cast<size_t>(count) * sizeof(float));
  }
  bool is_host_memory() const override { return true; }

  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                       const MixtureShape& mixture) const override {
    return MatmulScratch::bytes_for(max_rows, widest(max_cols, mixture), tile_threads()) +
           CpuMixture::bytes_for(max_rows, mixture) +
           OpsScratch::bytes_for(pool_.size(), max_rows, max_cols, max_context, max_head_dim);
  }
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                 const MixtureShape& mixture) override {
    if (max_rows < 1 || max_cols < 1 || max_cols > INT64_MAX / 4096 / max_rows)
      return Error{ErrorCode::kInvalidArgument, "cannot reserve for " + std::to_string(max_rows) + " rows of " +
                                                    std::to_string(max_cols) + " values"};
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

  bool begin_step(const StepInput&) override {
    pool_.begin_step();
    return false;
  }
  void end_step() override { pool_.end_step(); }

  void embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) override {
    const CpuMatrix& matrix = static_cast<const CpuMatrix&>(table);
    // A row takes a few microseconds, so splitting the work across threads pays off for prefill but not for decode.
    pool_.parallel_for(rows.value(), kEmbedGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) matrix.dequantize_row(tokens[row], out + row * matrix.cols);
    });
  }

  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse) override {
    cpu_matmul(matmul_, pool_, scratch_, targets, x, rows.value());
  }

  void rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) override {
    ops_.rms_norm(pool_, x, weight, eps, rows.value(), dim, out);
  }
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows, int n_heads,
                      int head_dim) override {
    ops_.rms_norm_heads(pool_, x, row_stride, weight, eps, rows.value(), n_heads, head_dim);
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows, int64_t dim,
                  float* out) override {
    ops_.layer_norm(pool_, x, weight, bias, eps, rows.value(), dim, out);
  }
  void layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    ops_.layer_norm_groups(pool_, x, weight, eps, rows.value(), n_groups, dim);
  }
  void add_bias(float* x, const float* bias, RowCount rows, int64_t dim) override {
    ops_.add_bias(pool_, x, bias, rows.value(), dim);
  }
  void rope_and_store(const RopeCall& call) override { ops_.rope_and_store(pool_, ops_scratch_, call); }
  void batched_matmul(const BatchedMatmul& products, RowCount rows) override {
    cpu_matmul_heads(matmul_, pool_, scratch_, products, rows.value());
  }
  void select_positions(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& cache,
                        float* chosen) override {
    ops_.select_positions(pool_, ops_scratch_, index, segments, static_cast<const CpuKvCache&>(cache), chosen);
  }
  void rope_and_store_latents(const LatentsCall& call) override {
    ops_.rope_and_store_latents(pool_, ops_scratch_, call);
  }
  void pool_blocks(const BlockPool& pool, std::span<const Segment> segments, const LayerSlots& state,
                   const float* values, const float* scores, float* out) override {
    ops_.pool_blocks(pool_, pool, segments, state, values, scores, out);
  }
  void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows, KvCache& cache) override {
    ops_.store_blocks(pool_, blocks, segments, rows, static_cast<CpuKvCache&>(cache));
  }
  void hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) override {
    ops_.hyper_connection_weights(pool_, mix, numbers, rows.value());
  }
  void read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows, int64_t dim,
                    float* out) override {
    ops_.read_streams(pool_, mix, numbers, streams, rows.value(), dim, out);
  }
  void write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows, int64_t dim,
                     float* streams) override {
    ops_.write_streams(pool_, mix, numbers, x, rows.value(), dim, streams);
  }
  void attention(const AttentionCall& call) override { ops_.attention(pool_, ops_scratch_, call); }
  void gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim,
             float* out) override {
    ops_.gated(pool_, gating, gate, up, rows.value(), dim, out);
  }
  void gate_heads(float* x, const float* gate, RowCount rows, int n_heads, int head_dim) override {
    ops_.gate_heads(pool_, x, gate, rows.value(), n_heads, head_dim);
  }
  void scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) override {
    ops_.scale_columns(pool_, x, factors, rows.value(), dim);
  }
  void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset, RowCount rows,
                    int64_t dim) override {
    ops_.add_weighted(pool_, x, y, weights, weight_stride, offset, rows.value(), dim);
  }
  void rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) override {
    ops_.rescale_to_norm(pool_, x, y, rows.value(), dim);
  }
  void gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) override {
    ops_.gaussian_topk(pool_, x, deviations, rows.value(), dim);
  }
  void copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) override {
    ops_.copy_rows(pool_, x, x_stride, rows.value(), dim, out);
  }
  void activate(Activation activation, float* x, RowCount rows, int64_t dim) override {
    ops_.activate(pool_, activation, x, rows.value() * dim);
  }
  void scale(float* x, RowCount rows, int64_t dim, float factor) override {
    ops_.scale(pool_, x, rows.value() * dim, factor);
  }
  void soft_cap(float* x, RowCount rows, int64_t dim, float cap) override {
    ops_.soft_cap(pool_, x, rows.value() * dim, cap);
  }
  void add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) override {
    ops_.add_rows(pool_, x, y, factor, gate, rows.value(), dim);
  }
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
               bool add_to_out) override {
    mixture_.run(mixture, router_logits, x, rows.value(), out, add_to_out);
  }
  void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state, float* x,
                int64_t stride) override {
    ops_.convolve(pool_, convolution, segments, state, x, stride);
  }
  void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                  const DeltaInputs& inputs, float* out) override {
    ops_.delta_rule(pool_, rule, segments, state, inputs, out);
  }
  void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                   const StateSpaceInputs& inputs, float* out) override {
    ops_.state_space(pool_, space, segments, state, inputs, out);
  }
  void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride, int n_heads,
              int head_dim) override {
    ops_.rotate(pool_, ops_scratch_, rope, segments, x, row_stride, n_heads, head_dim);
  }
  void xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) override {
    ops_.xielu(pool_, params, x, rows.value() * dim);
  }
  void rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    ops_.rms_norm_groups(pool_, x, weight, eps, rows.value(), n_groups, dim);
  }
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) override {
    ops_.gather_rows(pool_, x, rows.data(), static_cast<int>(rows.size()), dim, out);
  }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override {
    ops_.copy_page(pool_, static_cast<CpuKvCache&>(cache), from, to);
  }
  EncoderOperations* encoders() override { return this; }
  void take_patches(const PatchImage& image, std::span<const PatchPlace> places, float* out) override {
    ops_.take_patches(pool_, image, places, out);
  }
  void add_table_rows(const TableTaps& taps, const float* table, int n_rows, int64_t dim, float* x) override {
    ops_.add_table_rows(pool_, taps, table, n_rows, dim, x);
  }
  void rotate_rows(const RowRotation& rotation, int n_rows, float* x, int64_t row_stride, int n_heads,
                   int head_dim) override {
    ops_.rotate_rows(pool_, rotation, n_rows, x, row_stride, n_heads, head_dim);
  }
  int64_t encoder_key_floats(int max_rows, int n_heads, int head_dim) const override {
    return CpuOps::encoder_key_floats(max_rows, n_heads, head_dim);
  }
  void store_encoder_keys(const EncoderKeys& keys, const float* k, const float* v, int64_t stride, int first_row,
                          int n_rows) override {
    if (keys.fixed16) return fixed16_store_keys(*fixed16_, pool_, keys, k, v, stride, first_row, n_rows);
    ops_.store_encoder_keys(pool_, keys, k, v, stride, first_row, n_rows);
  }
  void attend_rows(const RowAttention& call) override {
    if (call.keys.fixed16) return fixed16_attend(*fixed16_, pool_, fixed16_attention_, call);
    ops_.attend_rows(pool_, ops_scratch_, call);
  }
  void add_up_rows(const float* x, int group, float factor, int n_out, int64_t dim, float* out) override {
    ops_.add_up_rows(pool_, x, group, factor, n_out, dim, out);
  }
  void clamp(float* x, int64_t count, float low, float high) override { ops_.clamp(pool_, x, count, low, high); }
  bool rounds_to_bf16() const override {
    return arithmetic_ != Arithmetic::kExact &&
           matmul_.activation[panel_type_index(TensorType::kBF16)] == ActivationKind::kBf16;
  }
  size_t fixed16_bytes(int64_t rows, int64_t cols) const override { return Fixed16Matrix::bytes_for(rows, cols); }
  Result<std::unique_ptr<Matrix>> fixed16_matrix(const MatrixSource& source) override {
    auto matrix = Fixed16Matrix::create(source, pool_);
    if (!matrix) return matrix.error();
    return std::unique_ptr<Matrix>(std::move(*matrix));
  }
  int64_t fixed16_key_floats(int max_rows, int n_heads, int head_dim) const override {
    return monolith::fixed16_key_floats(max_rows, n_heads, head_dim);
  }
  size_t fixed16_scratch_bytes(int max_rows, int64_t max_cols) const override {
    return Fixed16Scratch::bytes_for(max_rows, max_cols) + Fixed16AttentionScratch::bytes_for(pool_.size());
  }
  Status reserve_fixed16(int max_rows, int64_t max_cols) override {
    if (Status status = fixed16_attention_.reserve(pool_.size()); !status) return status;
    return fixed16_scratch_.reserve(max_rows, max_cols);
  }
  void fixed16_matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows) override {
    monolith::fixed16_matmul(*fixed16_, pool_, fixed16_scratch_, targets, x, n_rows);
  }
  int host_threads() const override { return pool_.size(); }
  void run_on_host(int64_t n, HostWork work, const void* context) override {
    pool_.parallel_for(n, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) work(context, i, thread);
    });
  }

 private:
  static constexpr int64_t kEmbedGrain = 4;

  static Status check_type(KvType type) {
    if (type != KvType::kFp8) return {};
    return Error{ErrorCode::kUnsupported,
                 "kv_type fp8 is supported only on GPUs (engine.device cuda): the CPU stores keys and "
                 "values in f16, q8_0 or f32"};
  }

  // Columns of the widest matrix. MoE layers use the scratch memory for their experts' weights.
  static int64_t widest(int64_t max_cols, const MixtureShape& mixture) {
    return std::max<int64_t>({max_cols, mixture.n_embd, mixture.n_ff});
  }
  int tile_threads() const {
    // Tile kernels do not multiply F32.
    return matmul_.tiles != nullptr && arithmetic_ != Arithmetic::kExact ? pool_.size() : 0;
  }
  TensorType stored_as(TensorType type) const { return arithmetic_ == Arithmetic::kExact ? TensorType::kF32 : type; }

  const Arithmetic arithmetic_;
  const MatmulKernels& matmul_;
  const Fixed16Kernels* const fixed16_;  // Null if the instruction set has no 16-bit integer kernels.
  const CpuOps& ops_;
  ThreadPool pool_;
  CpuMixture mixture_;
  MatmulScratch scratch_;
  Fixed16Scratch fixed16_scratch_;
  Fixed16AttentionScratch fixed16_attention_;
  OpsScratch ops_scratch_;
  int max_rows_ = 0, max_context_ = 0, max_head_dim_ = 0;  // Maximum over all models' reservations.
  int64_t max_cols_ = 0;
  MixtureShape shape_;
  std::vector<Mapping> allocations_;
};

}  // namespace

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
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(*isa, options.arithmetic, threads));
}

BackendKind cpu_backend_kind() {
  return {.name = "cpu",
          .has_devices = false,
          .probe = []() -> Result<std::vector<std::string>> { return std::vector<std::string>{"cpu"}; },
          .create = [](const BackendOptions& options, int) -> Result<std::unique_ptr<Backend>> {
            if (options.arithmetic == Arithmetic::kFast && options.batch_invariant)
              return Error{ErrorCode::kInvalidArgument,
                           "engine.arithmetic fast makes the output of a request depend on what else is in the batch, "
                           "so engine.batch_invariant cannot be true"};
            return make_cpu_backend({.threads = options.threads, .isa = options.isa, .arithmetic = options.arithmetic});
          }};
}

}  // namespace monolith
