#include "model/transformer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>
#include <string>

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
  return {kv_layout(params, limits.pages_by_window).layers_per_page, params.n_kv_heads,
          params.head_dim, limits.n_pages, limits.kv_type};
}

int64_t q_dim(const HyperParams& p) { return int64_t{p.n_heads} * p.head_dim; }
int64_t kv_dim(const HyperParams& p) { return int64_t{p.n_kv_heads} * p.head_dim; }

// Values inside the widest feed-forward network that all rows pass; 0: there is none.
int64_t dense_ff(const HyperParams& p) {
  const auto mixture = [](const LayerParams& layer) { return layer.mixture; };
  return std::max(std::ranges::all_of(p.layers, mixture) ? 0 : p.n_ff, p.experts.n_ff_shared);
}

MixtureShape mixture_shape(const HyperParams& p) {
  const ExpertParams& experts = p.experts;
  if (experts.count == 0) return {};
  return {experts.count, experts.used, p.n_embd, experts.n_ff};
}

}  // namespace

std::vector<Transformer::Buffer> Transformer::buffers(const HyperParams& p,
                                                      const ModelLimits& limits) {
  const int64_t rows = limits.max_batch_tokens;
  const int64_t logit_rows = std::min(limits.max_logit_rows, limits.max_batch_tokens);
  return {
      {&Transformer::x_, rows * p.n_embd},
      {&Transformer::normed_, rows * p.n_embd},
      {&Transformer::q_, rows * q_dim(p)},
      {&Transformer::k_, rows * kv_dim(p)},
      {&Transformer::v_, rows * kv_dim(p)},
      {&Transformer::attended_, rows * q_dim(p)},
      {&Transformer::branch_, p.post_norm || p.residual_scale != 1.0f ? rows * p.n_embd : 0},
      {&Transformer::gate_, rows * dense_ff(p)},
      {&Transformer::up_, rows * dense_ff(p)},
      {&Transformer::router_, rows * p.experts.count},
      {&Transformer::shared_, p.experts.shared_gate ? rows * p.n_embd : 0},
      {&Transformer::shared_gate_, p.experts.shared_gate ? rows : 0},
      {&Transformer::last_q_, logit_rows * q_dim(p)},
      {&Transformer::last_x_, logit_rows * p.n_embd},
      {&Transformer::logits_, logit_rows * p.n_vocab},
  };
}

// Host copies of the logits count as activations: one more buffer like logits_, where that is not the host's and the
// backend does not choose tokens itself.
static size_t host_logit_count(const HyperParams& params, const ModelLimits& limits,
                               const Backend& backend) {
  if (backend.is_host_memory() || backend.can_sample(params.n_vocab)) return 0;
  return static_cast<size_t>(std::min(limits.max_logit_rows, limits.max_batch_tokens)) *
         static_cast<size_t>(params.n_vocab);
}

// Values of the longest row any operation takes.
static int64_t widest_row(const HyperParams& p) {
  return std::max({int64_t{p.n_embd}, q_dim(p), dense_ff(p)});
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
  for (const Transformer::Buffer& buffer : Transformer::buffers(*params, limits)) {
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
  for (const LayerWeights& layer : model->weights_.layers) {
    if (!layer.expert_gate) continue;
    if (Status status = backend.can_mix(model->mixture_of(layer)); !status) return status.error();
  }

  auto kv = backend.kv_cache(kv_shape(p, limits));
  if (!kv) return kv.error();
  model->kv_ = std::move(*kv);
  allocated.kv_bytes = model->kv_->bytes;
  allocated.page_bytes = plan->page_bytes;
  allocated.layout = plan->layout;
  model->places_ = kv_places(p, plan->layout);
  model->lists_.resize(static_cast<size_t>(plan->layout.tables()) + 1);

  for (const Buffer& buffer : buffers(p, limits)) {
    if (buffer.count == 0) continue;
    auto memory = backend.allocate(buffer.count);
    if (!memory) return memory.error();
    (*model).*buffer.place = *memory;
    allocated.activation_bytes += static_cast<size_t>(buffer.count) * sizeof(float);
  }
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
  if (batch.leaves_logits || backend_.is_host_memory()) return logits_;
  const int64_t count = int64_t{n_logits} * params_.n_vocab;
  // Only who looks into a model that samples for itself finds too little.
  if (host_logits_.size() < static_cast<size_t>(count)) host_logits_.resize(static_cast<size_t>(count));
  if (count > 0) backend_.read_floats(host_logits_.data(), logits_, count);
  return host_logits_.data();
}

void Transformer::compute(const Batch& batch) {
  const int n_rows = static_cast<int>(batch.tokens.size());
  const int n_logits = static_cast<int>(batch.logit_rows.size());
  backend_.embed(*weights_.embedding, batch.tokens.data(), n_rows, x_);
  if (params_.embedding_scale != 1.0f)
    backend_.scale(x_, int64_t{n_rows} * params_.n_embd, params_.embedding_scale);
  Rows rows{{}, q_, x_, n_rows};
  for (int i = 0; i < params_.n_layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(i)];
    project_qkv(layer, n_rows);
    store(i);
    // The last layer's keys and values serve later tokens; everything after them serves only the
    // logits.
    rows.segments = segments_of(i);
    if (i == params_.n_layers - 1) rows = keep_logit_rows(batch);
    if (rows.count == 0) break;
    attend(layer, i, rows);
    feed_forward(layer, i, rows);
    if (n_logits > 0)
      note(rows.x, rows.count == n_rows ? batch.logit_rows.back() : n_logits - 1, i);
  }
  if (rows.count > 0) {
    backend_.rms_norm(rows.x, weights_.output_norm, params_.rms_eps, rows.count, params_.n_embd,
                      normed_);
    note(normed_, rows.count - 1, params_.n_layers);
    write_logits(rows.count);
  }
}

const float* Transformer::normed(const float* x, const float* weight, int n_rows) {
  if (!params_.pre_norm) return x;
  backend_.rms_norm(x, weight, params_.rms_eps, n_rows, params_.n_embd, normed_);
  return normed_;
}

void Transformer::project_qkv(const LayerWeights& layer, int n_rows) {
  const float* const x = normed(x_, layer.attention_norm, n_rows);
  const MatmulTarget targets[] = {
      {layer.q.get(), q_, q_dim(params_), layer.q_bias},
      {layer.k.get(), k_, kv_dim(params_), layer.k_bias},
      {layer.v.get(), v_, kv_dim(params_), layer.v_bias},
  };
  backend_.matmul(targets, x, n_rows, last_use());
  if (params_.qk_norm == QkNorm::kEachHead) {
    backend_.rms_norm_heads(q_, q_dim(params_), layer.q_norm, params_.rms_eps, n_rows,
                            params_.n_heads, params_.head_dim);
    backend_.rms_norm_heads(k_, kv_dim(params_), layer.k_norm, params_.rms_eps, n_rows,
                            params_.n_kv_heads, params_.head_dim);
  } else if (params_.qk_norm == QkNorm::kWholeRow) {
    backend_.rms_norm(q_, layer.q_norm, params_.rms_eps, n_rows, q_dim(params_), q_);
    backend_.rms_norm(k_, layer.k_norm, params_.rms_eps, n_rows, kv_dim(params_), k_);
  }
}

std::span<const Segment> Transformer::segments_of(int index) const {
  return lists_[static_cast<size_t>(places_[static_cast<size_t>(index)].table)];
}

// Rotates queries and keys, and stores keys and values.
void Transformer::store(int index) {
  const int set = params_.layers[static_cast<size_t>(index)].rope;
  RopeParams rope{params_.rope_style, 0, nullptr, 1.0f};
  if (set >= 0) {
    const RopeSet& angles = params_.ropes[static_cast<size_t>(set)];
    rope = {params_.rope_style, params_.rope_dims, angles.inverse_frequency.data(),
            angles.magnitude};
  }
  backend_.rope_and_store(rope, segments_of(index), q_, q_dim(params_), params_.n_heads, k_,
                          kv_dim(params_), v_, kv_dim(params_),
                          places_[static_cast<size_t>(index)].slot, *kv_);
}

// The rows with logits, each as a segment of one token with the last layer's pages; none when every
// row has logits (a step of decodes).
void Transformer::note_logit_segments(const Batch& batch) {
  last_segments_.clear();
  if (batch.logit_rows.size() == batch.tokens.size()) return;
  const std::span<const Segment> segments = segments_of(params_.n_layers - 1);
  size_t s = 0;
  for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
    const int row = batch.logit_rows[i];
    while (row >= segments[s].first_row + segments[s].n_tokens) ++s;
    const Segment& from = segments[s];
    last_segments_.push_back(
        {static_cast<int>(i), 1, from.first_position + row - from.first_row, from.pages});
  }
}

// Gathers the rows with logits. When every row has them nothing is copied.
Transformer::Rows Transformer::keep_logit_rows(const Batch& batch) {
  const int n = static_cast<int>(batch.logit_rows.size());
  if (n == static_cast<int>(batch.tokens.size())) return {segments_of(params_.n_layers - 1), q_, x_, n};
  if (n > 0) {
    backend_.gather_rows(q_, batch.logit_rows.data(), n, q_dim(params_), last_q_);
    backend_.gather_rows(x_, batch.logit_rows.data(), n, params_.n_embd, last_x_);
  }
  return {last_segments_, last_q_, last_x_, n};
}

void Transformer::attend(const LayerWeights& layer, int index, const Rows& rows) {
  const LayerParams& own = params_.layers[static_cast<size_t>(index)];
  backend_.attention(rows.segments, rows.q, q_dim(params_), params_.n_heads,
                     places_[static_cast<size_t>(index)].slot, *kv_,
                     {.scale = params_.attention_scale,
                      .window = own.window,
                      .soft_cap = params_.attention_soft_cap,
                      .sinks = layer.sinks},
                     attended_, q_dim(params_));
  const bool direct = adds_directly();
  const MatmulTarget target{layer.attention_output.get(), direct ? rows.x : branch_,
                            params_.n_embd, layer.attention_output_bias, direct};
  backend_.matmul({&target, 1}, attended_, rows.count, InputUse::kLast);
  if (!direct) add_branch(layer.attention_post_norm, rows);
}

void Transformer::feed_forward(const LayerWeights& layer, int index, const Rows& rows) {
  const float* const x = normed(rows.x, layer.ffn_norm, rows.count);
  const bool direct = adds_directly();
  float* const out = direct ? rows.x : branch_;
  if (params_.layers[static_cast<size_t>(index)].mixture) {
    mix_experts(layer, x, rows.count, out, direct);
  } else {
    gated_network(layer, params_.n_ff, x, rows.count, out, direct, last_use());
  }
  if (!direct) add_branch(layer.ffn_post_norm, rows);
}

void Transformer::add_branch(const float* post_norm, const Rows& rows) {
  if (params_.post_norm)
    backend_.rms_norm(branch_, post_norm, params_.rms_eps, rows.count, params_.n_embd, branch_);
  backend_.add_rows(rows.x, branch_, params_.residual_scale, nullptr, rows.count, params_.n_embd);
}

void Transformer::gated_network(const LayerWeights& layer, int64_t n_ff, const float* x, int n_rows,
                                float* out, bool add, InputUse use) {
  const MatmulTarget gate_and_up[] = {
      {layer.gate.get(), gate_, n_ff, layer.gate_bias},
      {layer.up.get(), up_, n_ff, layer.up_bias},
  };
  backend_.matmul(gate_and_up, x, n_rows, use);
  backend_.gated(params_.activation, gate_, up_, n_rows, n_ff, gate_);
  const MatmulTarget target{layer.down.get(), out, params_.n_embd, layer.down_bias, add};
  backend_.matmul({&target, 1}, gate_, n_rows, InputUse::kLast);
}

Mixture Transformer::mixture_of(const LayerWeights& layer) const {
  Router router = params_.experts.router;
  router.bias = layer.choice_bias;
  return {.shape = mixture_shape(params_),
          .gate = layer.expert_gate.get(),
          .up = layer.expert_up.get(),
          .down = layer.expert_down.get(),
          .gate_bias = layer.expert_gate_bias,
          .up_bias = layer.expert_up_bias,
          .down_bias = layer.expert_down_bias,
          .activation = params_.activation,
          .router = router};
}

void Transformer::mix_experts(const LayerWeights& layer, const float* x, int n_rows, float* out,
                              bool add) {
  const ExpertParams& experts = params_.experts;
  const MatmulTarget routing[] = {{layer.router.get(), router_, experts.count, layer.router_bias},
                                  {layer.shared_gate.get(), shared_gate_, 1}};
  backend_.matmul({routing, experts.shared_gate ? size_t{2} : size_t{1}}, x, n_rows);
  if (experts.shared_gate)
    gated_network(layer, experts.n_ff_shared, x, n_rows, shared_, false, InputUse::kAgain);
  backend_.mixture(mixture_of(layer), router_, x, n_rows, out, add);
  if (experts.shared_gate) {
    backend_.add_rows(out, shared_, 1.0f, shared_gate_, n_rows, params_.n_embd);
  } else if (experts.n_ff_shared > 0) {
    gated_network(layer, experts.n_ff_shared, x, n_rows, out, true, last_use());
  }
}

void Transformer::write_logits(int n_rows) {
  const Matrix& output = params_.tied_output ? *weights_.embedding : *weights_.output;
  const MatmulTarget target{&output, logits_, params_.n_vocab};
  backend_.matmul({&target, 1}, normed_, n_rows, InputUse::kLast);
  const int64_t count = int64_t{n_rows} * params_.n_vocab;
  if (params_.logit_scale != 1.0f) backend_.scale(logits_, count, params_.logit_scale);
  if (params_.logit_soft_cap > 0) backend_.soft_cap(logits_, count, params_.logit_soft_cap);
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
