#include "engine/schedule/prefill_planner.h"

#include <algorithm>

namespace monolith {
namespace {

// True if a client waits for the first token; false for a prompt that is computed only to fill the prefix cache.
bool awaits_first_token(const ScheduledSequence& sequence) { return sequence.generated() == 0 && sequence.generates; }

// Adjusts a chunk of `n_tokens` that would end inside a bidirectional span. Extends the chunk to the end of the span if
// it then has at most `most` tokens; otherwise ends it before the span.
int whole_spans(const ScheduledSequence& sequence, int n_tokens, int most) {
  if (n_tokens <= 0) return 0;
  const int begin = sequence.kv.n_computed + sequence.kv.n_planned;
  const InputSpan* span = span_across(sequence.spans, begin + n_tokens);
  if (!span) return n_tokens;
  return span->end() - begin <= most ? span->end() - begin : span->first - begin;
}

}  // namespace

PrefillPlanner::PrefillPlanner(Admission& admission, PageMover& pages, StepBuilder& step, const StepLimits& limits)
    : admission_(admission), pages_(pages), step_(step), limits_(limits) {
  const auto n = static_cast<size_t>(limits.allocated.max_sequences);
  prompts_.reserve(n);
  groups_.reserve(n);
}

bool PrefillPlanner::plan_first_tokens(int budget) {
  if (steps_since_first_tokens_ < kStepsBetween) {
    ++steps_since_first_tokens_;
    return false;
  }
  const std::vector<ScheduledSequence*>& running = admission_.running();
  const auto decoding = [](const ScheduledSequence* sequence) { return sequence->decoding(); };
  if (std::ranges::all_of(running, decoding)) return false;
  admission_.count_slots();
  // A separate step for first tokens makes sense only if there is work that it can leave out: decodes, or prompts of
  // organizations with several sequences.
  const auto is_left_out = [&](const ScheduledSequence* one) {
    return one->decoding() || !admission_.is_only_one(*one);
  };
  if (std::ranges::none_of(running, is_left_out)) return false;
  for (ScheduledSequence* sequence : running) {
    if (!awaits_first_token(*sequence) || !admission_.is_only_one(*sequence)) continue;
    pages_.resume_from_cache(*sequence, std::ssize(running));
    const int n_tokens = sequence->remaining();
    sequence->kv.n_planned = 0;
    if (n_tokens > std::min(budget, pages_.writable(*sequence)) || step_.scorable(*sequence, n_tokens) < n_tokens)
      continue;
    step_.schedule(*sequence, n_tokens);
    if (step_.add(*sequence, n_tokens)) budget -= n_tokens;
  }
  if (step_.plan().items.empty() && !plan_long_span()) return false;
  steps_since_first_tokens_ = 0;
  return true;
}

// Plans a separate step for the next tokens of the oldest prompt, if they form a bidirectional span that may be too
// long to be computed in a step with decodes.
bool PrefillPlanner::plan_long_span() {
  const std::vector<ScheduledSequence*>& running = admission_.running();
  const auto at =
      std::ranges::find_if(running, [](const ScheduledSequence* sequence) { return !sequence->decoding(); });
  if (at == running.end() || (*at)->spans.empty()) return false;
  if ((*at)->background && admission_.holds_back_background()) return false;
  ScheduledSequence& sequence = **at;
  pages_.resume_from_cache(sequence, std::ssize(running));
  const int n_tokens = sequence.min_chunk();
  if (n_tokens <= limits_.least_prompt_share() ||
      n_tokens > std::min(limits_.allocated.max_rows, pages_.writable(sequence)))
    return false;
  sequence.kv.n_planned = n_tokens;
  return step_.add(sequence, n_tokens);
}

void PrefillPlanner::plan_prompts(int budget) {
  prompts_.clear();
  rows_left_ = limits_.allocated.max_rows - step_.plan().n_rows;
  const std::vector<ScheduledSequence*>& running = admission_.running();
  const bool skips_background = admission_.holds_back_background();
  for (ScheduledSequence* sequence : running) {
    if (sequence->decoding() || (skips_background && sequence->background)) continue;
    pages_.resume_from_cache(*sequence, std::ssize(running));
    prompts_.push_back(sequence);
  }
  group_prompts();
  budget = split_budget(budget, admission_.may_admit());
  while (budget > 0) {
    ScheduledSequence* admitted = admission_.admit_one(prompts_);
    if (!admitted) break;
    prompts_.push_back(admitted);
    budget -= schedule_tokens(*admitted, budget);
  }
  for (const PromptGroup& group : groups_) budget -= schedule_tokens(*prompts_[group.begin], budget);
  for (ScheduledSequence* sequence : prompts_)
    if (sequence->kv.n_planned > 0) step_.add(*sequence, sequence->kv.n_planned);
}

// Sorts `prompts_` by organization. Within an organization, the oldest prompt comes first. The other prompts follow in
// ascending order of remaining tokens.
void PrefillPlanner::group_prompts() {
  groups_.clear();
  if (prompts_.empty()) return;
  admission_.count_slots();
  std::sort(prompts_.begin(), prompts_.end(), [](const ScheduledSequence* a, const ScheduledSequence* b) {
    const uint64_t of_a = a->organization, of_b = b->organization;
    return of_a != of_b ? of_a < of_b : a->order() < b->order();
  });
  for (size_t begin = 0; begin < prompts_.size();) {
    const ScheduledSequence& oldest = *prompts_[begin];
    const uint64_t organization = oldest.organization;
    PromptGroup group{begin, begin, oldest.order(), 0, 1};
    for (; group.end < prompts_.size() && prompts_[group.end]->organization == organization; ++group.end)
      group.demand += prompts_[group.end]->remaining();
    std::sort(prompts_.begin() + static_cast<ptrdiff_t>(begin) + 1,
              prompts_.begin() + static_cast<ptrdiff_t>(group.end),
              [](const ScheduledSequence* a, const ScheduledSequence* b) {
                return a->remaining() != b->remaining() ? a->remaining() < b->remaining() : a->order() < b->order();
              });
    if (awaits_first_token(oldest) && admission_.is_only_one(oldest)) group.shares = kFirstTokenShares;
    groups_.push_back(group);
    begin = group.end;
  }
}

// Splits `budget` among the organizations in ascending order of demand. Returns the remaining tokens, which go to newly
// admitted sequences if `may_admit`, and then to the oldest prompts.
int PrefillPlanner::split_budget(int budget, bool may_admit) {
  int shares = 0;
  for (const PromptGroup& group : groups_) shares += group.shares;
  if (groups_.size() > 1) {
    const auto oldest = std::min_element(
        groups_.begin(), groups_.end(), [](const PromptGroup& a, const PromptGroup& b) { return a.oldest < b.oldest; });
    budget -= schedule_tokens(*prompts_[oldest->begin], std::min(budget, std::max(1, budget / (2 * shares))));
    std::sort(groups_.begin(), groups_.end(), [](const PromptGroup& a, const PromptGroup& b) {
      const int64_t of_a = a.demand * b.shares, of_b = b.demand * a.shares;
      return of_a != of_b ? of_a < of_b : a.oldest < b.oldest;
    });
  }
  for (const PromptGroup& group : groups_) {
    int part = (budget * group.shares + shares - 1) / shares;
    shares -= group.shares;
    budget -= part;
    const bool single = group.end - group.begin == 1, first_token = group.shares > 1 && groups_.size() > 1;
    const int of_oldest = single && !may_admit ? part : first_token ? part - part / 4 : (part + 1) / 2;
    part -= schedule_tokens(*prompts_[group.begin], of_oldest);
    for (size_t i = group.begin + 1; i < group.end && part > 0; ++i)
      if (!pages_.next_page_is_being_computed(*prompts_[i], prompts_)) part -= schedule_tokens(*prompts_[i], part);
    budget += part;
  }
  return budget;
}

// Schedules up to `n_tokens` more tokens of the sequence. Returns the number scheduled, which exceeds `n_tokens`
// where this avoids splitting a bidirectional span.
int PrefillPlanner::schedule_tokens(ScheduledSequence& sequence, int n_tokens) {
  const int planned = sequence.kv.n_planned;
  const int most = std::min({sequence.remaining() - planned, pages_.writable(sequence) - planned, rows_left_});
  const int given = step_.scorable(sequence, whole_spans(sequence, std::min(n_tokens, most), most));
  step_.schedule(sequence, given);
  rows_left_ -= given;
  return given;
}

}  // namespace monolith
