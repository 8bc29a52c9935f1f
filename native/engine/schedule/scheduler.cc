#include "engine/schedule/scheduler.h"

#include <algorithm>

namespace monolith {
namespace {

// The maximum number of running sequences such that a quarter of the token budget remains for prefill even if all of
// them decode.
int sequences_for(int budget) { return std::max(1, budget - budget / 4); }

}  // namespace

Scheduler::Scheduler(PrefixCache& cache, const SchedulerLimits& limits)
    : cache_(cache),
      limits_{limits},
      snapshots_(cache, changes_, limits.snapshot_tokens),
      pages_(cache, snapshots_, changes_, limits_),
      step_(snapshots_, limits_, cache.layout()),
      admission_(cache, pages_, changes_, limits_),
      prefill_(admission_, pages_, step_, limits_) {
  configure(limits.max_rows, limits.max_sequences);
}

void Scheduler::configure(int max_batch_tokens, int max_sequences) {
  limits_.max_batch_tokens = std::clamp(max_batch_tokens, 1, limits_.allocated.max_rows);
  limits_.wanted_sequences = std::clamp(max_sequences, 1, sequences_limit());
  limits_.max_sequences = std::min(limits_.wanted_sequences, sequences_for(limits_.max_batch_tokens));
  changes_.add_to_all();  // The need for window pages depends on max_batch_tokens.
}

int Scheduler::sequences_limit() const {
  const int most = std::min(limits_.allocated.max_sequences, sequences_for(limits_.allocated.max_rows));
  return snapshots_.any() ? std::max(1, std::min(most, cache_.slots().size() - 1)) : most;
}

const StepPlan& Scheduler::plan(int prompt_tokens_with_decodes) {
  StepPlan& plan = step_.plan();
  step_.clear();
  admission_.start_step();
  snapshots_.drop_draft_slots(running());
  admission_.preempt_blocked();
  admission_.extend_windows();
  admission_.count_reserved_slots();
  step_.count_score_rows(static_cast<int>(running().size()));
  admission_.serve_entitlements();
  plan.first_tokens = prefill_.plan_first_tokens(std::min(limits_.max_batch_tokens, prompt_tokens_with_decodes));
  if (plan.first_tokens) return plan;
  plan_decodes(prompt_tokens_with_decodes);
  admission_.count_reserved_slots();
  const int share = std::max(limits_.max_batch_tokens - plan.n_rows, limits_.least_prompt_share());
  const int bound = plan.n_rows > 0 ? std::max(1, prompt_tokens_with_decodes - plan.n_ahead) : PrefillBudget::kNoBound;
  prefill_.plan_prompts(std::min({share, limits_.allocated.max_rows - plan.n_rows, bound}));
  return plan;
}

void Scheduler::plan_decodes(int bound) {
  StepPlan& plan = step_.plan();
  const auto n_decodes = static_cast<int>(
      std::ranges::count_if(running(), [](const ScheduledSequence* sequence) { return sequence->decoding(); }));
  int ahead = std::min(limits_.max_batch_tokens - limits_.least_prompt_share() - n_decodes, bound / 2);
  for (size_t i = 0; i < running().size(); ++i) {
    ScheduledSequence& sequence = *running()[i];
    sequence.kv.n_planned = 0;
    if (!sequence.decoding()) continue;
    const int n_ahead = std::clamp(ahead, 0, sequence.remaining() - 1), n_tokens = 1 + n_ahead;
    // Preempted sequences are younger than this one, so they come after index `i` and have not been planned yet.
    if (!admission_.make_writable(sequence, n_tokens, plan.copies) || !step_.add(sequence, n_tokens)) continue;
    ahead -= n_ahead;
    plan.n_ahead += n_ahead;
    ++plan.n_decodes;
  }
}

int Scheduler::reserve_draft_pages(const StepPlan::Item& item, int n_drafts) {
  ScheduledSequence& sequence = *item.sequence;
  return pages_.reserve_draft_pages(sequence, sequence.kv.n_computed + item.n_tokens, n_drafts, std::ssize(running()));
}

int Scheduler::add_drafts(const StepPlan::Item& planned, int n_drafts) {
  StepPlan& plan = step_.plan();
  StepPlan::Item& item = plan.items[static_cast<size_t>(&planned - plan.items.data())];
  int n_logits = 0;
  for (const StepPlan::Item& other : plan.items) n_logits += other.logit_rows();
  int n = std::min({n_drafts, limits_.max_batch_tokens - plan.n_rows, limits_.allocated.logit_rows() - n_logits});
  if (n <= 0 || (snapshots_.any() && !snapshots_.has_draft_slot())) return 0;
  n = reserve_draft_pages(item, n);
  if (n > 0 && snapshots_.any()) snapshots_.allocate_draft_slot(item.sequence->kv, n);
  item.n_drafts = n;
  plan.n_drafts += n;
  plan.n_rows += n;
  return n;
}

void Scheduler::advance() {
  for (const StepPlan::Item& item : step_.plan().items) {
    item.sequence->kv.n_computed += item.n_tokens;
    pages_.index_pages(*item.sequence);
    snapshots_.settle_chunks(step_.plan(), item);
    pages_.free_out_of_window_pages(*item.sequence);
  }
}

void Scheduler::keep_draft(ScheduledSequence& sequence) {
  if (!snapshots_.any()) {
    ++sequence.kv.n_computed;
  } else {
    if (!snapshots_.accept_draft(sequence.kv)) return;
    sequence.kv.n_computed = sequence.length();
  }
  pages_.index_pages(sequence);
}

bool Scheduler::consistent(std::vector<const KvState*> others) const {
  std::vector<const KvState*> states = std::move(others);
  std::vector<int32_t> slots(static_cast<size_t>(cache_.slots().size()), 0);
  for (const ScheduledSequence* sequence : running()) {
    const KvState& kv = sequence->kv;
    states.push_back(&kv);
    if (snapshots_.any() && (kv.slot == kNoSlot) != (kv.n_computed == 0)) return false;
    for (const SlotId slot : {kv.slot, kv.draft_slot})
      if (slot != kNoSlot) ++slots[static_cast<size_t>(slot)];
  }
  return cache_.consistent(states) && cache_.slots().consistent(slots);
}

}  // namespace monolith
