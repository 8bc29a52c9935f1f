#include "model/transformer.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <new>
#include <string>

#include "model/eagle_head.h"
#include "model/layers/make_layer.h"
#include "model/layers/per_layer_input.h"
#include "model/layers/streams.h"
#include "model/mtp_layers.h"
#include "model/recurrent_state.h"

namespace monolith {
namespace {

constexpr int kMaxBatchTokens = 1 << 16;
// Initial size of the host buffer for draft logits, in sequences. The buffer grows if there are more sequences.
constexpr int kDraftedPerStep = 32;
constexpr int64_t kMaxPages = int64_t{1} << 31;  // Page numbers have 32 bits.
constexpr size_t kMaxKvBytes = size_t{1} << 46;  // Keeps all sums in a memory plan far from overflow.

// Time limits for moving the weights to huge pages, which happens in the background. If the weights are already in huge
// pages, this takes milliseconds. If the weights fill most of the memory, few pages can be converted and each failure
// takes milliseconds of a core, so the limit is shorter: with a 30B MoE model, 13 to 316 pages were converted in up to
// 20 s, while thousands failed.
constexpr std::chrono::seconds kCollapseTime(60), kCollapseTimeIfCrowded(10);

Status check_limits(const ModelLimits& limits) {
  const auto in_range = [](const char* name, int64_t value, int64_t high) -> Status {
    if (value >= 1 && value <= high) return {};
    return Error{ErrorCode::kInvalidArgument,
                 std::string(name) + " is " + std::to_string(value) + ", expected 1 to " + std::to_string(high)};
  };
  if (Status s = in_range("max_batch_tokens", limits.max_batch_tokens, kMaxBatchTokens); !s) return s;
  if (Status s = in_range("max_logit_rows", limits.max_logit_rows, kMaxBatchTokens); !s) return s;
  if (Status s = in_range("max_context", limits.max_context, 1 << 27); !s) return s;
  if (Status s = in_range("n_slots", limits.n_slots, 1 << 20); !s) return s;
  return in_range("n_pages", limits.n_pages, kMaxPages - 1);
}

KvShape kv_shape(const HyperParams& params, const KvLayout& layout, const ModelLimits& limits) {
  return kv_shape(params, layout, limits.n_pages, limits.kv_type);
}

Result<HyperParams> read_params(const GgufFile& file, const ModelLimits& limits, const GgufFile* head) {
  auto params = HyperParams::read(file, limits.max_context, limits.mtp_layer && head == nullptr);
  if (!params || head == nullptr) return params;
  if (Status status = add_eagle_head(*head, limits.max_context, *params); !status) return status.error();
  return params;
}

// Checks the token IDs of an EAGLE-3 head; each ID may occur only once. In folders, and in GGUF files from an early
// converter, d2t instead stores the distance of each ID from its row; distances may repeat.
Status read_tokens(const GgufFile& head, const HyperParams& params, EagleWeights& weights) {
  const auto distances = head.boolean(params.draft.eagle->own.architecture_name + ".token_distances");
  if (!distances) return distances.error();
  std::vector<bool> named(static_cast<size_t>(params.n_vocab));
  for (size_t i = 0; i < weights.tokens.size(); ++i) {
    int32_t& token = weights.tokens[i];
    if (distances->value_or(false)) token += static_cast<int32_t>(i);
    if (token >= params.n_vocab)
      return Error{ErrorCode::kInvalidFile,
                   "tensor 'd2t' contains token " + std::to_string(token) + " of " + std::to_string(params.n_vocab)};
    if (named[static_cast<size_t>(token)])
      return Error{ErrorCode::kInvalidFile, "tensor 'd2t' contains token " + std::to_string(token) + " twice"};
    named[static_cast<size_t>(token)] = true;
  }
  return {};
}

// Whether a step's operations use token indices only to select the tokens whose logits are requested. A step that uses
// token indices for anything else cannot be captured as a CUDA graph.
bool names_no_rows(const HyperParams& params) {
  return params.stream_mix.n_streams == 0 && params.n_positions == 0 &&
         std::ranges::none_of(params.layers, &LayerParams::experts_by_token);
}

// Keeps only the slots for weights of MTP layers.
std::vector<WeightSlot> draft_slots(std::vector<WeightSlot> slots, const HyperParams& params) {
  std::erase_if(slots, [&](const WeightSlot& slot) {
    for (int i = 0; i < params.draft.n_levels; ++i)
      if (slot.name.starts_with("blk." + std::to_string(params.n_layers + i) + ".")) return false;
    return true;
  });
  return slots;
}

}  // namespace

// Number of floats in the host copy of the logits, which counts as activations. A copy is needed if the logits are not
// in host memory and the backend does not sample. If the backend samples, only draft logits are copied, because draft
// tokens are sampled on the host.
static size_t host_logit_count(const HyperParams& params, const ModelLimits& limits, const Backend& backend) {
  if (backend.is_host_memory()) return 0;
  int rows = std::min(limits.max_logit_rows, limits.max_batch_tokens);
  if (backend.can_sample(params.n_vocab)) rows = params.draft.used ? std::min(rows, kDraftedPerStep) : 0;
  return static_cast<size_t>(rows) * static_cast<size_t>(params.n_vocab);
}

// Returns the size of the host copy of the hidden states, in floats. 0 if the model has no pooling, or if the backend
// computes in host memory.
static size_t host_state_count(const HyperParams& params, const ModelLimits& limits, const Backend& backend) {
  if (backend.is_host_memory() || params.pooling == Pooling::kNone) return 0;
  return static_cast<size_t>(limits.max_batch_tokens) * static_cast<size_t>(params.n_embd);
}

static size_t scratch_bytes(const HyperParams& p, const ModelLimits& limits, const Backend& backend) {
  return backend.scratch_bytes(limits.max_batch_tokens, widest_row(p), limits.max_context, most_head_dim(p),
                               mixture_shape(p)) +
         backend.head_scratch_bytes(limits.max_batch_tokens, head_product_shape(p));
}

Result<MemoryPlan> Model::plan(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                               const GgufFile* head) {
  if (Status status = check_limits(limits); !status) return status.error();
  if (Status status = backend.supports(limits.kv_type); !status) return status.error();
  auto params = read_params(file, limits, head);
  if (!params) return params.error();
  if (params->n_positions > 0 && limits.max_context > params->n_positions)
    return Error{ErrorCode::kInvalidArgument, "max_context is " + std::to_string(limits.max_context) +
                                                  ", but the model has learned position embeddings for only " +
                                                  std::to_string(params->n_positions) + " positions"};
  if (params->max_alibi_bias > 0) {
    if (Status status = backend.supports(AlibiBias()); !status) return status.error();
  }
  Weights none;
  auto slots = weight_slots(file, *params, none);
  if (!slots) return slots.error();
  if (Status status = fit_types(*slots, backend); !status) return status.error();
  std::vector<WeightSlot> of_head;
  if (params->draft.eagle) {
    auto found = eagle_slots(*head, *params, none);
    if (!found) return found.error();
    of_head = std::move(*found);
    if (Status status = fit_types(of_head, backend); !status) return status.error();
  }

  MemoryPlan plan{};
  plan.layout = kv_layout(*params, limits.pages_by_window, backend.supports(MemoryFeature::kSharedPageSlots).ok());
  KvShape shape = kv_shape(*params, plan.layout, limits);
  if (Status status = backend.supports(shape); !status) return status.error();
  // The cost of a page is determined as the cost of one more page, because a backend may allocate extra pages for
  // itself.
  shape.n_pages = 1;
  const size_t of_one = backend.kv_cache_bytes(shape);
  shape.n_pages = 2;
  const size_t of_two = backend.kv_cache_bytes(shape);
  plan.page_bytes = of_two == SIZE_MAX ? of_two : of_two - of_one;
  if (plan.page_bytes > kMaxKvBytes / static_cast<size_t>(limits.n_pages)) {
    return Error{ErrorCode::kInvalidArgument, "n_pages is " + std::to_string(limits.n_pages) +
                                                  ", which is out of range with " + std::to_string(plan.page_bytes) +
                                                  " bytes per page"};
  }
  plan.kv_bytes = backend.kv_cache_bytes(kv_shape(*params, plan.layout, limits));
  // On a device, the KV cache is allocated in full during loading; in host memory, pages are allocated on first use.
  plan.kv_start_bytes = backend.free_memory() > 0 ? plan.kv_bytes : 0;
  if (const int64_t floats = recurrent_places(*params).back(); floats > 0) {
    if (Status status = can_carry_on(*params, backend); !status) return status.error();
    plan.slot_bytes = static_cast<size_t>(floats) * sizeof(float);
    plan.slots_bytes = plan.slot_bytes * static_cast<size_t>(limits.n_slots);
    if (plan.slots_bytes / plan.slot_bytes != static_cast<size_t>(limits.n_slots) || plan.slots_bytes > kMaxKvBytes)
      return Error{ErrorCode::kInvalidArgument, "n_slots is " + std::to_string(limits.n_slots) +
                                                    ", which is out of range with " + std::to_string(plan.slot_bytes) +
                                                    " bytes per slot"};
  }
  plan.weight_bytes = monolith::weight_bytes(*slots, backend);
  plan.overhead_bytes = backend.overhead_bytes(params->n_layers) + weight_memory(*slots, backend) - plan.weight_bytes;
  if (params->draft.eagle) {
    plan.draft_weight_bytes = monolith::weight_bytes(of_head, backend);
    plan.weight_bytes += plan.draft_weight_bytes;
    plan.overhead_bytes += weight_memory(of_head, backend) - plan.draft_weight_bytes;
  } else if (params->draft.used) {
    plan.draft_weight_bytes = monolith::weight_bytes(draft_slots(std::move(*slots), *params), backend);
  }
  for (const ActivationBuffer& buffer : activation_buffers(*params, limits)) {
    const size_t bytes = static_cast<size_t>(buffer.count) * sizeof(float);
    plan.activation_bytes += bytes;
    plan.overhead_bytes += backend.memory_of(bytes) - bytes;
  }
  plan.activation_bytes +=
      (host_logit_count(*params, limits, backend) + host_state_count(*params, limits, backend)) * sizeof(float);
  plan.activation_bytes += scratch_bytes(*params, limits, backend);
  return plan;
}

Result<std::unique_ptr<Model>> Model::load(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                           const Progress& progress, const GgufFile* head) {
  auto loaded = Transformer::load(file, backend, limits, progress, head);
  if (!loaded) return loaded.error();
  return std::unique_ptr<Model>(std::move(*loaded));
}

Result<std::unique_ptr<Transformer>> Transformer::load(const GgufFile& file, Backend& backend,
                                                       const ModelLimits& limits, const Progress& progress,
                                                       const GgufFile* head) {
  auto plan = Model::plan(file, backend, limits, head);
  if (!plan) return plan.error();
  auto params = read_params(file, limits, head);
  if (!params) return params.error();
  auto model = std::unique_ptr<Transformer>(new Transformer(std::move(*params), limits, backend));
  const HyperParams& p = model->params_;
  model->plan_ = *plan;
  MemoryPlan& allocated = model->allocated_;

  auto slots = weight_slots(file, p, model->weights_);
  if (!slots) return slots.error();
  if (Status status = fit_types(*slots, backend); !status) return status.error();
  if (Status status = load_weights(file, *slots, backend, progress, allocated.weight_bytes); !status) {
    return status.error();
  }
  model->adaptable_ = monolith::adaptable_weights(*slots, p);
  model->note_matrices(*slots);
  model->crowded_ = !file.fits_beside(allocated.weight_bytes);
  if (p.draft.eagle) {
    auto of_head = eagle_slots(*head, p, model->weights_);
    if (!of_head) return of_head.error();
    if (Status status = fit_types(*of_head, backend); !status) return status.error();
    if (Status status = load_weights(*head, *of_head, backend, {}, allocated.weight_bytes); !status)
      return status.error();
    model->note_matrices(*of_head);
    if (Status status = read_tokens(*head, p, model->weights_.eagle); !status) return status.error();
  }

  auto kv = backend.kv_cache(kv_shape(p, plan->layout, limits));
  if (!kv) return kv.error();
  model->kv_ = std::move(*kv);
  allocated.kv_bytes = model->kv_->bytes;
  allocated.kv_start_bytes = model->kv_->bytes_of_first(0);
  allocated.page_bytes = plan->page_bytes;
  allocated.layout = plan->layout;
  model->n_tables_ = static_cast<size_t>(plan->layout.tables());

  if (plan->slot_bytes > 0) {
    auto memory = backend.allocate(static_cast<int64_t>(plan->slots_bytes / sizeof(float)));
    if (!memory) return memory.error();
    const auto of_slot = static_cast<int64_t>(plan->slot_bytes / sizeof(float));
    model->slots_ = {*memory, of_slot};
    // Zeros are written to the slots here, so that loading fails if the machine does not have enough memory for them.
    const std::vector<float> zeros(static_cast<size_t>(of_slot));
    for (int32_t slot = 0; slot < limits.n_slots; ++slot)
      backend.write_floats(model->slots_.of(slot), zeros.data(), of_slot);
    allocated.slot_bytes = plan->slot_bytes;
    allocated.slots_bytes = plan->slots_bytes;
  }
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
                 "out of memory for " + std::to_string(limits.max_logit_rows) + " rows of logits"};
  }
  allocated.activation_bytes += model->host_logits_.size() * sizeof(float);
  auto pooling_head = PoolingHead::load(file, {p.pooling, p.n_embd, p.norm_eps, true});
  if (!pooling_head) return pooling_head.error();
  model->pooling_head_ = std::move(*pooling_head);
  model->host_states_.resize(host_state_count(p, limits, backend));
  allocated.activation_bytes += model->host_states_.size() * sizeof(float);

  if (Status s = backend.reserve(limits.max_batch_tokens, widest_row(p), limits.max_context, most_head_dim(p),
                                 mixture_shape(p));
      !s) {
    return s.error();
  }
  if (Status s = backend.reserve_heads(limits.max_batch_tokens, head_product_shape(p)); !s) return s.error();
  allocated.activation_bytes += scratch_bytes(p, limits, backend);
  return model;
}

// Builds the blocks. The weights, KV cache and activations must already exist.
Status Transformer::build_layers(Backend& backend) {
  const std::vector<KvPlace> places = kv_places(params_, plan_.layout);
  const std::vector<int64_t> in_slot = recurrent_places(params_);
  std::vector<MtpLayer::Parts> levels;
  const size_t n_stored = params_.n_loops > 1 ? static_cast<size_t>(params_.stored_layers()) : params_.layers.size();
  for (int i = 0; i < static_cast<int>(params_.layers.size()); ++i) {
    const auto at = static_cast<size_t>(i);
    const LayerParams& layer = params_.layers[at];
    const int kv_layer = layer.kv_of < 0 ? i : layer.kv_of;
    const int table = places[static_cast<size_t>(kv_layer)].table;
    const bool is_own = i < params_.n_layers;
    const EagleParams* const eagle = i == params_.n_layers ? params_.draft.eagle.get() : nullptr;
    auto made = make_layer({.params = eagle ? eagle->own : params_,
                            .layer = eagle ? eagle->own.layers[0] : layer,
                            .weights = eagle ? weights_.eagle.layer : weights_.layers[at % n_stored],
                            .operations = is_own ? static_cast<Operations&>(adapted_) : backend,
                            .activations = activations_,
                            .cache = *kv_,
                            .index = i,
                            .kv_layer = kv_layer,
                            .table = std::max(table, 0),
                            .max_rows = limits_.max_batch_tokens,
                            .slots = slots_.from(in_slot[at])},
                           backend);
    if (!made) return made.error();
    if (eagle) {
      draft_layer_ = std::make_unique<EagleHead>(params_, limits_, weights_, backend, activations_, std::move(*made));
      break;
    }
    if (i >= params_.n_layers) {
      levels.push_back(std::move(*made));
      continue;
    }
    for (std::unique_ptr<LayerBlock>& part : *made) {
      if (part->keeps()) {
        last_to_keep_ = parts_.size();
        logit_tables_.clear();
      }
      const auto read = static_cast<size_t>(std::max(table, 0));
      if (part->mixes() && std::ranges::find(logit_tables_, read) == logit_tables_.end()) logit_tables_.push_back(read);
      parts_.push_back({std::move(part), i, false});
    }
    if (!made->empty()) parts_.back().ends_layer = true;
  }
  if (!levels.empty())
    draft_layer_ = std::make_unique<MtpLayers>(params_, limits_, weights_, backend, activations_, std::move(levels));
  for (int i = 0; i < limits_.max_batch_tokens * params_.stream_mix.n_streams; ++i)
    repeated_.push_back(i / params_.stream_mix.n_streams);
  if (params_.n_positions > 0) positions_.reserve(static_cast<size_t>(limits_.max_batch_tokens));
  lists_.resize(n_tables_ + logit_tables_.size());
  logit_lists_.resize(n_tables_);
  last_segments_.resize(logit_tables_.size());
  for (std::vector<Segment>& segments : last_segments_) segments.reserve(static_cast<size_t>(limits_.max_batch_tokens));
  return {};
}

void Transformer::note_matrices(const std::vector<WeightSlot>& slots) {
  for (const WeightSlot& slot : slots)
    if (slot.matrix != nullptr) matrices_.push_back(slot.matrix->get());
}

size_t Transformer::collapse_huge_pages(const Stopped& stopped) {
  const auto until = std::chrono::steady_clock::now() + (crowded_ ? kCollapseTimeIfCrowded : kCollapseTime);
  return monolith::collapse_huge_pages(matrices_, backend_,
                                       [&] { return stopped() || std::chrono::steady_clock::now() >= until; });
}

const float* Transformer::forward(const Batch& batch) {
  const int n_rows = static_cast<int>(batch.tokens.size());
  const int n_logits = static_cast<int>(batch.logit_rows.size());
  assert(n_rows >= 1 && n_rows <= limits_.max_batch_tokens);
  assert(n_logits <= limits_.max_logit_rows && n_logits <= n_rows);
  assert(batch.segments.size() % static_cast<size_t>(plan_.layout.tables()) == 0);
  assert(std::ranges::all_of(batch.tokens, [&](int32_t t) { return t >= 0 && t < params_.n_vocab; }));

  const size_t n_segments = batch.segments.size() / n_tables_;
  for (size_t table = 0; table < n_tables_; ++table)
    lists_[table] = batch.segments.subspan(table * n_segments, n_segments);
  for (size_t i = 0; i < logit_tables_.size(); ++i) {
    note_logit_segments(batch, lists_[logit_tables_[i]], last_segments_[i]);
    lists_[n_tables_ + i] = logit_lists_[logit_tables_[i]] = last_segments_[i];
  }
  const StepInput step{.model = this,
                       .tokens = batch.tokens,
                       .logit_rows = batch.logit_rows,
                       .segment_lists = lists_,
                       .max_rows = std::min(limits_.max_batch_tokens, limits_.max_logit_rows),
                       .recordable = observed_ == nullptr && batch.adapters.empty() && batch.embedded.empty() &&
                                     batch.hidden.empty() && !batch.keeps_hidden_states && names_no_rows(params_)};
  assert(!batch.keeps_hidden_states || params_.pooling != Pooling::kNone);
  n_hidden_states_ = n_rows;
  adapted_.begin(n_rows, batch.logit_rows, batch.adapters);
  if (!backend_.begin_step(step)) compute(batch, step.rows());
  backend_.end_step();
  return batch.leaves_logits ? activations_.logits : host_logits(n_logits);
}

const float* Transformer::hidden_states() {
  if (backend_.is_host_memory()) return activations_.final_states;
  const int64_t count = int64_t{n_hidden_states_} * params_.n_embd;
  backend_.read_floats(host_states_.data(), activations_.final_states, count);
  return host_states_.data();
}

const float* Transformer::host_logits(int n_rows) {
  if (backend_.is_host_memory()) return activations_.logits;
  const int64_t count = int64_t{n_rows} * params_.n_vocab;
  // The buffer is too small only if a debugging tool reads logits from a backend that samples by itself.
  if (host_logits_.size() < static_cast<size_t>(count)) host_logits_.resize(static_cast<size_t>(count));
  if (count > 0) backend_.read_floats(host_logits_.data(), activations_.logits, count);
  return host_logits_.data();
}

const float* Transformer::draft(const DraftBatch& batch) {
  assert(draft_layer_ && batch.hidden.size() == batch.tokens.size() && batch.segments.size() % n_tables_ == 0);
  const size_t n_sequences = batch.segments.size() / n_tables_;
  for (size_t table = 0; table < n_tables_; ++table)
    lists_[table] = batch.segments.subspan(table * n_sequences, n_sequences);
  const StepInput step{.model = this,
                       .tokens = batch.tokens,
                       .logit_rows = {},
                       .segment_lists = std::span(lists_).first(n_tables_),
                       .max_rows = std::min(limits_.max_batch_tokens, limits_.max_logit_rows),
                       .recordable = false};
  backend_.begin_step(step);
  draft_layer_->draft(batch, std::span(lists_).first(n_tables_));
  const auto n_tokens = static_cast<int>(draft_layer_->tokens().size());
  write_logits(draft_layer_->head(batch.level), n_tokens > 0 ? n_tokens : params_.n_vocab,
               RowCount::fixed(static_cast<int>(n_sequences)));
  backend_.end_step();
  return host_logits(static_cast<int>(n_sequences));
}

std::span<const int32_t> Transformer::draft_tokens() const {
  return draft_layer_ ? draft_layer_->tokens() : std::span<const int32_t>();
}

void Transformer::compute(const Batch& batch, RowCount all) {
  float* const x = activations_.x;
  backend_.embed(*weights_.embedding, batch.tokens.data(), all, x);
  if (params_.embedding_scale != 1.0f) backend_.scale(x, all, params_.n_embd, params_.embedding_scale);
  if (params_.n_positions > 0) add_positions(all);
  if (params_.embedding_norm) apply_norm(params_, weights_.embedding_norm, backend_, x, all, params_.n_embd, x);
  place_embedded(batch);
  if (params_.per_layer.dim > 0)
    compute_per_layer_inputs(params_, weights_.per_layer, backend_, activations_, batch.tokens, all, x);
  const bool streams = params_.streams.count > 1;
  if (streams) open_streams(params_, weights_.streams, backend_, activations_, all, limits_.max_batch_tokens);
  const bool mixed = params_.stream_mix.n_streams > 0;
  if (mixed) open_mixed_streams(params_, backend_, activations_, repeated_, all);
  StepRows rows{.tables = std::span(lists_).first(n_tables_),
                .logit_rows = batch.logit_rows,
                .logit_tables = logit_lists_,
                .x = x,
                .count = all,
                .per_layer = activations_.per_layer,
                .tokens = batch.tokens,
                .streams = activations_.streams,
                .stream_numbers = activations_.stream_numbers};
  // The drafter may need the hidden states of all tokens, even after a block has reduced the step to the tokens with
  // logits.
  const bool feeds = draft_layer_ && !batch.hidden.empty();
  const bool wants_all = feeds && draft_layer_->last_noted() > parts_[last_to_keep_].layer;
  const bool keeps_all = wants_all || batch.keeps_hidden_states;
  int next_noted = 0;
  const auto note_up_to = [&](int layer) {
    for (; feeds && next_noted <= std::min(layer, draft_layer_->last_noted()); ++next_noted)
      draft_layer_->note(next_noted, x, all);
  };
  for (size_t i = 0; i < parts_.size() && rows.count.value() > 0; ++i) {
    note_up_to(parts_[i].layer);
    parts_[i].part->run(rows, i == last_to_keep_ && !streams && !keeps_all);
    if (parts_[i].ends_layer && parts_[i].layer < params_.n_deepstack) add_deepstack(batch, rows, parts_[i].layer + 1);
    const int next = parts_[i].layer + 1;
    if (params_.loop_norm && parts_[i].ends_layer && next % params_.stored_layers() == 0 && next < params_.n_layers)
      apply_norm(params_, weights_.output_norm, backend_, rows.x, rows.count, params_.n_embd, rows.x);
    if (parts_[i].ends_layer && !batch.logit_rows.empty())
      note(rows.x, rows.all ? batch.logit_rows.back() : rows.count.value() - 1, parts_[i].layer);
  }
  note_up_to(params_.n_layers);
  if (streams) close_streams(params_, weights_.streams, backend_, activations_, all, limits_.max_batch_tokens);
  const bool reads_all = mixed && batch.keeps_hidden_states;
  if (reads_all)
    read_mixed(params_, weights_.output_mix, true, backend_, activations_, rows.streams, rows.count,
               rows.stream_numbers, rows.x);
  if (batch.keeps_hidden_states)
    apply_norm(params_, weights_.output_norm, backend_, rows.x, all, params_.n_embd, activations_.final_states);
  if ((streams || keeps_all) && batch.logit_rows.size() < batch.tokens.size()) {
    rows.count = RowCount::fixed(static_cast<int>(batch.logit_rows.size()));
    if (rows.count.value() > 0) {
      backend_.gather_rows(x, batch.logit_rows, params_.n_embd, activations_.last_x);
      rows.x = activations_.last_x;
    }
  }
  if (rows.count.value() > 0) {
    if (mixed && !reads_all)
      read_mixed(params_, weights_.output_mix, true, backend_, activations_, rows.streams, rows.count,
                 rows.stream_numbers, rows.x);
    apply_norm(params_, weights_.output_norm, backend_, rows.x, rows.count, params_.n_embd, activations_.normed);
    note(activations_.normed, rows.count.value() - 1, params_.n_layers);
    write_logits(nullptr, params_.n_vocab, rows.count);
  }
  if (feeds) draft_layer_->feed(batch, std::span(lists_).first(n_tables_));
}

void Transformer::add_positions(RowCount all) {
  positions_.clear();
  for (const Segment& segment : lists_[0])
    for (int i = 0; i < segment.n_tokens; ++i) positions_.push_back(segment.first_position + i);
  backend_.embed(*weights_.positions, positions_.data(), all, activations_.normed);
  backend_.add_rows(activations_.x, activations_.normed, 1.0f, nullptr, all, params_.n_embd);
}

// Replaces token embeddings with the rows of embedding spans, which are not scaled. If there are DeepStack parts, the
// complete rows are also kept in `inputs`, at the index of their token.
void Transformer::place_embedded(const Batch& batch) {
  const int64_t n_embd = params_.n_embd, width = params_.input_width();
  for (const EmbeddedRows& some : batch.embedded) {
    float* const x = activations_.x + some.first_row * n_embd;
    if (width == n_embd) {
      backend_.write_floats(x, some.rows, some.n_rows * n_embd);
      continue;
    }
    float* const inputs = activations_.inputs + some.first_row * width;
    backend_.write_floats(inputs, some.rows, some.n_rows * width);
    backend_.copy_rows(inputs, width, RowCount::fixed(some.n_rows), n_embd, x);
  }
}

// Adds a DeepStack part of the embedding span rows to the residual stream of the tokens that are still computed.
void Transformer::add_deepstack(const Batch& batch, const StepRows& rows, int part) {
  const int64_t n_embd = params_.n_embd, width = params_.input_width();
  const auto add = [&](int from, int n, float* x) {
    const RowCount count = RowCount::fixed(n);
    backend_.copy_rows(activations_.inputs + from * width + part * n_embd, width, count, n_embd,
                       activations_.deepstack);
    backend_.add_rows(x, activations_.deepstack, 1.0f, nullptr, count, n_embd);
  };
  for (const EmbeddedRows& some : batch.embedded) {
    if (rows.all) {
      add(some.first_row, some.n_rows, rows.x + some.first_row * n_embd);
      continue;
    }
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const int row = batch.logit_rows[i] - some.first_row;
      if (row >= 0 && row < some.n_rows) add(batch.logit_rows[i], 1, rows.x + static_cast<int64_t>(i) * n_embd);
    }
  }
}

// Builds `segments`: one segment per token with logits, with its pages in the page table whose segments for all tokens
// are `of_all`. The result is empty if all tokens have logits, as in a decode-only step.
void Transformer::note_logit_segments(const Batch& batch, std::span<const Segment> of_all,
                                      std::vector<Segment>& segments) {
  segments.clear();
  if (batch.logit_rows.size() == batch.tokens.size()) return;
  size_t s = 0;
  for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
    const int row = batch.logit_rows[i];
    while (row >= of_all[s].first_row + of_all[s].n_tokens) ++s;
    const Segment& from = of_all[s];
    const int within = row - from.first_row;
    segments.push_back({.first_row = static_cast<int>(i),
                        .n_tokens = 1,
                        .first_position = from.first_position + within,
                        .pages = from.pages,
                        .rope_positions = from.rope_positions == nullptr ? nullptr : from.rope_positions + within,
                        .seen_end = from.seen_end});
  }
}

// Computes `n_tokens` logits for each row of `normed`, the normalized hidden states. If `head` is null, the model's own
// output matrix is used.
void Transformer::write_logits(const Matrix* head, int n_tokens, RowCount rows) {
  const Matrix& output = head ? *head : params_.tied_output ? *weights_.embedding : *weights_.output;
  float* const logits = activations_.logits;
  const float* const bias = n_tokens == params_.n_vocab ? weights_.output_bias : nullptr;
  const MatmulTarget target{.weight = &output, .out = logits, .out_stride = n_tokens, .bias = bias, .never_fast = true};
  backend_.matmul({&target, 1}, activations_.normed, rows, InputUse::kLast);
  if (params_.logit_scale != 1.0f) backend_.scale(logits, rows, n_tokens, params_.logit_scale);
  if (params_.logit_soft_cap > 0) backend_.soft_cap(logits, rows, n_tokens, params_.logit_soft_cap);
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
  std::vector<float> values(static_cast<size_t>(params_.n_layers + 1) * static_cast<size_t>(params_.n_embd));
  backend_.read_floats(values.data(), observed_, static_cast<int64_t>(values.size()));
  return values;
}

void Transformer::note(const float* x, int row, int index) {
  if (observed_ == nullptr) return;
  const int32_t wanted = row;
  backend_.gather_rows(x, {&wanted, 1}, params_.n_embd, observed_ + int64_t{index} * params_.n_embd);
}

}  // namespace monolith
