#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>

#include "backend/cuda/attention.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/kv_cache.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/matrix.h"
#include "backend/cuda/mixture.h"
#include "backend/cuda/rope.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sampling.h"
#include "backend/cuda/step_tables.h"

namespace monolith {
namespace {

using namespace cuda;

constexpr int kMostAttempts = 2;   // to record a step: Runtime::end_recording()

// Rows of the steps of decodes that are recorded: a step of n takes the first that is not smaller.
constexpr int kRecordedRows[] = {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};

int padded_rows(int n_rows) {
  const auto* const at = std::ranges::lower_bound(kRecordedRows, n_rows);
  return at == std::end(kRecordedRows) ? 0 : *at;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<Runtime> runtime, const CudaBackendOptions& options)
      : runtime_(std::move(runtime)),
        options_(options),
        matmul_{DenseScratch(*runtime_),
                dense_device(*runtime_, {.wgmma = options.wgmma, .invariant = options.invariant}),
                Int8Activations(*runtime_)} {}

  Status start() {
    runtime_->set_early_launch(options_.early_launch);
    return loader_.start();
  }

  BackendInfo info() const override {
    const DeviceProperties& device = runtime_->device();
    return {"cuda", device.name + ", sm_" + std::to_string(device.major) + std::to_string(device.minor), 1};
  }

  uint64_t free_memory() const override { return runtime_->free_bytes(); }
  bool keeps_fp8() const override { return true; }

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
    tables_.set_kv_heads(shape.n_kv_heads);
    return std::unique_ptr<KvCache>(std::move(*cache));
  }
  Result<float*> allocate(int64_t count) override {
    auto memory = runtime_->allocate(static_cast<size_t>(count) * sizeof(float));
    if (!memory) return memory.error();
    return static_cast<float*>(*memory);
  }

  void write_floats(float* to, const float* host_from, int64_t count) override {
    loader_.write(to, host_from, static_cast<size_t>(count) * sizeof(float));
  }
  void read_floats(float* host_to, const float* from, int64_t count) override {
    loader_.read(host_to, from, static_cast<size_t>(count) * sizeof(float));
  }

  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                       const MixtureShape& mixture) const override {
    return StepTables::bytes_for(rows_reserved(max_rows), max_context) +
           RopeTables::bytes_for(rows_reserved(max_rows), max_head_dim) +
           AttentionScratch::bytes_for(max_cols) +
           Int8Activations::bytes_for(most_columns(max_rows, mixture), most_cols(max_cols, mixture)) +
           DenseScratch::bytes_for(most_columns(max_rows, mixture), most_cols(max_cols, mixture)) +
           CudaMixture::bytes_for(rows_reserved(max_rows), mixture);
  }
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim, const MixtureShape& mixture) override {
    max_rows_ = std::max(max_rows_, max_rows);
    steps_.clear();   // they work in the scratch of before
    if (Status status = loader_.rest(); !status) return status;   // what it held counts as scratch
    if (Status status = mixture_.reserve(rows_reserved(max_rows), mixture); !status) return status;
    if (Status status = matmul_.dense.reserve(most_columns(max_rows, mixture), most_cols(max_cols, mixture)); !status)
      return status;
    if (Status status = matmul_.int8.reserve(most_columns(max_rows, mixture), most_cols(max_cols, mixture)); !status)
      return status;
    if (Status status = tables_.reserve(rows_reserved(max_rows), max_context); !status) return status;
    if (Status status = ropes_.reserve(rows_reserved(max_rows), max_head_dim); !status) return status;
    return partial_.reserve(max_cols);
  }

  Status can_mix(const Mixture& mixture) const override { return CudaMixture::check(mixture); }

  bool begin_step(const StepInput& input) override {
    runtime_->synchronize();   // the tables of the step before may still be read
    ropes_.begin_step();
    n_rows_ = static_cast<int>(input.tokens.size());
    has_logits_ = !input.logit_rows.empty();
    step_ = can_record(input) ? find_step(input.model) : nullptr;
    tables_.send(input, step_ ? step_->rows : 0, kSparePage);
    if (step_ && step_->recording) return true;
    // The first time a size comes it is computed plainly: what operations prepare once is prepared then.
    if (step_ && step_->seen && step_->attempts < kMostAttempts) {
      recording_ = true;
      runtime_->begin_recording();
    }
    return false;
  }

  void end_step() override {
    if (recording_) {   // and computed as it was recorded
      recording_ = false;
      step_->recording = runtime_->end_recording();
      ++step_->attempts;
    } else if (step_ && step_->recording) {
      runtime_->play(*step_->recording);
    }
    if (step_) step_->seen = true;
    step_ = nullptr;
    // Nobody waits for a result: else the engine would take such a step for as short as it is asked for.
    if (!has_logits_) runtime_->synchronize();
  }

  void embed(const Matrix& table, const int32_t* tokens, int n_rows, float* out) override {
    const int32_t* known = tables_.find_tokens(tokens);
    if (!known) known = tables_.send_numbers(tokens, n_rows);
    cuda::embed(*runtime_, static_cast<const CudaMatrix&>(table), known, padded(n_rows), out);
  }
  void rms_norm(const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out) override {
    cuda::rms_norm(*runtime_, x, weight, eps, padded(n_rows), dim, out);
  }
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, int n_rows, int n_heads,
                      int head_dim) override {
    cuda::rms_norm_heads(*runtime_, x, row_stride, weight, eps, padded(n_rows), n_heads, head_dim);
  }
  void matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows) override {
    cuda::matmul(*runtime_, matmul_, targets, x, padded(n_rows));
  }
  void rope_and_store(const RopeParams& rope, std::span<const Segment> segments, float* q, int64_t q_stride, int n_heads,
                      float* k, int64_t k_stride, const float* v, int64_t v_stride, int layer, KvCache& cache) override {
    auto& own = static_cast<CudaKvCache&>(cache);
    const RowList rows = list_of(segments);
    cuda::rope_and_store(*runtime_, rope, ropes_.prepare(rope, rows), rows, q, q_stride, n_heads, k, k_stride, v, v_stride,
                         own.view(layer), own.shape.type);
  }
  void attention(std::span<const Segment> segments, const float* q, int64_t q_stride, int n_heads, int layer,
                 const KvCache& cache, const AttentionParams& params, float* out, int64_t out_stride) override {
    const auto& own = static_cast<const CudaKvCache&>(cache);
    const RowList rows = list_of(segments);
    cuda::attention(*runtime_, partial_, {&rows, q, q_stride, n_heads, own.view(layer), params, out, out_stride},
                    own.shape.type);
  }
  void gated(Activation activation, const float* gate, const float* up, int n_rows, int64_t dim, float* out) override {
    cuda::gated(*runtime_, activation, gate, up, int64_t{padded(n_rows)} * dim, out);
  }
  void scale(float* x, int64_t count, float factor) override { cuda::scale(*runtime_, x, padded_count(count), factor); }
  void soft_cap(float* x, int64_t count, float cap) override { cuda::soft_cap(*runtime_, x, padded_count(count), cap); }
  void add_rows(float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) override {
    cuda::add_rows(*runtime_, x, y, factor, gate, padded(n_rows), dim);
  }
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, int n_rows, float* out,
               bool add_to_out) override {
    mixture_.run(matmul_, mixture, router_logits, x, padded(n_rows), out, add_to_out);
  }
  void gather_rows(const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) override {
    const int32_t* known = tables_.find_logit_rows(rows);
    if (!known) known = tables_.send_numbers(rows, n_rows);
    cuda::gather_rows(*runtime_, x, known, n_rows, dim, out);
  }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override {
    static_cast<CudaKvCache&>(cache).copy_page(from, to);
  }
  bool can_sample(int n_vocab) const override { return n_vocab <= kMostSampled; }
  Status reserve_samples(int n_vocab, int most_tasks) override { return sampler_.reserve(n_vocab, most_tasks); }
  void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    sampler_.sample(n_vocab, tasks, results);
  }

 private:
  // A step of `rows` decodes of one model.
  struct RecordedStep {
    const void* model;
    int rows;
    bool seen = false;                      // computed once
    int attempts = 0;                       // to record it
    std::unique_ptr<Recording> recording;   // null: it is computed operation by operation
  };

  static int rows_reserved(int max_rows) { return std::max(max_rows, 1); }
  // The largest input of a product.
  static int64_t most_columns(int max_rows, const MixtureShape& mixture) {
    return std::max<int64_t>(rows_reserved(max_rows), CudaMixture::most_columns(rows_reserved(max_rows), mixture));
  }
  static int64_t most_cols(int64_t max_cols, const MixtureShape& mixture) {
    return std::max<int64_t>({max_cols, mixture.n_embd, mixture.n_ff});
  }

  // Every row a decode with logits, and room for the padding.
  bool can_record(const StepInput& input) const {
    if (!options_.recording || !input.recordable) return false;
    const size_t n = input.tokens.size();
    if (input.logit_rows.size() != n || input.segment_lists.empty() || input.segment_lists[0].size() != n) return false;
    const int padded = padded_rows(static_cast<int>(n));
    return padded > 0 && padded <= std::min(input.max_rows, max_rows_);
  }

  RecordedStep* find_step(const void* model) {
    const int rows = padded_rows(n_rows_);
    for (RecordedStep& step : steps_)
      if (step.model == model && step.rows == rows) return &step;
    return &steps_.emplace_back(RecordedStep{.model = model, .rows = rows, .recording = nullptr});
  }

  // Operations of a step that is recorded work on its padded rows.
  int padded(int n_rows) const { return step_ && n_rows == n_rows_ ? step_->rows : n_rows; }
  int64_t padded_count(int64_t count) const { return step_ ? count / n_rows_ * step_->rows : count; }

  RowList list_of(std::span<const Segment> segments) {
    if (const RowList* known = tables_.find(segments)) return *known;
    ropes_.begin_step();   // lists sent this way all have one place: angles of the last are not this one's
    return tables_.send_list(segments);
  }

  std::unique_ptr<Runtime> runtime_;
  CudaBackendOptions options_;
  Loader loader_{*runtime_};
  MatmulContext matmul_;
  CudaMixture mixture_{*runtime_};
  StepTables tables_{*runtime_};
  RopeTables ropes_{*runtime_};
  DeviceSampler sampler_{*runtime_};
  AttentionScratch partial_{*runtime_};
  int max_rows_ = 0;
  // Of the step under way.
  int n_rows_ = 0;
  bool has_logits_ = false;
  RecordedStep* step_ = nullptr;    // null: it is none that is recorded
  bool recording_ = false;
  std::deque<RecordedStep> steps_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options) {
  auto runtime = Runtime::open(options.device);
  if (!runtime) return runtime.error();
  auto backend = std::make_unique<CudaBackend>(std::move(*runtime), options);
  if (Status status = backend->start(); !status) return status.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

Result<std::vector<std::string>> cuda_devices() {
  auto devices = list_devices();
  if (!devices) return devices.error();
  std::vector<std::string> names;
  for (const DeviceProperties& device : *devices) names.push_back(device.name);
  return names;
}

}  // namespace monolith
