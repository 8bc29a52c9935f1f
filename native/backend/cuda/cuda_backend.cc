#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/blocks.h"
#include "backend/cuda/attention/latents.h"
#include "backend/cuda/attention/position_index.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/heads/heads.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/matrix.h"
#include "backend/cuda/moe/moe.h"
#include "backend/cuda/fusion_queue.h"
#include "backend/cuda/recurrence/recurrence.h"
#include "backend/cuda/attention/rope.h"
#include "backend/cuda/cuda_graph_cache.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sampling/sampling.h"
#include "backend/cuda/streams/streams.h"
#include "backend/cuda/step_tables.h"
#include "backend/registry/registry.h"

namespace monolith {
namespace {

using namespace cuda;

// Upper estimates of the device memory that CUDA itself uses. Allocations: small allocations share blocks of 2 MiB, and
// an allocation of 1 MiB or more occupies whole blocks. Code: loaded when a kernel is first launched; the code of all
// files, for three GPU architectures, is 18 MB. CUDA graphs: one node per launch, whose arguments and descriptor stay
// on the device.
constexpr size_t kAllocationPiece = size_t{2} << 20, kMinWholePieces = size_t{1} << 20, kSmallUnit = 512;
constexpr size_t kCodeBytes = size_t{32} << 20;
// Rough number of scratch allocations of a backend and a KV cache.
constexpr size_t kScratchAllocations = 24;
constexpr size_t kNodeBytes = 4 << 10, kNodesOfLayer = 16, kNodesBeside = 16;

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<Runtime> runtime, const CudaBackendOptions& options)
      : runtime_(std::move(runtime)),
        options_(options),
        matmul_{DenseScratch(*runtime_),
                dense_device(*runtime_, {.wgmma = options.wgmma, .invariant = options.invariant}),
                Int8Activations(*runtime_)},
        pending_(*runtime_, options.fused),
        steps_(*runtime_, options.early_launch) {}

  Status start() {
    matmul_.fused = options_.fused;
    runtime_->set_early_launch(options_.early_launch);
    if (Status status = loader_.start(); !status) return status;
    return open_library();
  }

  BackendInfo info() const override {
    const DeviceProperties& device = runtime_->device();
    return {"cuda",
            device.name + ", sm_" + std::to_string(device.major) + std::to_string(device.minor) + library_info(), 1};
  }

  std::string note() const override { return steps_.note(); }

  uint64_t free_memory() const override { return runtime_->free_bytes(); }
  size_t memory_of(size_t bytes) const override {
    const size_t unit = bytes >= kMinWholePieces ? kAllocationPiece : kSmallUnit;
    return (bytes + unit - 1) / unit * unit;
  }
  size_t overhead_bytes(int n_layers) const override {
    const size_t nodes = kNodesOfLayer * static_cast<size_t>(n_layers) + kNodesBeside;
    // For each batch size there can be two graphs: one with and one without tokens whose attention is split.
    const size_t recordings = options_.recording ? 2 * CudaGraphCache::n_sizes() : 0;
    return kCodeBytes + kScratchAllocations * kAllocationPiece + recordings * nodes * kNodeBytes;
  }

  size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const override {
    return cuda::matrix_bytes(format_for(type, rows, cols, options_.exact), type, rows, cols);
  }
  size_t kv_cache_bytes(const KvShape& shape) const override { return CudaKvCache::bytes_for(shape); }
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override {
    return make_matrix(loader_, source, options_.exact);
  }
  Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) override {
    auto cache = CudaKvCache::create(*runtime_, shape);
    if (!cache) return cache.error();
    tables_.set_kv_heads(shape.most_kv_heads());
    return std::unique_ptr<KvCache>(std::move(*cache));
  }
  Result<float*> allocate(int64_t count) override {
    auto memory = runtime_->allocate(static_cast<size_t>(count) * sizeof(float));
    if (!memory) return memory.error();
    return static_cast<float*>(*memory);
  }

  void write_floats(float* to, const float* host_from, int64_t count) override {
    pending_.flush();
    loader_.write(to, host_from, static_cast<size_t>(count) * sizeof(float));
  }
  void read_floats(float* host_to, const float* from, int64_t count) override {
    pending_.flush();
    loader_.read(host_to, from, static_cast<size_t>(count) * sizeof(float));
  }

  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                       const MixtureShape& mixture) const override {
    return StepTables::bytes_for(rows_reserved(max_rows), max_context) +
           RopeTables::bytes_for(rows_reserved(max_rows), max_head_dim) + AttentionScratch::bytes_for(max_cols) +
           Int8Activations::bytes_for(most_columns(max_rows, mixture), most_cols(max_cols, mixture)) +
           DenseScratch::bytes_for(most_columns(max_rows, mixture), most_cols(max_cols, mixture)) +
           CudaMixture::bytes_for(rows_reserved(max_rows), mixture);
  }
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                 const MixtureShape& mixture) override {
    pending_.flush();
    max_rows_ = std::max(max_rows_, max_rows);
    steps_.forget();
    if (Status status = loader_.rest(); !status) return status;  // The loader's buffers count as scratch memory.
    if (Status status = mixture_.reserve(rows_reserved(max_rows), mixture); !status) return status;
    if (Status status = matmul_.dense.reserve(most_columns(max_rows, mixture), most_cols(max_cols, mixture)); !status)
      return status;
    if (Status status = matmul_.int8.reserve(most_columns(max_rows, mixture), most_cols(max_cols, mixture)); !status)
      return status;
    if (Status status = tables_.reserve(rows_reserved(max_rows), max_context); !status) return status;
    if (Status status = ropes_.reserve(rows_reserved(max_rows), max_head_dim); !status) return status;
    return partial_.reserve(max_cols);
  }

  size_t head_scratch_bytes(int max_rows, const HeadProductShape& shape) const override {
    const int64_t columns = CudaHeads::most_columns(rows_reserved(max_rows), shape);
    return CudaHeads::bytes_for(rows_reserved(max_rows), shape) + AttentionScratch::bytes_for(partial_values(shape)) +
           Int8Activations::bytes_for(columns, shape.cols) + DenseScratch::bytes_for(columns, shape.cols);
  }
  Status reserve_heads(int max_rows, const HeadProductShape& shape) override {
    if (shape.n_heads == 0) return {};
    pending_.flush();
    runtime_->synchronize();
    steps_.forget();
    const int64_t columns = CudaHeads::most_columns(rows_reserved(max_rows), shape);
    if (Status status = heads_.reserve(rows_reserved(max_rows), shape); !status) return status;
    if (Status status = matmul_.dense.reserve(columns, shape.cols); !status) return status;
    if (Status status = matmul_.int8.reserve(columns, shape.cols); !status) return status;
    return partial_.reserve(partial_values(shape));
  }

  Status supports(const Requirement& requirement) const override {
    return std::visit(ForEach{[](OperationKind kind) {
                                return kind == OperationKind::kAddAdapters ? Status(unsupported(kind)) : Status();
                              },
                              [](MemoryFeature feature) {
                                return feature == MemoryFeature::kFp8Weights ? Status() : Status(unsupported(feature));
                              },
                              [&](TensorType type) {
                                return cuda::keeps_type(type, options_.exact) ? Status() : Status(unsupported(type));
                              },
                              [](KvType type) { return CudaKvCache::check(type); },
                              [](const KvShape& shape) { return CudaKvCache::check(shape); },
                              [](const Convolution& convolution) { return check_recurrence(convolution); },
                              [](const DeltaRule& rule) { return check_recurrence(rule); },
                              [](const StateSpace& space) { return check_recurrence(space); },
                              [](const TimeMix& mix) { return check_recurrence(mix); },
                              [](const Mixture& mixture) { return CudaMixture::check(mixture); },
                              [](Fixed16Heads heads) { return Status(unsupported(heads)); },
                              [](AlibiBias bias) { return Status(unsupported(bias)); }},
                      requirement);
  }

  bool begin_step(const StepInput& input) override {
    pending_.drop();  // Discards operations left over from a step that failed.
    steps_.drop();
    runtime_->synchronize();  // The device may still be reading the tables of the previous step.
    ropes_.begin_step();
    n_rows_ = static_cast<int>(input.tokens.size());
    const int rows = can_record(input) ? CudaGraphCache::padded_rows(n_rows_) : 0;
    tables_.send(input, rows, kSparePage);
    return steps_.begin(input.model, rows, tables_.has_splits());
  }

  void end_step() override {
    pending_.flush();
    steps_.end();
  }
  bool is_asynchronous() const override { return true; }
  void wait() override { runtime_->synchronize(); }

  // Not reached: Adapter::load() first calls supports(), which rejects LoRA adapters.
  Result<std::unique_ptr<AdapterMatrix>> adapter_matrix(const AdapterSource&) override {
    return unsupported(OperationKind::kAddAdapters);
  }
  void add_adapters(std::span<const AdapterTarget>, float*) override {
    throw std::logic_error("the CUDA backend does not compute adapters");
  }

  void embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) override {
    const int32_t* known = tables_.find_tokens(tokens);
    if (!known) known = send_numbers({tokens, static_cast<size_t>(rows.value())});
    cuda::embed(now(), static_cast<const CudaMatrix&>(table), known, padded(rows), out);
  }
  void rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) override {
    pending_.hold(PendingNorm{x, weight, eps, padded(rows), dim, out});
  }
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows, int n_heads,
                      int head_dim) override {
    pending_.hold(PendingHeads{x, row_stride, weight, eps, padded(rows), n_heads, head_dim});
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows, int64_t dim,
                  float* out) override {
    cuda::layer_norm(now(), x, weight, bias, eps, padded(rows), dim, out);
  }
  void layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    cuda::layer_norm_groups(now(), x, weight, eps, padded(rows), n_groups, dim);
  }
  void add_bias(float* x, const float* bias, RowCount rows, int64_t dim) override {
    cuda::add_bias(now(), x, bias, padded(rows), dim);
  }
  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) override {
    pending_.matmul(matmul_, targets, x, padded(rows), use);
  }
  void rope_and_store(const RopeCall& call) override {
    auto& own = static_cast<CudaKvCache&>(call.cache);
    const RowList rows = list_of(call.segments);
    RopeLaunch launch{&rows,         call.q, call.q_stride, call.n_heads,         call.k,
                      call.k_stride, call.v, call.v_stride, own.view(call.layer), own.shape.type};
    if (call.k == nullptr) launch.cache.n_kv_heads = 0;  // Only the queries are rotated.
    launch.norms = pending_.head_norms(launch, call.rope.n_dims);
    cuda::rope_and_store(now(), call.rope, ropes_.prepare(call.rope, rows), launch);
  }
  void attention(const AttentionCall& call) override {
    const auto& own = static_cast<const CudaKvCache&>(call.cache);
    const AttentionParams& params = call.params;
    AttentionLaunch launch{nullptr, call.q,   call.q_stride,  call.n_heads, own.view(call.layer),
                           params,  call.out, call.out_stride};
    if (launch.cache.latents() && (params.block > 0 || params.sinks)) {
      Runtime& runtime = now();
      const RowList rows = list_of(call.segments);
      launch.rows = &rows;
      return attention_blocks(runtime, launch, params.block > 0 ? own.view(params.block_layer) : launch.cache,
                              own.shape.type);
    }
    pending_.hold(PendingAttention{&partial_, list_of(call.segments), launch, own.shape.type});
  }
  void gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim,
             float* out) override {
    pending_.hold(PendingGate{gating, gate, up, padded(rows), dim, out});
  }
  void gate_heads(HeadGate kind, float* x, const float* gate, RowCount rows, int n_heads, int head_dim) override {
    cuda::gate_heads(now(), kind, x, gate, padded(rows), n_heads, head_dim);
  }
  void scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) override {
    cuda::scale_columns(now(), x, factors, padded(rows), dim);
  }
  void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset, RowCount rows,
                    int64_t dim) override {
    cuda::add_weighted(now(), x, y, weights, weight_stride, offset, padded(rows), dim);
  }
  void rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) override {
    cuda::rescale_to_norm(now(), x, y, padded(rows), dim);
  }
  void gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) override {
    cuda::gaussian_topk(now(), x, deviations, padded(rows), dim);
  }
  void copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) override {
    cuda::copy_rows(now(), x, x_stride, padded(rows), dim, out);
  }
  void activate(Activation activation, float* x, RowCount rows, int64_t dim) override {
    cuda::activate(now(), activation, x, padded(rows) * dim);
  }
  void scale(float* x, RowCount rows, int64_t dim, float factor) override {
    cuda::scale(now(), x, padded(rows) * dim, factor);
  }
  void soft_cap(float* x, RowCount rows, int64_t dim, float cap) override {
    cuda::soft_cap(now(), x, padded(rows) * dim, cap);
  }
  void clamp(float* x, RowCount rows, int64_t dim, float limit) override {
    cuda::clamp(now(), x, padded(rows) * dim, limit);
  }
  void add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) override {
    cuda::add_rows(now(), x, y, factor, gate, padded(rows), dim);
  }
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
               bool add_to_out) override {
    pending_.flush();
    const std::span<const int32_t> given = mixture_.experts_of_tokens(mixture, rows.value());
    mixture_.run(matmul_, mixture, router_logits, x, padded(rows), out, add_to_out,
                 given.empty() ? nullptr : send_numbers(given));
  }
  void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state, float* x,
                int64_t stride) override {
    Runtime& runtime = now();
    cuda::convolve(runtime, convolution, list_of(segments), state, x, stride);
  }
  void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                  const DeltaInputs& inputs, float* out) override {
    Runtime& runtime = now();
    cuda::delta_rule(runtime, rule, list_of(segments), state, inputs, out);
  }
  void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                   const StateSpaceInputs& inputs, float* out) override {
    Runtime& runtime = now();
    cuda::state_space(runtime, space, list_of(segments), state, inputs, out);
  }
  void difference_from_previous(std::span<const Segment> segments, const LayerSlots& state, const float* x, int64_t dim,
                                float* difference) override {
    Runtime& runtime = now();
    cuda::difference_from_previous(runtime, list_of(segments), state, x, dim, difference);
  }
  void shifted_inputs(std::span<const ShiftedInput> inputs, const float* x, const float* difference, RowCount rows,
                      int64_t dim) override {
    cuda::shifted_inputs(now(), inputs, x, difference, padded(rows), dim);
  }
  void time_mix(const TimeMix& mix, std::span<const Segment> segments, const LayerSlots& state,
                const TimeMixInputs& inputs, float* out) override {
    Runtime& runtime = now();
    cuda::time_mix(runtime, mix, list_of(segments), state, inputs, out);
  }
  void pool_blocks(const BlockPool& pool, std::span<const Segment> segments, const LayerSlots& state,
                   const float* values, const float* scores, float* out) override {
    Runtime& runtime = now();
    cuda::pool_blocks(runtime, pool, list_of(segments), state, values, scores, out);
  }
  void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows, KvCache& cache) override {
    auto& own = static_cast<CudaKvCache&>(cache);
    Runtime& runtime = now();
    const RowList list = list_of(segments);
    cuda::store_blocks(runtime, {.rows = &list,
                                 .blocks = blocks,
                                 .frequencies = ropes_.frequencies(blocks.rope),
                                 .values = rows,
                                 .cache = own.view(blocks.layer),
                                 .type = own.shape.type});
  }
  void hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) override {
    cuda::hyper_connection_weights(now(), mix, numbers, padded(rows));
  }
  void read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows, int64_t dim,
                    float* out) override {
    cuda::read_streams(now(), mix, numbers, streams, padded(rows), dim, out);
  }
  void write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows, int64_t dim,
                     float* streams) override {
    cuda::write_streams(now(), mix, numbers, x, padded(rows), dim, streams);
  }
  void batched_matmul(const BatchedMatmul& products, RowCount rows) override {
    pending_.flush();
    heads_.run(matmul_, products, padded(rows));
  }
  void rope_and_store_latents(const LatentsCall& call) override {
    auto& own = static_cast<CudaKvCache&>(call.cache);
    Runtime& runtime = now();
    const RowList rows = list_of(call.segments);
    store_latents(runtime, {.rows = &rows,
                            .style = call.rope.style,
                            .n_dims = call.rope.n_dims,
                            .factors = ropes_.prepare(call.rope, rows),
                            .queries = call.queries,
                            .latents = call.rows,
                            .stride = call.row_stride,
                            .cache = own.view(call.layer),
                            .type = own.shape.type});
  }
  void select_positions(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& cache,
                        float* chosen) override {
    const auto& own = static_cast<const CudaKvCache&>(cache);
    Runtime& runtime = now();
    const RowList rows = list_of(segments);
    cuda::select_positions(runtime, {.rows = &rows,
                                     .index = index,
                                     .keys = own.view(index.layer),
                                     .type = own.shape.type,
                                     .scores = own.chosen_scores(),
                                     .chosen = reinterpret_cast<int32_t*>(chosen)});
  }
  void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride, int n_heads,
              int head_dim) override {
    const RowList rows = list_of(segments);
    KvView none{};  // There are no keys and values: only the queries are rotated.
    none.head_dim = head_dim;
    const RopeLaunch call{&rows, x, row_stride, n_heads, nullptr, row_stride, nullptr, row_stride, none, KvType::kF32};
    cuda::rope_and_store(now(), rope, ropes_.prepare(rope, rows), call);
  }
  void xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) override {
    cuda::xielu(now(), params, x, padded(rows) * dim);
  }
  void rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) override {
    cuda::rms_norm_groups(now(), x, weight, eps, padded(rows), n_groups, dim);
  }
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) override {
    refuse_in_graph("selects rows by index");
    const int32_t* known = tables_.find_logit_rows(rows.data());
    if (!known) known = send_numbers(rows);
    cuda::gather_rows(now(), x, known, static_cast<int>(rows.size()), dim, out);
  }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override {
    pending_.flush();
    static_cast<CudaKvCache&>(cache).copy_page(from, to);
  }
  void read_page(const KvCache& cache, int32_t page, std::byte* host_to) override {
    pending_.flush();
    static_cast<const CudaKvCache&>(cache).read_page(loader_, page, host_to);
  }
  void write_page(KvCache& cache, int32_t page, const std::byte* host_from) override {
    pending_.flush();
    static_cast<CudaKvCache&>(cache).write_page(loader_, page, host_from);
  }
  bool can_sample(int n_vocab) const override { return n_vocab <= kMaxSampled; }
  Status reserve_samples(int n_vocab, int most_tasks) override { return sampler_.reserve(n_vocab, most_tasks); }
  void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    pending_.flush();
    sampler_.sample(n_vocab, tasks, results);
  }
  void begin_sample(int n_vocab, std::span<const SampleTask> tasks) override { sampler_.begin(n_vocab, tasks); }
  void end_sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    sampler_.end(n_vocab, tasks, results);
  }

 private:
  // Opens cuBLASLt. Allowed only without batch invariance, because the order of the library's sums depends on the
  // number of columns.
  Status open_library() {
    const bool any = options_.cublaslt == "auto";
    if (options_.invariant && !any && !options_.cublaslt.empty())
      return Error{ErrorCode::kInvalidArgument, "cuBLASLt can be used only with batch invariance off"};
    if (options_.invariant || options_.exact || options_.cublaslt.empty()) return {};
    auto library = DenseLibrary::open(*runtime_, any ? "" : options_.cublaslt);
    if (library)
      matmul_.library = std::move(*library);
    else if (!any)
      return Error{ErrorCode::kInvalidArgument, "cuBLASLt at " + options_.cublaslt + ": " + library.error().message};
    else
      library_missing_ = library.error().message;
    return {};
  }
  std::string library_info() const {
    if (!matmul_.library) return library_missing_.empty() ? "" : ", no cuBLASLt (" + library_missing_ + ")";
    const int64_t failures = matmul_.library->failures();
    return ", cuBLASLt " + matmul_.library->version() +
           (failures > 0 ? ", failed " + std::to_string(failures) + " times" : "");
  }

  // Returns the runtime with which to launch an operation, after running the deferred operations.
  Runtime& now() {
    pending_.flush();
    return *runtime_;
  }

  static int rows_reserved(int max_rows) { return std::max(max_rows, 1); }
  // The maximum number of columns (tokens) of a matmul input.
  static int64_t most_columns(int max_rows, const MixtureShape& mixture) {
    return std::max<int64_t>(rows_reserved(max_rows), CudaMixture::most_columns(rows_reserved(max_rows), mixture));
  }
  static int64_t most_cols(int64_t max_cols, const MixtureShape& mixture) {
    return std::max<int64_t>({max_cols, mixture.n_embd, mixture.n_ff});
  }

  // Number of partial attention values per token, including two values per head for the softmax state.
  static int64_t partial_values(const HeadProductShape& shape) { return shape.n_heads * (shape.rows + 2); }

  // A step can be captured if every token is a decode token with logits and there is room for the padding tokens.
  bool can_record(const StepInput& input) const {
    if (!options_.recording || !input.recordable) return false;
    const size_t n = input.tokens.size();
    if (input.logit_rows.size() != n || input.segment_lists.empty() || input.segment_lists[0].size() != n) return false;
    const int padded = CudaGraphCache::padded_rows(static_cast<int>(n));
    return padded > 0 && padded <= std::min(input.max_rows, max_rows_);
  }

  // Returns the number of rows that a kernel computes. In a captured step, this is the graph's full number of rows, so
  // that the graph can be replayed for more tokens than the captured step had.
  int padded(RowCount rows) const {
    if (steps_.rows() == 0) return rows.value();
    if (!rows.is_whole_step()) refuse_in_graph("computes " + std::to_string(rows.value()) + " rows");
    assert(rows.value() == n_rows_);
    return steps_.rows();
  }
  // Throws if the current step is captured or may be captured later. `what` describes an operation whose launch would
  // not be valid for another step of the same size.
  void refuse_in_graph(std::string_view what) const {
    if (steps_.rows() > 0)
      throw std::logic_error("an operation " + std::string(what) +
                             " in a decode step that is captured as a CUDA graph of " + std::to_string(steps_.rows()) +
                             " tokens");
  }

  const int32_t* send_numbers(std::span<const int32_t> numbers) {
    refuse_in_graph("uploads its arguments");
    return tables_.send_numbers(numbers.data(), static_cast<int>(numbers.size()));
  }

  RowList list_of(std::span<const Segment> segments) {
    if (const RowList* known = tables_.find(segments)) return *known;
    refuse_in_graph("refers to segments that are not part of the step");
    // All lists uploaded by send_list() share one buffer, so the RoPE angles of the previous list are invalid.
    ropes_.begin_step();
    return tables_.send_list(segments);
  }

  std::unique_ptr<Runtime> runtime_;
  CudaBackendOptions options_;
  Loader loader_{*runtime_};
  MatmulContext matmul_;
  std::string library_missing_;  // Why cuBLASLt could not be loaded; empty if it was loaded or not requested.
  FusionQueue pending_;
  CudaMixture mixture_{*runtime_};
  CudaHeads heads_{*runtime_};
  StepTables tables_{*runtime_};
  RopeTables ropes_{*runtime_};
  DeviceSampler sampler_{*runtime_};
  AttentionScratch partial_{*runtime_};
  int max_rows_ = 0;
  CudaGraphCache steps_;
  int n_rows_ = 0;  // Number of tokens of the current step.
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options) {
  auto runtime = Runtime::open(options.device);
  if (!runtime) return runtime.error();
  auto backend = std::make_unique<CudaBackend>(std::move(*runtime), options);
  if (Status status = backend->start(); !status) return status.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

BackendKind cuda_backend_kind() {
  return {.name = "cuda",
          .has_devices = true,
          .probe = []() -> Result<std::vector<std::string>> {
            auto devices = list_devices();
            if (!devices) return devices.error();
            std::vector<std::string> names;
            for (const DeviceProperties& device : *devices) names.push_back(device.name);
            return names;
          },
          .create = [](const BackendOptions& options, int device) -> Result<std::unique_ptr<Backend>> {
            if (options.arithmetic == Arithmetic::kFast)
              return Error{ErrorCode::kUnsupported,
                           "engine.arithmetic fast is supported only on CPUs with AMX (engine.device cpu)"};
            return make_cuda_backend({.device = device,
                                      .exact = options.arithmetic == Arithmetic::kExact,
                                      .invariant = options.batch_invariant,
                                      .cublaslt = options.cublaslt});
          }};
}

}  // namespace monolith
