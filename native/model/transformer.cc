#include "model/transformer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>
#include <string>

#include "model/layers/attention.h"
#include "model/layers/expert_mixture.h"
#include "model/layers/gated_network.h"

namespace monolith {
namespace {

constexpr int kMaxBatchTokens = 1 << 16;
constexpr int64_t kMaxPages = int64_t{1} << 31;  // page numbers are 32 bits
constexpr size_t kMaxKvBytes = size_t{1} << 46;  // keeps every sum of a plan far from overflow

Status check_limits(const ModelLimits& limits) {
  const auto in_range = [](const char* name, int64_t value, int64_t high) -> Status {
    if (value >= 1 && value <= high) return {};
    return Error{ErrorCode::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                                  ", expected 1 to " + std::to_string(high)};
  };
  if (Status s = in_range("max_batch_tokens", limits.max_batch_tokens, kMaxBatchTokens); !s)
    return s;
  if (Status s = in_range("max_logit_rows", limits.max_logit_rows, kMaxBatchTokens); !s) return s;
  if (Status s = in_range("max_context", limits.max_context, 1 << 27); !s) return s;
  return in_range("n_pages", limits.n_pages, kMaxPages - 1);
}

KvShape kv_shape(const HyperParams& params, const ModelLimits& limits) {
  return kv_shape(params, kv_layout(params, limits.pages_by_window), limits.n_pages, limits.kv_type);
}

}  // namespace

// Host copies of the logits count as activations: one more buffer like logits_, where that is not the host's and the
// backend does not choose tokens itself.
static size_t host_logit_count(const HyperParams& params, const ModelLimits& limits,
                               const Backend& backend) {
  if (backend.is_host_memory() || backend.can_sample(params.n_vocab)) return 0;
  return static_cast<size_t>(std::min(limits.max_logit_rows, limits.max_batch_tokens)) *
         static_cast<size_t>(params.n_vocab);
}

static size_t scratch_bytes(const HyperParams& p, const ModelLimits& limits,
                            const Backend& backend) {
  return backend.scratch_bytes(limits.max_batch_tokens, widest_row(p), limits.max_context,
                               p.head_dim, mixture_shape(p));
}

Result<MemoryPlan> Model::plan(const GgufFile& file, const Backend& backend,
                               const ModelLimits& limits) {
  if (Status status = check_limits(limits); !status) return status.error();
  if (Status status = backend.can_keep(limits.kv_type); !status) return status.error();
  auto params = HyperParams::read(file, limits.max_context);
  if (!params) return params.error();
  Weights none;
  auto slots = weight_slots(file, *params, none);
  if (!slots) return slots.error();
  if (Status status = check_fp8(*slots, backend); !status) return status.error();

  MemoryPlan plan{};
  plan.layout = kv_layout(*params, limits.pages_by_window);
  KvShape shape = kv_shape(*params, limits);
  // What one more page takes: a backend may keep pages of its own besides.
  shape.n_pages = 1;
  const size_t of_one = backend.kv_cache_bytes(shape);
  shape.n_pages = 2;
  const size_t of_two = backend.kv_cache_bytes(shape);
  plan.page_bytes = of_two == SIZE_MAX ? of_two : of_two - of_one;
  if (plan.page_bytes > kMaxKvBytes / static_cast<size_t>(limits.n_pages)) {
    return Error{ErrorCode::kInvalidArgument, "n_pages is " + std::to_string(limits.n_pages) +
                                                  ", which at " + std::to_string(plan.page_bytes) +
                                                  " bytes a page is out of range"};
  }
  plan.kv_bytes = backend.kv_cache_bytes(kv_shape(*params, limits));
  plan.weight_bytes = monolith::weight_bytes(*slots, backend);
  plan.overhead_bytes = backend.overhead_bytes(params->n_layers) + weight_memory(*slots, backend) - plan.weight_bytes;
  for (const ActivationBuffer& buffer : activation_buffers(*params, limits)) {
    const size_t bytes = static_cast<size_t>(buffer.count) * sizeof(float);
    plan.activation_bytes += bytes;
    plan.overhead_bytes += backend.memory_of(bytes) - bytes;
  }
  plan.activation_bytes += host_logit_count(*params, limits, backend) * sizeof(float);
  plan.activation_bytes += scratch_bytes(*params, limits, backend);
  return plan;
}

Result<std::unique_ptr<Model>> Model::load(const GgufFile& file, Backend& backend,
                                           const ModelLimits& limits, const Progress& progress) {
  auto loaded = Transformer::load(file, backend, limits, progress);
  if (!loaded) return loaded.error();
  return std::unique_ptr<Model>(std::move(*loaded));
}

Result<std::unique_ptr<Transformer>> Transformer::load(const GgufFile& file, Backend& backend,
                                                       const ModelLimits& limits,
                                                       const Progress& progress) {
  auto plan = Model::plan(file, backend, limits);
  if (!plan) return plan.error();
  auto params = HyperParams::read(file, limits.max_context);
  if (!params) return params.error();
  auto model = std::unique_ptr<Transformer>(new Transformer(std::move(*params), limits, backend));
  const HyperParams& p = model->params_;
  model->plan_ = *plan;
  MemoryPlan& allocated = model->allocated_;

  auto slots = weight_slots(file, p, model->weights_);
  if (!slots) return slots.error();
  if (Status status = load_weights(file, *slots, backend, progress, allocated.weight_bytes);
      !status) {
    return status.error();
  }

  auto kv = backend.kv_cache(kv_shape(p, limits));
  if (!kv) return kv.error();
  model->kv_ = std::move(*kv);
  allocated.kv_bytes = model->kv_->bytes;
  allocated.page_bytes = plan->page_bytes;
  allocated.layout = plan->layout;
  model->lists_.resize(static_cast<size_t>(plan->layout.tables()) + 1);

  for (const ActivationBuffer& buffer : activation_buffers(p, limits)) {
    if (buffer.count == 0) continue;
    auto memory = backend.allocate(buffer.count);
    if (!memory) return memory.error();
    model->activations_.*buffer.place = *memory;
    allocated.activation_bytes += static_cast<size_t>(buffer.count) * sizeof(float);
  }
  if (Status status = model->build_layers(backend); !status) return status.error();
  try {
    model->host_logits_.resize(host_logit_count(p, limits, backend));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory,
                 "no memory for " + std::to_string(limits.max_logit_rows) + " rows of logits"};
  }
  allocated.activation_bytes += model->host_logits_.size() * sizeof(float);
  model->last_segments_.reserve(static_cast<size_t>(limits.max_batch_tokens));

  if (Status s = backend.reserve(limits.max_batch_tokens, widest_row(p), limits.max_context,
                                 p.head_dim, mixture_shape(p));
      !s) {
    return s.error();
  }
  allocated.activation_bytes += scratch_bytes(p, limits, backend);
  return model;
}

// Weights, cache and activations are there.
Status Transformer::build_layers(Backend& backend) {
  const std::vector<KvPlace> places = kv_places(params_, plan_.layout);
  for (int i = 0; i < params_.n_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const LayerParams& layer = params_.layers[at];
    const LayerWeights& weights = weights_.layers[at];
    last_to_keep_ = parts_.size();
    last_table_ = static_cast<size_t>(places[at].table);
    parts_.push_back({std::make_unique<Attention>(params_, layer, weights.attention, backend, activations_, i, places[at].table, *kv_), i, false});
    if (layer.mixture) {
      auto experts = std::make_unique<ExpertMixture>(params_, weights, backend, activations_);
      if (Status status = backend.can_mix(experts->mixture()); !status) return status;
      parts_.push_back({std::move(experts), i, true});
    } else {
      parts_.push_back({std::make_unique<GatedNetwork>(params_, weights, backend, activations_), i, true});
    }
  }
  return {};
}

const float* Transformer::forward(const Batch& batch) {
  const int n_rows = static_cast<int>(batch.tokens.size());
  const int n_logits = static_cast<int>(batch.logit_rows.size());
  assert(n_rows >= 1 && n_rows <= limits_.max_batch_tokens);
  assert(n_logits <= limits_.max_logit_rows && n_logits <= n_rows);
  assert(batch.segments.size() % static_cast<size_t>(plan_.layout.tables()) == 0);
  assert(
      std::ranges::all_of(batch.tokens, [&](int32_t t) { return t >= 0 && t < params_.n_vocab; }));

  const size_t n_segments = batch.segments.size() / (lists_.size() - 1);
  for (size_t table = 0; table + 1 < lists_.size(); ++table)
    lists_[table] = batch.segments.subspan(table * n_segments, n_segments);
  note_logit_segments(batch);
  lists_.back() = last_segments_;
  const StepInput step{.model = this,
                       .tokens = batch.tokens,
                       .logit_rows = batch.logit_rows,
                       .segment_lists = lists_,
                       .max_rows = std::min(limits_.max_batch_tokens, limits_.max_logit_rows),
                       .recordable = observed_ == nullptr};
  if (!backend_.begin_step(step)) compute(batch);
  backend_.end_step();
  if (batch.leaves_logits || backend_.is_host_memory()) return activations_.logits;
  const int64_t count = int64_t{n_logits} * params_.n_vocab;
  // Only who looks into a model that samples for itself finds too little.
  if (host_logits_.size() < static_cast<size_t>(count)) host_logits_.resize(static_cast<size_t>(count));
  if (count > 0) backend_.read_floats(host_logits_.data(), activations_.logits, count);
  return host_logits_.data();
}

void Transformer::compute(const Batch& batch) {
  const int n_rows = static_cast<int>(batch.tokens.size());
  float* const x = activations_.x;
  backend_.embed(*weights_.embedding, batch.tokens.data(), n_rows, x);
  if (params_.embedding_scale != 1.0f)
    backend_.scale(x, int64_t{n_rows} * params_.n_embd, params_.embedding_scale);
  StepRows rows{.tables = std::span(lists_).first(lists_.size() - 1),
                .logit_rows = batch.logit_rows,
                .logit_segments = last_segments_,
                .x = x,
                .count = n_rows};
  for (size_t i = 0; i < parts_.size() && rows.count > 0; ++i) {
    parts_[i].part->run(rows, i == last_to_keep_);
    if (parts_[i].ends_layer && !batch.logit_rows.empty())
      note(rows.x, rows.all ? batch.logit_rows.back() : rows.count - 1, parts_[i].layer);
  }
  if (rows.count == 0) return;
  backend_.rms_norm(rows.x, weights_.output_norm, params_.rms_eps, rows.count, params_.n_embd,
                    activations_.normed);
  note(activations_.normed, rows.count - 1, params_.n_layers);
  write_logits(rows.count);
}

// The rows with logits, each as a segment of one token with the pages of the last part that keeps something; none when
// every row has logits (a step of decodes).
void Transformer::note_logit_segments(const Batch& batch) {
  last_segments_.clear();
  if (batch.logit_rows.size() == batch.tokens.size()) return;
  const std::span<const Segment> segments = lists_[last_table_];
  size_t s = 0;
  for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
    const int row = batch.logit_rows[i];
    while (row >= segments[s].first_row + segments[s].n_tokens) ++s;
    const Segment& from = segments[s];
    last_segments_.push_back(
        {static_cast<int>(i), 1, from.first_position + row - from.first_row, from.pages});
  }
}

void Transformer::write_logits(int n_rows) {
  const Matrix& output = params_.tied_output ? *weights_.embedding : *weights_.output;
  float* const logits = activations_.logits;
  const MatmulTarget target{&output, logits, params_.n_vocab};
  backend_.matmul({&target, 1}, activations_.normed, n_rows, InputUse::kLast);
  const int64_t count = int64_t{n_rows} * params_.n_vocab;
  if (params_.logit_scale != 1.0f) backend_.scale(logits, count, params_.logit_scale);
  if (params_.logit_soft_cap > 0) backend_.soft_cap(logits, count, params_.logit_soft_cap);
}

Status Transformer::observe() {
  if (observed_ != nullptr) return {};
  auto memory = backend_.allocate(int64_t{params_.n_layers + 1} * params_.n_embd);
  if (!memory) return memory.error();
  observed_ = *memory;
  return {};
}

std::vector<float> Transformer::observed() {
  assert(observed_ != nullptr);
  std::vector<float> values(static_cast<size_t>(params_.n_layers + 1) *
                            static_cast<size_t>(params_.n_embd));
  backend_.read_floats(values.data(), observed_, static_cast<int64_t>(values.size()));
  return values;
}

void Transformer::note(const float* x, int row, int index) {
  if (observed_ == nullptr) return;
  const int32_t wanted = row;
  backend_.gather_rows(x, &wanted, 1, params_.n_embd, observed_ + int64_t{index} * params_.n_embd);
}

}  // namespace monolith
