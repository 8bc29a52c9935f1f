#include "engine/speculation/draft_model.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <string>

#include "base/clock.h"

namespace monolith {
namespace {

size_t pages_for(int n_tokens) { return static_cast<size_t>((n_tokens + kPageTokens - 1) / kPageTokens); }

}  // namespace

Result<ModelLimits> DraftModel::choose_limits(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                                              uint64_t kv_bytes) {
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  ModelLimits own;
  own.max_batch_tokens = kMaxRows;
  own.max_logit_rows = kMaxSequences;
  own.max_context = std::min(limits.max_context, params->context_length);
  own.n_pages = 1;
  own.kv_type = limits.kv_type;
  auto plan = Model::plan(file, backend, own);
  if (!plan) return plan.error();
  // Each draft token advances the recurrent state, and rejected draft tokens would have to be rolled back.
  if (plan->slot_bytes > 0)
    return Error{ErrorCode::kUnsupported, "a draft model of architecture '" + params->architecture_name +
                                              "' has recurrent state, which cannot be rolled back by single tokens"};
  // Each drafted sequence has its own pages, but never more than a full context needs. More pages would not be used,
  // because the draft model has no prefix cache.
  const int64_t useful = int64_t{kMaxSequences} * static_cast<int64_t>(pages_for(own.max_context));
  const int64_t most = backend.free_memory() > 0 ? limits.n_pages : std::min(limits.n_pages, useful);
  own.n_pages = std::clamp<int64_t>(static_cast<int64_t>(kv_bytes / std::max<size_t>(plan->page_bytes, 1)), 1, most);
  return own;
}

Status DraftModel::check_vocabulary(const Tokenizer& model, const Tokenizer& draft) {
  const auto differs = [](const std::string& how) {
    return Error{ErrorCode::kInvalidArgument,
                 "a draft model must have the vocabulary of its target model, but this one " + how};
  };
  if (model.n_vocab() != draft.n_vocab())
    return differs("has " + std::to_string(draft.n_vocab()) + " tokens, not " + std::to_string(model.n_vocab()));
  for (TokenId token = 0; token < model.n_vocab(); ++token)
    if (model.kind(token) != draft.kind(token) || model.bytes(token) != draft.bytes(token))
      return differs("has a different token " + std::to_string(token));
  return {};
}

DraftModel::DraftModel(Model& model, int n_vocab)
    : model_(model),
      sampler_(model.backend(), model.backend(), n_vocab, kMaxSequences),
      pool_(model.limits().n_pages),
      slots_(kMaxSequences) {
  assert(n_vocab <= model.params().n_vocab && model.limits().max_batch_tokens >= 2 * kMaxSequences);
  const size_t pages = std::min(pages_for(model.limits().max_context), static_cast<size_t>(pool_.size()));
  for (Slot& slot : slots_) slot.pages.reserve(pages);
  unused_kv_.set(model.kv().bytes - model.kv().bytes_of_first(0));
  tasks_.reserve(kMaxSequences);
  tokens_.reserve(kMaxRows);
  logit_rows_.reserve(kMaxSequences);
  segments_.reserve(kMaxSequences);
}

double DraftModel::draft(std::span<DraftRequest> requests, DraftBudget& pace) {
  const Clock::time_point start = Clock::now();
  ++round_;
  plan(requests);
  if (tasks_.empty()) return ms_since(start);
  // The first draft step computes the tokens that the draft model has not processed yet. The first draft token is
  // chosen from the logits of the last of these tokens.
  for (const Task& task : tasks_) {
    const Slot& slot = *task.slot;
    add_row(slot,
            task.request->tokens.subspan(static_cast<size_t>(slot.n_computed), static_cast<size_t>(task.n_tokens)),
            slot.n_computed);
    if (slot.n_computed + task.n_tokens == static_cast<int>(task.request->tokens.size()))
      logit_rows_.push_back(static_cast<int>(tokens_.size()) - 1);
  }
  const size_t n_rows = tokens_.size();
  const float* logits = compute();
  for (Task& task : tasks_) task.slot->n_computed += task.n_tokens;
  take_best(logits);
  if (n_rows <= 2 * tasks_.size()) pace.note_draft_step(static_cast<int>(tasks_.size()), ms_since(start));
  std::erase_if(tasks_, [](const Task& task) { return task.request->n == 0; });
  // Every subsequent draft step computes one token per sequence.
  for (;;) {
    std::erase_if(tasks_,
                  [](const Task& task) { return static_cast<size_t>(task.request->n) == task.request->out.size(); });
    if (tasks_.empty()) break;
    const Clock::time_point before = Clock::now();
    for (const Task& task : tasks_) {
      Slot& slot = *task.slot;
      slot.drafted[static_cast<size_t>(slot.n_drafted)] = task.request->out[static_cast<size_t>(task.request->n) - 1];
      add_row(slot, {&slot.drafted[static_cast<size_t>(slot.n_drafted)], 1}, slot.n_computed + slot.n_drafted);
      logit_rows_.push_back(static_cast<int>(tokens_.size()) - 1);
      ++slot.n_drafted;
    }
    logits = compute();
    take_best(logits);
    pace.note_draft_step(static_cast<int>(tasks_.size()), ms_since(before));
  }
  return ms_since(start);
}

// Plans the first draft step: how many tokens of each sequence it computes, with pages for these and for all draft
// tokens. Sequences with few unprocessed tokens come first, then chunks of the others.
void DraftModel::plan(std::span<DraftRequest> requests) {
  assert(requests.size() <= kMaxSequences);
  tasks_.clear();
  // Marks all sequences of this round as used first, so that pages are taken only from other sequences.
  for (DraftRequest& request : requests) {
    request.n = 0;
    if (Slot* slot = slot_of(request.owner)) see(*slot, request.tokens);
  }
  int rows = kMaxRows;
  for (const bool near : {true, false}) {
    for (DraftRequest& request : requests) {
      const auto length = static_cast<int>(request.tokens.size());
      // The draft model does not compute the last draft token, so that token needs no position.
      const int room = model_.limits().max_context - length;
      if (room < 0 || request.out.empty() || rows == 0) continue;
      Slot* slot = slot_of(request.owner);
      if (!slot) continue;
      const int missing = length - slot->n_computed;
      if ((missing <= kNear) != near) continue;
      const int n_tokens = std::min(missing, rows), n_drafts = std::min(static_cast<int>(request.out.size()), room + 1);
      if (!make_room(*slot, slot->n_computed + n_tokens + (n_tokens == missing ? n_drafts - 1 : 0))) continue;
      request.out = request.out.first(static_cast<size_t>(n_drafts));
      rows -= n_tokens;
      tasks_.push_back({&request, slot, n_tokens});
    }
  }
}

// Returns the sequence's slot. If it has none, returns a free slot or, failing that, the slot of the sequence that has
// been idle the longest. Returns null if no slot is idle.
DraftModel::Slot* DraftModel::slot_of(const void* owner) {
  const auto find = [this](const void* one) { return std::ranges::find(slots_, one, &Slot::owner); };
  if (const auto at = find(owner); at != slots_.end()) return &*at;
  auto at = find(nullptr);
  if (at == slots_.end()) {
    at = std::ranges::min_element(slots_, {}, &Slot::seen);
    if (round_ - at->seen < kIdleRounds) return nullptr;
    release(*at);
  }
  at->owner = owner;
  at->seen = round_;
  return &*at;
}

// Updates the slot to the sequence's current tokens: draft tokens that were accepted count as computed. The last token
// is always computed again, because its logits are needed.
void DraftModel::see(Slot& slot, std::span<const TokenId> tokens) const {
  slot.seen = round_;
  for (int i = 0; i < slot.n_drafted && slot.n_computed < static_cast<int>(tokens.size()); ++i) {
    if (tokens[static_cast<size_t>(slot.n_computed)] != slot.drafted[static_cast<size_t>(i)]) break;
    ++slot.n_computed;
  }
  slot.n_drafted = 0;
  slot.n_computed = std::min(slot.n_computed, static_cast<int>(tokens.size()) - 1);
}

bool DraftModel::make_room(Slot& slot, int n_tokens) {
  while (slot.pages.size() < pages_for(n_tokens)) {
    if (slot.pages.size() == slot.pages.capacity()) return false;
    const int64_t touched = pool_.touched();
    const PageId page = pool_.allocate();
    if (pool_.touched() != touched) unused_kv_.set(model_.kv().bytes - model_.kv().bytes_of_first(pool_.touched()));
    if (page != kNoPage)
      slot.pages.push_back(page);
    else if (!take_from_idle(&slot))
      return false;
  }
  return true;
}

bool DraftModel::take_from_idle(const Slot* but) {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_)
    if (&slot != but && !slot.pages.empty() && round_ - slot.seen >= kIdleRounds &&
        (!oldest || slot.seen < oldest->seen))
      oldest = &slot;
  if (oldest) release(*oldest);
  return oldest != nullptr;
}

void DraftModel::release(Slot& slot) {
  for (const PageId page : slot.pages) pool_.release(page);
  slot.pages.clear();
  slot.owner = nullptr;
  slot.n_computed = slot.n_drafted = 0;
}

void DraftModel::forget(const void* owner) {
  if (const auto at = std::ranges::find(slots_, owner, &Slot::owner); at != slots_.end()) release(*at);
}

void DraftModel::add_row(const Slot& slot, std::span<const TokenId> tokens, int position) {
  segments_.push_back({static_cast<int>(tokens_.size()), static_cast<int>(tokens.size()), position, slot.pages.data()});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

const float* DraftModel::compute() {
  const float* logits = model_.forward({tokens_, segments_, logit_rows_, sampler_.samples_on_backend()});
  if (!logits && !logit_rows_.empty()) throw std::runtime_error("the draft model's forward pass returned no logits");
  // If no logits are requested, no other call waits for the device, and the measured step time would be too short.
  if (logit_rows_.empty()) model_.backend().wait();
  tokens_.clear();
  segments_.clear();
  logit_rows_.clear();
  return logits;
}

// Determines the next draft token of each task whose tokens have all been computed, each from one row of `logits`.
// Non-finite logits yield token 0.
void DraftModel::take_best(const float* logits) {
  const auto has_row = [](const Task& task) {
    return task.slot->n_computed == static_cast<int>(task.request->tokens.size());
  };
  sampler_.clear();
  for (const Task& task : tasks_) {
    if (!has_row(task)) continue;
    SampleTask best;
    best.logits = logits;
    best.temperature = 0;
    sampler_.add(best);
    logits += model_.params().n_vocab;
  }
  sampler_.run();
  int row = 0;
  for (const Task& task : tasks_)
    if (has_row(task))
      task.request->out[static_cast<size_t>(task.request->n++)] = std::max(sampler_.result(row++)->token, TokenId{0});
}

bool DraftModel::consistent() const {
  int64_t held = 0;
  for (const Slot& slot : slots_) held += static_cast<int64_t>(slot.pages.size());
  return pool_.consistent() && pool_.free() + held == pool_.size();
}

}  // namespace monolith
