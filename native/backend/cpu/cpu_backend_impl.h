// The CPU backend's class. Other code uses the Backend that make_cpu_backend() returns; tests and benchmarks of single
// operations use the class.
//
// Threads: one caller at a time (the engine thread); see backend.h. The ThreadPool shares the work.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/fixed16/attention.h"
#include "backend/cpu/fixed16/products.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/moe.h"
#include "backend/cpu/ops/ops.h"
#include "backend/encoder_operations.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

class CpuBackend final : public Backend, public EncoderOperations {
 public:
  // The processor must support the instruction set (available_cpu_isas).
  CpuBackend(CpuIsa isa, int threads, Arithmetic arithmetic = Arithmetic::kProduction, ThreadPlacement placement = {});

  BackendInfo info() const override;
  size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const override;
  size_t factor_bytes(int64_t rows) const override;
  size_t kv_cache_bytes(const KvShape& shape) const override;
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override;
  Result<std::unique_ptr<AdapterMatrix>> adapter_matrix(const AdapterSource& source) override;
  size_t collapse_huge_pages(const Matrix& matrix, const Stopped& stopped) override;
  Status supports(const Requirement& requirement) const override;
  Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) override;
  Result<float*> allocate(int64_t count) override;
  void write_floats(float* to, const float* host_from, int64_t count) override;
  void read_floats(float* host_to, const float* from, int64_t count) override;
  bool is_host_memory() const override { return true; }
  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                       const MixtureShape& mixture) const override;
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                 const MixtureShape& mixture) override;

  bool begin_step(const StepInput&) override {
    pool_.begin_step();
    return false;
  }
  void end_step() override { pool_.end_step(); }

  // Operations. All except embed(), the matmuls and mixture() are in ops/*.cc. No operation allocates memory.
  void embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) override;
  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) override;
  // ops/adapters-inl.h describes the order of additions.
  void add_adapters(std::span<const AdapterTarget> targets, float* scratch) override;
  void batched_matmul(const BatchedMatmul& products, RowCount rows) override;
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
               bool add_to_out) override;
  // Sum of squares: value i is added to partial sum i % 64, each in ascending order with fused multiply-add. The 64
  // sums are then added in a fixed tree.
  void rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) override;
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows, int n_heads,
                      int head_dim) override;
  void rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override;
  // Computes the mean first, then the squared differences from it. Both sums are computed as in rms_norm().
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows, int64_t dim,
                  float* out) override;
  void layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override;
  void add_bias(float* x, const float* bias, RowCount rows, int64_t dim) override;
  void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride, int n_heads,
              int head_dim) override;
  // Angles are computed in double. Sine and cosine are rounded to float.
  void rope_and_store(const RopeCall& call) override;
  void rope_and_store_latents(const LatentsCall& call) override;
  // Processes kAttentionSpan positions at a time, in spans that start at multiples of kAttentionSpan.
  // ops/attention-inl.h defines the order of sums. `out` must not overlap `q`.
  void attention(const AttentionCall& call) override;
  void select_positions(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& kv_cache,
                        float* chosen) override;
  // Work is split by elements. Each thread processes its elements of all rows, in row order.
  void pool_blocks(const BlockPool& blocks, std::span<const Segment> segments, const LayerSlots& state,
                   const float* values, const float* scores, float* out) override;
  void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows,
                    KvCache& kv_cache) override;
  // Computes the mixing coefficients in double.
  void hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) override;
  void read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows, int64_t dim,
                    float* out) override;
  void write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows, int64_t dim,
                     float* streams) override;
  void gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim, float* out) override;
  void gate_heads(HeadGate kind, float* x, const float* gate, RowCount rows, int n_heads, int head_dim) override;
  void scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) override;
  void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset, RowCount rows,
                    int64_t dim) override;
  void rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) override;
  void gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) override;
  void copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) override;
  void activate(Activation activation, float* x, RowCount rows, int64_t dim) override;
  void xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) override;
  void scale(float* x, RowCount rows, int64_t dim, float factor) override;
  void soft_cap(float* x, RowCount rows, int64_t dim, float cap) override;
  void clamp(float* x, RowCount rows, int64_t dim, float limit) override;
  void add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) override;
  // Recurrent operations. ops/recurrence-inl.h defines the order of sums. Work is split by channels, or by heads and
  // blocks of their columns. A thread processes all rows of its part in order.
  void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state, float* x,
                int64_t stride) override;
  void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                  const DeltaInputs& inputs, float* out) override;
  void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                   const StateSpaceInputs& inputs, float* out) override;
  void difference_from_previous(std::span<const Segment> segments, const LayerSlots& state, const float* x, int64_t dim,
                                float* difference) override;
  void shifted_inputs(std::span<const ShiftedInput> inputs, const float* x, const float* difference, RowCount rows,
                      int64_t dim) override;
  // ops/time_mix-inl.h defines the order of sums. A thread processes all rows of a head in order.
  void time_mix(const TimeMix& mix, std::span<const Segment> segments, const LayerSlots& state,
                const TimeMixInputs& inputs, float* out) override;
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) override;
  void copy_page(KvCache& kv_cache, int32_t from, int32_t to) override;
  void read_page(const KvCache& kv_cache, int32_t page, std::byte* host_to) override;
  void write_page(KvCache& kv_cache, int32_t page, const std::byte* host_from) override;

  // Operations of vision encoders. Attention uses the same code as for text, but keys and values are floats.
  EncoderOperations* encoders() override { return this; }
  void take_patches(const PatchImage& image, std::span<const PatchPlace> places, float* out) override;
  void add_table_rows(const TableTaps& taps, const float* table, int n_rows, int64_t dim, float* x) override;
  void rotate_rows(const RowRotation& rotation, int n_rows, float* x, int64_t row_stride, int n_heads,
                   int head_dim) override;
  int64_t encoder_key_floats(int max_rows, int n_heads, int head_dim) const override;
  void store_encoder_keys(const EncoderKeys& keys, const float* k, const float* v, int64_t stride, int first_row,
                          int n_rows) override;
  void attend_rows(const RowAttention& call) override;
  void add_up_rows(const float* x, int group, float factor, int n_out, int64_t dim, float* out) override;
  void clamp(float* x, int64_t count, float low, float high) override;
  bool rounds_to_bf16() const override;
  size_t fixed16_bytes(int64_t rows, int64_t cols) const override;
  Result<std::unique_ptr<Matrix>> fixed16_matrix(const MatrixSource& source) override;
  int64_t fixed16_key_floats(int max_rows, int n_heads, int head_dim) const override;
  size_t fixed16_scratch_bytes(int max_rows, int64_t max_cols) const override;
  Status reserve_fixed16(int max_rows, int64_t max_cols) override;
  void fixed16_matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows) override;

  int host_threads() const override { return pool_.size(); }
  void run_on_host(int64_t n, HostWork work, const void* context) override;

 private:
  void attend_to_blocks(const AttentionCall& call);
  // Computes attention over the keys and values in `layer`, which need not be a layer of the KV cache.
  void attend(const AttentionCall& call, const CpuKvCache::Layer& layer);
  int tile_threads() const {
    // Tile kernels do not multiply F32.
    return matmul_.tiles != nullptr && arithmetic_ != Arithmetic::kExact ? pool_.size() : 0;
  }
  TensorType stored_as(TensorType type) const { return arithmetic_ == Arithmetic::kExact ? TensorType::kF32 : type; }

  const Arithmetic arithmetic_;
  const MatmulKernels& matmul_;
  const Fixed16Kernels* const fixed16_;  // Null if the instruction set has no 16-bit integer kernels.
  const OpKernels& ops_;
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

}  // namespace monolith
