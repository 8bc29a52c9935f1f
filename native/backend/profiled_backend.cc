#include "backend/profiled_backend.h"

#include <chrono>
#include <utility>

namespace monolith {
namespace {

using Clock = std::chrono::steady_clock;

// Attention work of a list of segments: the number of pairs of a token and a position that the token attends to, and
// the number of distinct positions.
struct Reach {
  int64_t pairs = 0, positions = 0;
};

Reach reach_of(std::span<const Segment> segments, int window) {
  Reach reach;
  for (const Segment& segment : segments) {
    const int64_t first = segment.first_position, n = segment.n_tokens, end = first + n;
    const auto seen = [&](int64_t position) {
      const int64_t before = window > 0 && position + 1 > window ? int64_t{window} : position + 1;
      return before + segment.seen_by(static_cast<int>(position)) - 1 - position;
    };
    if (window > 0 || segment.seen_end > 0)
      for (int64_t position = first; position < end; ++position) reach.pairs += seen(position);
    else
      reach.pairs += n * (first + 1) + n * (n - 1) / 2;
    reach.positions += n - 1 + seen(first);
  }
  return reach;
}

}  // namespace

StepProfile::Slot& StepProfile::slot(OperationKind op, int64_t inputs, int64_t outputs) {
  size_t n_shapes = 0;
  for (Slot& slot : slots_) {
    const OperationKind held = slot.op.load(std::memory_order_relaxed);
    if (held == op) {
      if (slot.inputs.load(std::memory_order_relaxed) == inputs &&
          slot.outputs.load(std::memory_order_relaxed) == outputs)
        return slot;
      ++n_shapes;
    }
    if (held != kEmpty) continue;
    if (n_shapes == kMatmulShapes && inputs > 0) return this->slot(op, 0, 0);
    slot.inputs.store(inputs, std::memory_order_relaxed);
    slot.outputs.store(outputs, std::memory_order_relaxed);
    slot.op.store(op, std::memory_order_release);
    return slot;
  }
  return slots_.back();  // Not reached: there is a slot for everything.
}

std::vector<OpFigures> StepProfile::read() const {
  std::vector<OpFigures> all;
  for (const Slot& slot : slots_) {
    const OperationKind op = slot.op.load(std::memory_order_acquire);
    if (op == kEmpty) break;
    OpFigures figures{.name = std::string(name_of(op))};
    const int64_t inputs = slot.inputs.load(std::memory_order_relaxed);
    if (inputs > 0)
      figures.name +=
          " " + std::to_string(inputs) + " x " + std::to_string(slot.outputs.load(std::memory_order_relaxed));
    else if (op == OperationKind::kMatmul)
      figures.name += ", other shapes";
    figures.calls = slot.calls.load(std::memory_order_relaxed);
    figures.nanoseconds = slot.nanoseconds.load(std::memory_order_relaxed);
    figures.bytes = slot.bytes.load(std::memory_order_relaxed);
    figures.operations = slot.operations.load(std::memory_order_relaxed);
    all.push_back(std::move(figures));
  }
  return all;
}

class ProfiledBackend final : public Backend {
 public:
  ProfiledBackend(std::unique_ptr<Backend> inner, std::shared_ptr<StepProfile> profile)
      : inner_(std::move(inner)), profile_(std::move(profile)) {}

  BackendInfo info() const override { return inner_->info(); }
  std::string note() const override { return inner_->note(); }
  EncoderOperations* encoders() override { return inner_->encoders(); }
  uint64_t free_memory() const override { return inner_->free_memory(); }
  size_t memory_of(size_t bytes) const override { return inner_->memory_of(bytes); }
  size_t overhead_bytes(int n_layers) const override { return inner_->overhead_bytes(n_layers); }
  Status supports(const Requirement& requirement) const override { return inner_->supports(requirement); }
  size_t factor_bytes(int64_t rows) const override { return inner_->factor_bytes(rows); }
  size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const override {
    return inner_->matrix_bytes(type, rows, cols);
  }
  size_t kv_cache_bytes(const KvShape& shape) const override { return inner_->kv_cache_bytes(shape); }
  size_t collapse_huge_pages(const Matrix& matrix, std::chrono::steady_clock::time_point until) override {
    return inner_->collapse_huge_pages(matrix, until);
  }
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override { return inner_->matrix(source); }
  Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) override { return inner_->kv_cache(shape); }
  Result<float*> allocate(int64_t count) override { return inner_->allocate(count); }
  void write_floats(float* to, const float* host_from, int64_t count) override {
    inner_->write_floats(to, host_from, count);
  }
  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                       const MixtureShape& mixture) const override {
    return inner_->scratch_bytes(max_rows, max_cols, max_context, max_head_dim, mixture);
  }
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                 const MixtureShape& mixture) override {
    return inner_->reserve(max_rows, max_cols, max_context, max_head_dim, mixture);
  }
  size_t head_scratch_bytes(int max_rows, const HeadProductShape& shape) const override {
    return inner_->head_scratch_bytes(max_rows, shape);
  }
  Status reserve_heads(int max_rows, const HeadProductShape& shape) override {
    return inner_->reserve_heads(max_rows, shape);
  }
  // A profiled step never uses a CUDA graph, because replaying a graph does not call these operations.
  bool begin_step(const StepInput& input) override {
    StepInput watched = input;
    watched.recordable = false;
    return inner_->begin_step(watched);
  }
  void end_step() override { inner_->end_step(); }
  // Profiling is never asynchronous: the time of an operation can be measured only if it completes before the next one
  // starts.
  void wait() override { inner_->wait(); }

  void read_floats(float* host_to, const float* from, int64_t count) override {
    timed(Op::kReadFloats, {}, [&] { inner_->read_floats(host_to, from, count); });
  }
  void embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) override {
    timed(Op::kEmbed, {}, [&] { inner_->embed(table, tokens, rows, out); });
  }
  void rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) override {
    timed(Op::kRmsNorm, {}, [&] { inner_->rms_norm(x, weight, eps, rows, dim, out); });
  }
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows, int n_heads,
                      int head_dim) override {
    timed(Op::kRmsNormHeads, {}, [&] { inner_->rms_norm_heads(x, row_stride, weight, eps, rows, n_heads, head_dim); });
  }
  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) override {
    Work work;
    for (const MatmulTarget& target : targets) {
      work.inputs = target.weight->cols;
      work.outputs += target.weight->rows;
      work.bytes += target.weight->bytes;
    }
    work.operations = 2 * static_cast<uint64_t>(work.inputs * work.outputs) * static_cast<uint64_t>(rows.value());
    timed(Op::kMatmul, work, [&] { inner_->matmul(targets, x, rows, use); });
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows, int64_t dim,
                  float* out) override {
    timed(Op::kLayerNorm, {}, [&] { inner_->layer_norm(x, weight, bias, eps, rows, dim, out); });
  }
  void layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    timed(Op::kLayerNormGroups, {}, [&] { inner_->layer_norm_groups(x, weight, eps, rows, n_groups, dim); });
  }
  void add_bias(float* x, const float* bias, RowCount rows, int64_t dim) override {
    timed(Op::kAddBias, {}, [&] { inner_->add_bias(x, bias, rows, dim); });
  }
  void rope_and_store(const RopeCall& call) override {
    timed(Op::kRopeAndStore, {}, [&] { inner_->rope_and_store(call); });
  }
  void attention(const AttentionCall& call) override {
    const Reach reach = reach_of(call.segments, call.params.window);
    const KvShape& shape = call.cache.shape;
    const LayerState& own = shape.layers[static_cast<size_t>(call.layer)];
    // A page holds keys and values of all layers of its page table. This is the share of one layer.
    const auto bytes_per_position =
        call.cache.bytes / static_cast<size_t>(shape.n_pages) / static_cast<size_t>(shape.n_slots()) / kPageTokens;
    Work work;
    work.bytes = static_cast<uint64_t>(reach.positions) * bytes_per_position;
    work.operations = 4 * static_cast<uint64_t>(reach.pairs) * static_cast<uint64_t>(call.n_heads * own.key_dim);
    timed(Op::kAttention, work, [&] { inner_->attention(call); });
  }
  void batched_matmul(const BatchedMatmul& products, RowCount rows) override {
    const Matrix& weight = *products.weight;
    Work work{.inputs = weight.cols, .outputs = weight.rows, .bytes = weight.bytes};
    work.operations =
        2 * static_cast<uint64_t>(weight.cols * products.rows * products.n_heads) * static_cast<uint64_t>(rows.value());
    timed(Op::kMatmul, work, [&] { inner_->batched_matmul(products, rows); });
  }
  void rope_and_store_latents(const LatentsCall& call) override {
    timed(Op::kRopeAndStoreLatents, {}, [&] { inner_->rope_and_store_latents(call); });
  }
  void select_positions(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& cache,
                        float* chosen) override {
    const Reach reach = reach_of(segments, 0);
    const LayerState& layer = cache.shape.layers[static_cast<size_t>(index.layer)];
    Work work;
    work.operations = 2 * static_cast<uint64_t>(reach.pairs) * static_cast<uint64_t>(index.n_heads) *
                      static_cast<uint64_t>(layer.key_dim);
    timed(Op::kSelectPositions, work, [&] { inner_->select_positions(index, segments, cache, chosen); });
  }
  void pool_blocks(const BlockPool& pool, std::span<const Segment> segments, const LayerSlots& state,
                   const float* values, const float* scores, float* out) override {
    timed(Op::kPoolBlocks, {}, [&] { inner_->pool_blocks(pool, segments, state, values, scores, out); });
  }
  void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows, KvCache& cache) override {
    timed(Op::kStoreBlocks, {}, [&] { inner_->store_blocks(blocks, segments, rows, cache); });
  }
  void hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) override {
    timed(Op::kHyperConnectionWeights, {}, [&] { inner_->hyper_connection_weights(mix, numbers, rows); });
  }
  void read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows, int64_t dim,
                    float* out) override {
    timed(Op::kReadStreams, {}, [&] { inner_->read_streams(mix, numbers, streams, rows, dim, out); });
  }
  void write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows, int64_t dim,
                     float* streams) override {
    timed(Op::kWriteStreams, {}, [&] { inner_->write_streams(mix, numbers, x, rows, dim, streams); });
  }
  void gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim,
             float* out) override {
    timed(Op::kGated, {}, [&] { inner_->gated(gating, gate, up, rows, dim, out); });
  }
  void gate_heads(float* x, const float* gate, RowCount rows, int n_heads, int head_dim) override {
    timed(Op::kGateHeads, {}, [&] { inner_->gate_heads(x, gate, rows, n_heads, head_dim); });
  }
  void scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) override {
    timed(Op::kScaleColumns, {}, [&] { inner_->scale_columns(x, factors, rows, dim); });
  }
  void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset, RowCount rows,
                    int64_t dim) override {
    timed(Op::kAddWeighted, {}, [&] { inner_->add_weighted(x, y, weights, weight_stride, offset, rows, dim); });
  }
  void rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) override {
    timed(Op::kRescaleToNorm, {}, [&] { inner_->rescale_to_norm(x, y, rows, dim); });
  }
  void gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) override {
    timed(Op::kGaussianTopk, {}, [&] { inner_->gaussian_topk(x, deviations, rows, dim); });
  }
  void copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) override {
    timed(Op::kCopyRows, {}, [&] { inner_->copy_rows(x, x_stride, rows, dim, out); });
  }
  void activate(Activation activation, float* x, RowCount rows, int64_t dim) override {
    timed(Op::kActivate, {}, [&] { inner_->activate(activation, x, rows, dim); });
  }
  void scale(float* x, RowCount rows, int64_t dim, float factor) override {
    timed(Op::kScale, {}, [&] { inner_->scale(x, rows, dim, factor); });
  }
  void soft_cap(float* x, RowCount rows, int64_t dim, float cap) override {
    timed(Op::kSoftCap, {}, [&] { inner_->soft_cap(x, rows, dim, cap); });
  }
  void add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) override {
    timed(Op::kAddRows, {}, [&] { inner_->add_rows(x, y, factor, gate, rows, dim); });
  }
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
               bool add_to_out) override {
    // A lower bound of the bytes: the profiler does not know which experts several tokens share.
    const MixtureShape& shape = mixture.shape;
    const uint64_t of_one =
        ((mixture.gate != nullptr ? mixture.gate->bytes : 0) + mixture.up->bytes + mixture.down->bytes) /
        static_cast<size_t>(shape.n_experts);
    Work work;
    work.bytes = of_one * static_cast<uint64_t>(shape.n_used);
    work.operations = (mixture.gate ? 6u : 4u) * static_cast<uint64_t>(shape.n_embd) *
                      static_cast<uint64_t>(shape.n_ff) * static_cast<uint64_t>(shape.n_used) *
                      static_cast<uint64_t>(rows.value());
    timed(Op::kMixture, work, [&] { inner_->mixture(mixture, router_logits, x, rows, out, add_to_out); });
  }
  void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state, float* x,
                int64_t stride) override {
    Work work;
    for (const Segment& segment : segments) {
      work.bytes += 2 * static_cast<uint64_t>(convolution.state_floats()) * sizeof(float);
      work.operations += 2 * static_cast<uint64_t>(segment.n_tokens) *
                         static_cast<uint64_t>(convolution.conv_kernel_size) *
                         static_cast<uint64_t>(convolution.n_channels);
    }
    timed(Op::kConvolve, work, [&] { inner_->convolve(convolution, segments, state, x, stride); });
  }
  void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                  const DeltaInputs& inputs, float* out) override {
    // The state is read from and written to memory once per segment. Each token decays the state, reads it twice and
    // adds to it.
    Work work;
    const auto of_state = static_cast<uint64_t>(rule.state_floats());
    for (const Segment& segment : segments) {
      work.bytes += 2 * of_state * sizeof(float);
      work.operations += 7 * static_cast<uint64_t>(segment.n_tokens) * of_state;
    }
    timed(Op::kDeltaRule, work, [&] { inner_->delta_rule(rule, segments, state, inputs, out); });
  }
  void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                   const StateSpaceInputs& inputs, float* out) override {
    Work work;
    const auto of_state = static_cast<uint64_t>(space.state_floats());
    for (const Segment& segment : segments) {
      work.bytes += 2 * of_state * sizeof(float);
      work.operations += 5 * static_cast<uint64_t>(segment.n_tokens) * of_state;
    }
    timed(Op::kStateSpace, work, [&] { inner_->state_space(space, segments, state, inputs, out); });
  }
  void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride, int n_heads,
              int head_dim) override {
    timed(Op::kRotate, {}, [&] { inner_->rotate(rope, segments, x, row_stride, n_heads, head_dim); });
  }
  void xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) override {
    timed(Op::kXielu, {}, [&] { inner_->xielu(params, x, rows, dim); });
  }
  void rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    timed(Op::kRmsNormGroups, {}, [&] { inner_->rms_norm_groups(x, weight, eps, rows, n_groups, dim); });
  }
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) override {
    timed(Op::kGatherRows, {}, [&] { inner_->gather_rows(x, rows, dim, out); });
  }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override {
    timed(Op::kCopyPage, {}, [&] { inner_->copy_page(cache, from, to); });
  }
  bool is_host_memory() const override { return inner_->is_host_memory(); }
  int host_threads() const override { return inner_->host_threads(); }
  void run_on_host(int64_t n, HostWork work, const void* context) override {
    timed(Op::kSample, {}, [&] { inner_->run_on_host(n, work, context); });
  }
  bool can_sample(int n_vocab) const override { return inner_->can_sample(n_vocab); }
  Status reserve_samples(int n_vocab, int most_tasks) override { return inner_->reserve_samples(n_vocab, most_tasks); }
  void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    timed(Op::kSample, {}, [&] { inner_->sample(n_vocab, tasks, results); });
  }

 private:
  using Op = OperationKind;
  struct Work {
    int64_t inputs = 0, outputs = 0;
    uint64_t bytes = 0, operations = 0;
  };

  template <typename Run>
  void timed(Op op, const Work& work, Run&& run) {
    const Clock::time_point start = Clock::now();
    run();
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    StepProfile::Slot& slot = profile_->slot(op, work.inputs, work.outputs);
    slot.calls.fetch_add(1, std::memory_order_relaxed);
    slot.nanoseconds.fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
    slot.bytes.fetch_add(work.bytes, std::memory_order_relaxed);
    slot.operations.fetch_add(work.operations, std::memory_order_relaxed);
  }

  const std::unique_ptr<Backend> inner_;
  const std::shared_ptr<StepProfile> profile_;
};

std::unique_ptr<Backend> make_profiled_backend(std::unique_ptr<Backend> inner, std::shared_ptr<StepProfile> profile) {
  return std::make_unique<ProfiledBackend>(std::move(inner), std::move(profile));
}

}  // namespace monolith
