// A backend that forwards everything to another backend. Derived classes override single functions, or observe all
// operations with before() and after(). Steps are never asynchronous.
//
// Threads: the same rules as for any backend (backend.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/operation_kind.h"

namespace monolith {

// The work of one operation.
struct OperationWork {
  int64_t inputs = 0, outputs = 0;  // Shape of a matrix product, otherwise 0.
  uint64_t bytes = 0;       // Bytes that must be read from memory at least once: weights, keys and values, state.
  uint64_t operations = 0;  // Multiplications and additions of matrix products.
};

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}

  BackendInfo info() const override { return inner_.info(); }
  std::string note() const override { return inner_.note(); }
  EncoderOperations* encoders() override { return inner_.encoders(); }
  uint64_t free_memory() const override { return inner_.free_memory(); }
  size_t memory_of(size_t bytes) const override { return inner_.memory_of(bytes); }
  size_t overhead_bytes(int n_layers) const override { return inner_.overhead_bytes(n_layers); }
  Status supports(const Requirement& requirement) const override { return inner_.supports(requirement); }
  size_t factor_bytes(int64_t rows) const override { return inner_.factor_bytes(rows); }
  size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const override {
    return inner_.matrix_bytes(type, rows, cols);
  }
  size_t kv_cache_bytes(const KvShape& shape) const override { return inner_.kv_cache_bytes(shape); }
  size_t collapse_huge_pages(const Matrix& matrix, const Stopped& stopped) override {
    return inner_.collapse_huge_pages(matrix, stopped);
  }
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override { return inner_.matrix(source); }
  Result<std::unique_ptr<AdapterMatrix>> adapter_matrix(const AdapterSource& source) override {
    return inner_.adapter_matrix(source);
  }
  Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) override { return inner_.kv_cache(shape); }
  Result<float*> allocate(int64_t count) override { return inner_.allocate(count); }
  void write_floats(float* to, const float* host_from, int64_t count) override {
    inner_.write_floats(to, host_from, count);
  }
  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                       const MixtureShape& mixture) const override {
    return inner_.scratch_bytes(max_rows, max_cols, max_context, max_head_dim, mixture);
  }
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                 const MixtureShape& mixture) override {
    return inner_.reserve(max_rows, max_cols, max_context, max_head_dim, mixture);
  }
  size_t head_scratch_bytes(int max_rows, const HeadProductShape& shape) const override {
    return inner_.head_scratch_bytes(max_rows, shape);
  }
  Status reserve_heads(int max_rows, const HeadProductShape& shape) override {
    return inner_.reserve_heads(max_rows, shape);
  }
  bool begin_step(const StepInput& input) override { return inner_.begin_step(input); }
  void end_step() override { inner_.end_step(); }
  void wait() override { inner_.wait(); }

  void read_floats(float* host_to, const float* from, int64_t count) override {
    forward(OperationKind::kReadFloats, {}, [&] { inner_.read_floats(host_to, from, count); });
  }
  void embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) override {
    forward(OperationKind::kEmbed, {}, [&] { inner_.embed(table, tokens, rows, out); });
  }
  void rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) override {
    forward(OperationKind::kRmsNorm, {}, [&] { inner_.rms_norm(x, weight, eps, rows, dim, out); });
  }
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows, int n_heads,
                      int head_dim) override {
    forward(OperationKind::kRmsNormHeads, {},
            [&] { inner_.rms_norm_heads(x, row_stride, weight, eps, rows, n_heads, head_dim); });
  }
  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) override {
    forward(OperationKind::kMatmul, work_of(targets, rows), [&] { inner_.matmul(targets, x, rows, use); });
  }
  void add_adapters(std::span<const AdapterTarget> targets, float* scratch) override {
    forward(OperationKind::kAddAdapters, work_of(targets), [&] { inner_.add_adapters(targets, scratch); });
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows, int64_t dim,
                  float* out) override {
    forward(OperationKind::kLayerNorm, {}, [&] { inner_.layer_norm(x, weight, bias, eps, rows, dim, out); });
  }
  void layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    forward(OperationKind::kLayerNormGroups, {},
            [&] { inner_.layer_norm_groups(x, weight, eps, rows, n_groups, dim); });
  }
  void add_bias(float* x, const float* bias, RowCount rows, int64_t dim) override {
    forward(OperationKind::kAddBias, {}, [&] { inner_.add_bias(x, bias, rows, dim); });
  }
  void rope_and_store(const RopeCall& call) override {
    forward(OperationKind::kRopeAndStore, {}, [&] { inner_.rope_and_store(call); });
  }
  void attention(const AttentionCall& call) override {
    forward(OperationKind::kAttention, work_of(call), [&] { inner_.attention(call); });
  }
  void batched_matmul(const BatchedMatmul& products, RowCount rows) override {
    forward(OperationKind::kMatmul, work_of(products, rows), [&] { inner_.batched_matmul(products, rows); });
  }
  void rope_and_store_latents(const LatentsCall& call) override {
    forward(OperationKind::kRopeAndStoreLatents, {}, [&] { inner_.rope_and_store_latents(call); });
  }
  void select_positions(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& cache,
                        float* chosen) override {
    forward(OperationKind::kSelectPositions, work_of(index, segments, cache),
            [&] { inner_.select_positions(index, segments, cache, chosen); });
  }
  void pool_blocks(const BlockPool& pool, std::span<const Segment> segments, const LayerSlots& state,
                   const float* values, const float* scores, float* out) override {
    forward(OperationKind::kPoolBlocks, {}, [&] { inner_.pool_blocks(pool, segments, state, values, scores, out); });
  }
  void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows, KvCache& cache) override {
    forward(OperationKind::kStoreBlocks, {}, [&] { inner_.store_blocks(blocks, segments, rows, cache); });
  }
  void hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) override {
    forward(OperationKind::kHyperConnectionWeights, {}, [&] { inner_.hyper_connection_weights(mix, numbers, rows); });
  }
  void read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows, int64_t dim,
                    float* out) override {
    forward(OperationKind::kReadStreams, {}, [&] { inner_.read_streams(mix, numbers, streams, rows, dim, out); });
  }
  void write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows, int64_t dim,
                     float* streams) override {
    forward(OperationKind::kWriteStreams, {}, [&] { inner_.write_streams(mix, numbers, x, rows, dim, streams); });
  }
  void gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim,
             float* out) override {
    forward(OperationKind::kGated, {}, [&] { inner_.gated(gating, gate, up, rows, dim, out); });
  }
  void gate_heads(HeadGate kind, float* x, const float* gate, RowCount rows, int n_heads, int head_dim) override {
    forward(OperationKind::kGateHeads, {}, [&] { inner_.gate_heads(kind, x, gate, rows, n_heads, head_dim); });
  }
  void scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) override {
    forward(OperationKind::kScaleColumns, {}, [&] { inner_.scale_columns(x, factors, rows, dim); });
  }
  void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset, RowCount rows,
                    int64_t dim) override {
    forward(OperationKind::kAddWeighted, {},
            [&] { inner_.add_weighted(x, y, weights, weight_stride, offset, rows, dim); });
  }
  void rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) override {
    forward(OperationKind::kRescaleToNorm, {}, [&] { inner_.rescale_to_norm(x, y, rows, dim); });
  }
  void gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) override {
    forward(OperationKind::kGaussianTopk, {}, [&] { inner_.gaussian_topk(x, deviations, rows, dim); });
  }
  void copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) override {
    forward(OperationKind::kCopyRows, {}, [&] { inner_.copy_rows(x, x_stride, rows, dim, out); });
  }
  void activate(Activation activation, float* x, RowCount rows, int64_t dim) override {
    forward(OperationKind::kActivate, {}, [&] { inner_.activate(activation, x, rows, dim); });
  }
  void scale(float* x, RowCount rows, int64_t dim, float factor) override {
    forward(OperationKind::kScale, {}, [&] { inner_.scale(x, rows, dim, factor); });
  }
  void soft_cap(float* x, RowCount rows, int64_t dim, float cap) override {
    forward(OperationKind::kSoftCap, {}, [&] { inner_.soft_cap(x, rows, dim, cap); });
  }
  void clamp(float* x, RowCount rows, int64_t dim, float limit) override {
    forward(OperationKind::kClamp, {}, [&] { inner_.clamp(x, rows, dim, limit); });
  }
  void add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) override {
    forward(OperationKind::kAddRows, {}, [&] { inner_.add_rows(x, y, factor, gate, rows, dim); });
  }
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
               bool add_to_out) override {
    forward(OperationKind::kMixture, work_of(mixture, rows),
            [&] { inner_.mixture(mixture, router_logits, x, rows, out, add_to_out); });
  }
  void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state, float* x,
                int64_t stride) override {
    forward(OperationKind::kConvolve, work_of(convolution, segments),
            [&] { inner_.convolve(convolution, segments, state, x, stride); });
  }
  void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                  const DeltaInputs& inputs, float* out) override {
    forward(OperationKind::kDeltaRule, work_of(rule, segments),
            [&] { inner_.delta_rule(rule, segments, state, inputs, out); });
  }
  void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                   const StateSpaceInputs& inputs, float* out) override {
    forward(OperationKind::kStateSpace, work_of(space, segments),
            [&] { inner_.state_space(space, segments, state, inputs, out); });
  }
  void difference_from_previous(std::span<const Segment> segments, const LayerSlots& state, const float* x, int64_t dim,
                                float* difference) override {
    forward(OperationKind::kDifferenceFromPrevious, {},
            [&] { inner_.difference_from_previous(segments, state, x, dim, difference); });
  }
  void shifted_inputs(std::span<const ShiftedInput> inputs, const float* x, const float* difference, RowCount rows,
                      int64_t dim) override {
    forward(OperationKind::kShiftedInputs, {}, [&] { inner_.shifted_inputs(inputs, x, difference, rows, dim); });
  }
  void time_mix(const TimeMix& mix, std::span<const Segment> segments, const LayerSlots& state,
                const TimeMixInputs& inputs, float* out) override {
    forward(OperationKind::kTimeMix, work_of(mix, segments),
            [&] { inner_.time_mix(mix, segments, state, inputs, out); });
  }
  void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride, int n_heads,
              int head_dim) override {
    forward(OperationKind::kRotate, {}, [&] { inner_.rotate(rope, segments, x, row_stride, n_heads, head_dim); });
  }
  void xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) override {
    forward(OperationKind::kXielu, {}, [&] { inner_.xielu(params, x, rows, dim); });
  }
  void rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    forward(OperationKind::kRmsNormGroups, {}, [&] { inner_.rms_norm_groups(x, weight, eps, rows, n_groups, dim); });
  }
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) override {
    forward(OperationKind::kGatherRows, {}, [&] { inner_.gather_rows(x, rows, dim, out); });
  }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override {
    forward(OperationKind::kCopyPage, {}, [&] { inner_.copy_page(cache, from, to); });
  }
  void read_page(const KvCache& cache, int32_t page, std::byte* host_to) override {
    forward(OperationKind::kCopyPage, {}, [&] { inner_.read_page(cache, page, host_to); });
  }
  void write_page(KvCache& cache, int32_t page, const std::byte* host_from) override {
    forward(OperationKind::kCopyPage, {}, [&] { inner_.write_page(cache, page, host_from); });
  }
  bool is_host_memory() const override { return inner_.is_host_memory(); }
  int host_threads() const override { return inner_.host_threads(); }
  void run_on_host(int64_t n, HostWork work, const void* context) override {
    forward(OperationKind::kSample, {}, [&] { inner_.run_on_host(n, work, context); });
  }
  bool can_sample(int n_vocab) const override { return inner_.can_sample(n_vocab); }
  Status reserve_samples(int n_vocab, int most_tasks) override { return inner_.reserve_samples(n_vocab, most_tasks); }
  void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    forward(OperationKind::kSample, {}, [&] { inner_.sample(n_vocab, tasks, results); });
  }

 protected:
  // Called before and after every operation and every other function that has an OperationKind.
  virtual void before(OperationKind kind) { static_cast<void>(kind); }
  virtual void after(OperationKind kind, const OperationWork& work) {
    static_cast<void>(kind), static_cast<void>(work);
  }

  Backend& inner_;

 private:
  static OperationWork work_of(std::span<const MatmulTarget> targets, RowCount rows);
  static OperationWork work_of(std::span<const AdapterTarget> targets);
  static OperationWork work_of(const BatchedMatmul& products, RowCount rows);
  static OperationWork work_of(const AttentionCall& call);
  static OperationWork work_of(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& cache);
  static OperationWork work_of(const Mixture& mixture, RowCount rows);
  static OperationWork work_of(const Convolution& convolution, std::span<const Segment> segments);
  static OperationWork work_of(const DeltaRule& rule, std::span<const Segment> segments);
  static OperationWork work_of(const StateSpace& space, std::span<const Segment> segments);
  static OperationWork work_of(const TimeMix& mix, std::span<const Segment> segments);

  template <typename Run>
  void forward(OperationKind kind, const OperationWork& work, Run&& run) {
    before(kind);
    run();
    after(kind, work);
  }
};

}  // namespace monolith
