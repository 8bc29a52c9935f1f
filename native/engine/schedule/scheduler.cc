#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "base/grow.h"

namespace monolith {
namespace {

// Maximum running sequences such that a quarter of the token budget remains for prefill even if all of them decode.
int sequences_for(int budget) { return std::max(1, budget - budget / 4); }

int places_taken(const Sequence& sequence) { return 1 + (sequence.choice == 0 ? sequence.request.reserved_slots : 0); }

// True if the sequence cannot advance now: its grammar mask is pending, or its event channel is full.
bool is_blocked(const Sequence& sequence) { return sequence.output.is_blocked() || sequence.request.channel->full(); }

// True if a waiting sequence can start: its image embeddings are ready and its event channel is not full.
bool may_be_admitted(const Sequence& sequence) {
  return sequence.request.inputs_ready && !sequence.request.channel->full();
}

// True if a client waits for the first token; false for a prompt that is computed only to fill the prefix cache.
bool awaits_first_token(const Sequence& sequence) {
  return sequence.generated() == 0 && sequence.request.params.output == OutputKind::kTokens;
}

void insert_by_age(std::vector<Sequence*>& list, Sequence& sequence) {
  const auto older = [](const Sequence* a, const Sequence* b) { return a->order() < b->order(); };
  list.insert(std::upper_bound(list.begin(), list.end(), &sequence, older), &sequence);
}

}  // namespace

Scheduler::Scheduler(PrefixCache& cache, const SchedulerLimits& limits)
    : cache_(cache), limits_(limits), snapshot_distance_(pages_for(std::max(1, limits.snapshot_tokens)) * kPageTokens) {
  const auto n = static_cast<size_t>(limits.max_sequences);
  running_.reserve(n);
  prompts_.reserve(n);
  groups_.reserve(n);
  holders_.reserve(2 * n);  // Also has room for organizations whose sequences were all preempted just now.
  victims_.reserve(kMaxPreempted);
  plan_.items.reserve(n);
  plan_.copies.reserve(n * static_cast<size_t>(cache.layout().tables()));
  if (has_slots()) plan_.chunks.reserve(static_cast<size_t>(limits.max_rows));
  configure(limits.max_rows, limits.max_sequences);
}

void Scheduler::configure(int max_batch_tokens, int max_sequences) {
  max_batch_tokens_ = std::clamp(max_batch_tokens, 1, limits_.max_rows);
  wanted_sequences_ = std::clamp(max_sequences, 1, sequences_limit());
  max_sequences_ = std::min(wanted_sequences_, sequences_for(max_batch_tokens_));
  for (uint64_t& changes : cache_changes_) ++changes;  // The need for window pages depends on max_batch_tokens.
}

int Scheduler::sequences_limit() const {
  const int most = std::min(limits_.max_sequences, sequences_for(limits_.max_rows));
  return has_slots() ? std::max(1, std::min(most, cache_.slots().size() - 1)) : most;
}

void Scheduler::add(Request& request) {
  request.arrival = next_arrival_++;
  waiting_.push(*request.choices[0]);
}

const StepPlan& Scheduler::plan(int prompt_tokens_with_decodes) {
  plan_.items.clear();
  prompts_.clear();
  plan_.copies.clear();
  plan_.chunks.clear();
  plan_.n_rows = plan_.n_drafts = 0;
  preempted_now_ = ran_out_of_memory_ = false;
  drop_draft_slots();
  preempt_blocked();
  extend_windows();
  count_reserved_slots();
  score_rows_left_ = std::max(limits_.max_logit_rows, limits_.max_sequences) -
                     std::max(max_sequences_, static_cast<int>(running_.size()));
  serve_entitlements();
  plan_.n_decodes = plan_.n_ahead = 0;
  plan_.first_tokens = plan_first_tokens(std::min(max_batch_tokens_, prompt_tokens_with_decodes));
  if (plan_.first_tokens) return plan_;
  plan_decodes(prompt_tokens_with_decodes);
  const int n_rows = plan_.n_rows;
  count_reserved_slots();
  const int share = std::max(max_batch_tokens_ - n_rows, least_prompt_share());
  const int bound = n_rows > 0 ? std::max(1, prompt_tokens_with_decodes - plan_.n_ahead) : PrefillBudget::kNoBound;
  plan_prompts(std::min({share, limits_.max_rows - n_rows, bound}));
  return plan_;
}

void Scheduler::preempt_blocked() {
  for (size_t i = running_.size(); i-- > 0;)
    if (is_blocked(*running_[i])) preempt(*running_[i]);
  // Preempting blocked sequences does not stop admission: they are not admitted again while they are blocked, so there
  // is no thrashing.
  preempted_now_ = false;
}

void Scheduler::count_reserved_slots() {
  reserved_slots_ = 0;
  for (const Sequence* sequence : running_)
    if (sequence->choice == 0) reserved_slots_ += sequence->request.reserved_slots;
}

void Scheduler::count_slots() {
  holders_.clear();
  for (const Sequence* sequence : running_) holders_.push_back({sequence->request.params.organization, 1});
  std::sort(holders_.begin(), holders_.end(),
            [](const Holder& a, const Holder& b) { return a.organization < b.organization; });
  size_t kept = 0;
  for (const Holder& holder : holders_) {
    if (kept > 0 && holders_[kept - 1].organization == holder.organization)
      ++holders_[kept - 1].places;
    else
      holders_[kept++] = holder;
  }
  holders_.resize(kept);
}

int Scheduler::slots_of(uint64_t organization) const {
  const auto at = std::lower_bound(holders_.begin(), holders_.end(), organization,
                                   [](const Holder& holder, uint64_t id) { return holder.organization < id; });
  return at != holders_.end() && at->organization == organization ? at->places : 0;
}

void Scheduler::add_slots(uint64_t organization, int places) {
  const auto at = std::lower_bound(holders_.begin(), holders_.end(), organization,
                                   [](const Holder& holder, uint64_t id) { return holder.organization < id; });
  if (at != holders_.end() && at->organization == organization)
    at->places += places;
  else
    holders_.insert(at, {organization, places});
}

// Runs before the decodes are planned, because a preempted sequence must not be in the plan.
void Scheduler::serve_entitlements() {
  if (preempted_now_ || (waiting_.empty() && preempted_.empty())) return;
  count_slots();
  for (int i = 0; i < kMaxEntitlements && serve_one_entitlement(); ++i) continue;
}

// Serves one organization that has no slot, those with a preempted sequence first.
bool Scheduler::serve_one_entitlement() {
  const auto has_none = [this](uint64_t organization) { return slots_of(organization) == 0; };
  for (Sequence* sequence : preempted_) {
    if (is_blocked(*sequence) || !has_none(sequence->request.params.organization)) continue;
    if (try_entitle(*sequence) != Admission::kAdmitted) return false;
    std::erase(preempted_, sequence);
    return true;
  }
  if (free_slots() <= 0 && !choose_victim()) return false;
  return waiting_.admit(
             may_be_admitted, [this](Sequence& sequence) { return try_entitle(sequence); }, places_taken, has_none) !=
         nullptr;
}

Admission Scheduler::try_entitle(Sequence& sequence) {
  const bool is_place_free = free_slots() > 0;
  Admission admission = is_place_free ? try_admit(sequence) : Admission::kNotNow;
  if ((!is_place_free || admission == Admission::kNoRoom) && preempt_for(sequence)) admission = try_admit(sequence);
  if (admission == Admission::kAdmitted) add_slots(sequence.request.params.organization, 1);
  return admission;
}

// Preempts sequences of other organizations until `sequence` can be admitted. Preempts none if that would not help.
bool Scheduler::preempt_for(const Sequence& sequence) {
  int places = free_slots();
  // The operator has lowered the limit: preempting one sequence would not make a slot available.
  if (places < 0) return false;
  const KvLayout& layout = cache_.layout();
  const auto held = [&](const Sequence& one) {
    const auto own = std::ranges::count_if(one.kv.pages, [this](PageId page) { return cache_.ref_count(page) == 1; });
    const auto own_windows = std::ranges::count_if(
        one.kv.window_pages, [this](PageId page) { return page != kNoPage && cache_.pool().ref_count(page) == 1; });
    return layout.full * own + layout.windowed * own_windows;
  };
  int64_t room = cache_.available() - layout.pages_at_once(sequence.length(), max_batch_tokens_) -
                 layout.tables() * static_cast<int64_t>(running_.size());
  victims_.clear();
  while (places < 1 || room < 0) {
    Sequence* victim = static_cast<int>(victims_.size()) < kMaxPreempted ? choose_victim() : nullptr;
    if (!victim) break;
    victims_.push_back(victim);
    add_slots(victim->request.params.organization, -1);
    ++places;
    room += held(*victim) + layout.tables();  // Also counts the pages reserved for the victim's next token.
  }
  const bool helps = places >= 1 && room >= 0;
  for (Sequence* victim : victims_) {
    if (!helps) {
      add_slots(victim->request.params.organization, 1);
      continue;
    }
    preempt(*victim);
    victim->preempted_at = victim->generated();
  }
  victims_.clear();
  if (helps) count_reserved_slots();
  return helps;
}

// The youngest sequence of the organization with the most slots. Null if no organization has two, or if all of these
// sequences were preempted too recently.
Sequence* Scheduler::choose_victim() const {
  Sequence* found = nullptr;
  int most = 1;
  for (size_t i = running_.size(); i-- > 0;) {
    Sequence* sequence = running_[i];
    if (sequence->preempted_at >= 0 && sequence->generated() - sequence->preempted_at < kMinRunTokens) continue;
    const int places = slots_of(sequence->request.params.organization);
    if (places <= most || std::find(victims_.begin(), victims_.end(), sequence) != victims_.end()) continue;
    found = sequence;
    most = places;
  }
  return found;
}

// True if the sequence is the only one of its organization, counting waiting and preempted ones. So if an organization
// sends many long prompts, none of them gets a step of its own.
bool Scheduler::is_only_one(const Sequence& sequence) const {
  const uint64_t organization = sequence.request.params.organization;
  return slots_of(organization) == 1 && !waiting_.holds_one_of(organization) &&
         std::ranges::none_of(preempted_,
                              [=](const Sequence* one) { return one->request.params.organization == organization; });
}

bool Scheduler::plan_first_tokens(int budget) {
  if (steps_since_first_tokens_ < kStepsBetween) {
    ++steps_since_first_tokens_;
    return false;
  }
  const auto decoding = [](const Sequence* sequence) { return sequence->decoding(); };
  if (std::ranges::all_of(running_, decoding)) return false;
  count_slots();
  // A step of first tokens makes sense only if it leaves something out: decodes, or prompts of organizations with
  // several sequences.
  if (std::ranges::none_of(running_, [&](const Sequence* one) { return one->decoding() || !is_only_one(*one); }))
    return false;
  for (Sequence* sequence : running_) {
    if (!awaits_first_token(*sequence) || !is_only_one(*sequence)) continue;
    resume_from_cache(*sequence);
    const int n_tokens = sequence->remaining();
    sequence->kv.n_planned = 0;
    if (n_tokens > std::min(budget, writable(*sequence)) || scorable(*sequence, n_tokens) < n_tokens) continue;
    score_rows_left_ -= rows_for_scores(*sequence, n_tokens);
    sequence->kv.n_planned = n_tokens;
    if (plan_item(*sequence, n_tokens)) budget -= n_tokens;
  }
  if (plan_.items.empty() && !plan_long_span()) return false;
  steps_since_first_tokens_ = 0;
  return true;
}

bool Scheduler::plan_item(Sequence& sequence, int n_tokens) {
  const bool is_last = n_tokens == sequence.remaining();
  StepPlan::Item item{&sequence, n_tokens, is_last, is_last && sequence.request.params.output == OutputKind::kTokens};
  item.n_scored = scored_rows(sequence, n_tokens);
  item.first_scored = std::max(sequence.n_scored - sequence.kv.n_computed, 0);
  if (has_slots() && !plan_chunks(sequence, item)) {
    sequence.kv.n_planned = 0;  // No state slot is free: the sequence is scheduled when others have released theirs.
    return false;
  }
  plan_.items.push_back(item);
  plan_.n_rows += n_tokens;
  return true;
}

// Plans a step of its own for the next tokens of the oldest prompt, if they form a bidirectional span that may be too
// long to be computed next to decodes.
bool Scheduler::plan_long_span() {
  const auto at = std::ranges::find_if(running_, [](const Sequence* sequence) { return !sequence->decoding(); });
  if (at == running_.end() || (*at)->request.params.spans.empty()) return false;
  Sequence& sequence = **at;
  resume_from_cache(sequence);
  const int n_tokens = min_chunk(sequence);
  if (n_tokens <= least_prompt_share() || n_tokens > std::min(limits_.max_rows, writable(sequence))) return false;
  sequence.kv.n_planned = n_tokens;
  return plan_item(sequence, n_tokens);
}

void Scheduler::plan_decodes(int bound) {
  const auto n_decodes = static_cast<int>(
      std::count_if(running_.begin(), running_.end(), [](const Sequence* sequence) { return sequence->decoding(); }));
  int ahead = std::min(max_batch_tokens_ - least_prompt_share() - n_decodes, bound / 2);
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    sequence.kv.n_planned = 0;
    if (!sequence.decoding()) continue;
    const int n_ahead = std::clamp(ahead, 0, sequence.remaining() - 1), n_tokens = 1 + n_ahead;
    // Victims are younger, so they come after index `i` and are not planned yet.
    if (!make_writable(sequence, n_tokens) || !plan_item(sequence, n_tokens)) continue;
    ahead -= n_ahead;
    plan_.n_ahead += n_ahead;
    ++plan_.n_decodes;
  }
}

void Scheduler::preempt(Sequence& sequence) {
  assert(sequence.state == SequenceState::kRunning);
  std::erase(running_, &sequence);
  cache_.release_all(sequence.kv.pages, sequence.kv.window_pages);
  release_slots(sequence);
  sequence.kv.n_computed = sequence.kv.n_indexed = sequence.kv.n_out_of_window = sequence.kv.n_planned =
      sequence.n_ahead = 0;
  sequence.state = SequenceState::kPreempted;
  insert_by_age(preempted_, sequence);
  ++preemptions_;
  preempted_now_ = true;
}

void Scheduler::plan_prompts(int budget) {
  rows_left_ = limits_.max_rows - plan_.n_rows;
  for (Sequence* sequence : running_) {
    if (sequence->decoding()) continue;
    resume_from_cache(*sequence);
    prompts_.push_back(sequence);
  }
  group_prompts();
  budget = split_budget(budget, may_admit());
  while (budget > 0) {
    Sequence* admitted = admit_one();
    if (!admitted) break;
    prompts_.push_back(admitted);
    budget -= schedule_tokens(*admitted, budget);
  }
  for (const PromptGroup& group : groups_) budget -= schedule_tokens(*prompts_[group.begin], budget);
  for (Sequence* sequence : prompts_) {
    if (sequence->kv.n_planned == 0) continue;
    plan_item(*sequence, sequence->kv.n_planned);
  }
}

// Sorts `prompts_` by organization. Within an organization the oldest prompt comes first, then the shortest ones.
void Scheduler::group_prompts() {
  groups_.clear();
  if (prompts_.empty()) return;
  count_slots();
  std::sort(prompts_.begin(), prompts_.end(), [](const Sequence* a, const Sequence* b) {
    const uint64_t of_a = a->request.params.organization, of_b = b->request.params.organization;
    return of_a != of_b ? of_a < of_b : a->order() < b->order();
  });
  for (size_t begin = 0; begin < prompts_.size();) {
    const Sequence& oldest = *prompts_[begin];
    const uint64_t organization = oldest.request.params.organization;
    PromptGroup group{begin, begin, oldest.order(), 0, 1};
    for (; group.end < prompts_.size() && prompts_[group.end]->request.params.organization == organization; ++group.end)
      group.demand += prompts_[group.end]->remaining();
    std::sort(prompts_.begin() + static_cast<ptrdiff_t>(begin) + 1,
              prompts_.begin() + static_cast<ptrdiff_t>(group.end), [](const Sequence* a, const Sequence* b) {
                return a->remaining() != b->remaining() ? a->remaining() < b->remaining() : a->order() < b->order();
              });
    if (awaits_first_token(oldest) && is_only_one(oldest)) group.shares = kFirstTokenShares;
    groups_.push_back(group);
    begin = group.end;
  }
}

// Splits `budget` among the organizations, the smallest demand first. Returns the remaining tokens, which go to newly
// admitted sequences if `may_admit`, and then to the oldest prompts.
int Scheduler::split_budget(int budget, bool may_admit) {
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
      if (!next_page_is_being_computed(*prompts_[i])) part -= schedule_tokens(*prompts_[i], part);
    budget += part;
  }
  return budget;
}

// Schedules up to `n_tokens` more tokens of the sequence. Returns the number scheduled, which exceeds `n_tokens` if a
// bidirectional span must not be cut.
int Scheduler::schedule_tokens(Sequence& sequence, int n_tokens) {
  const int most =
      std::min({sequence.remaining() - sequence.kv.n_planned, writable(sequence) - sequence.kv.n_planned, rows_left_});
  const int given = scorable(sequence, whole_spans(sequence, std::min(n_tokens, most), most));
  score_rows_left_ -=
      rows_for_scores(sequence, sequence.kv.n_planned + given) - rows_for_scores(sequence, sequence.kv.n_planned);
  sequence.kv.n_planned += given;
  rows_left_ -= given;
  return given;
}

// Adjusts a chunk of `n_tokens` that would end inside a bidirectional span. The chunk is extended to the end of the
// span if that makes at most `most` tokens; otherwise it ends before the span.
int Scheduler::whole_spans(const Sequence& sequence, int n_tokens, int most) const {
  if (n_tokens <= 0) return 0;
  const int begin = sequence.kv.n_computed + sequence.kv.n_planned;
  const InputSpan* span = span_across(sequence.request.params.spans, begin + n_tokens);
  if (!span) return n_tokens;
  return span->end() - begin <= most ? span->end() - begin : span->first - begin;
}

// Minimum number of tokens of the next chunk: the whole bidirectional span, or 1.
int Scheduler::min_chunk(const Sequence& sequence) const {
  const InputSpan* span = span_across(sequence.request.params.spans, sequence.kv.n_computed + 1);
  return span ? span->n_rows : 1;
}

bool Scheduler::next_page_is_being_computed(const Sequence& sequence) const {
  const int begin = sequence.kv.n_computed;
  if (!uses_cache(sequence) || sequence.scores() || begin != sequence.kv.n_indexed * kPageTokens) return false;
  if (begin + kPageTokens >= sequence.length()) return false;
  const auto index = static_cast<size_t>(sequence.kv.n_indexed);
  for (const Sequence* other : prompts_) {
    if (other == &sequence || other->kv.n_planned == 0 || !uses_cache(*other)) continue;
    if (other->kv.n_computed >= begin + kPageTokens) continue;
    if (other->kv.n_computed + other->kv.n_planned < begin + kPageTokens) continue;
    if (other->request.params.organization != sequence.request.params.organization) continue;
    // If both sequences have the same page at the index before this one, their prefixes are equal, because the cache
    // has one page per prefix.
    if (index > 0 &&
        (other->kv.n_indexed < sequence.kv.n_indexed || other->kv.pages[index - 1] != sequence.kv.pages[index - 1]))
      continue;
    if (keys_of(*other, sequence.kv.n_indexed) == keys_of(sequence, sequence.kv.n_indexed)) return true;
  }
  return false;
}

bool Scheduler::may_admit() const {
  if (preempted_now_ || static_cast<int>(running_.size()) >= max_sequences_) return false;
  return !preempted_.empty() || (free_slots() > 0 && !waiting_.empty());
}

Sequence* Scheduler::admit_one() {
  if (!may_admit()) return nullptr;
  for (Sequence* sequence : preempted_) {
    if (is_blocked(*sequence)) continue;
    const Admission admission = try_admit(*sequence);
    if (admission == Admission::kNoRoom) return nullptr;
    if (admission == Admission::kNotNow) continue;
    std::erase(preempted_, sequence);
    return sequence;
  }
  if (free_slots() <= 0) return nullptr;
  return waiting_.admit(
      may_be_admitted, [this](Sequence& sequence) { return try_admit(sequence); }, places_taken);
}

// Allocates what a sequence needs to run. If memory runs out, marks the request and returns false.
bool Scheduler::allocate(Sequence& sequence) {
  if (sequence.request.out_of_memory) return false;
  try {
    sequence.allocate();
    grow(preempted_, preempted_.size() + running_.size() + 1);  // Preempting a sequence must not fail.
    return true;
  } catch (const std::bad_alloc&) {
    sequence.request.out_of_memory = ran_out_of_memory_ = true;
    return false;
  }
}

// True if another attempt to admit the sequence would fail like the last one. What it needed then is a lower bound as
// long as nothing is added to its organization's part of the cache: evictions only make its cached prefix shorter. Its
// cached pages count as needed and as available, unless a running sequence references them.
bool Scheduler::still_lacks_room(const Sequence& sequence) const {
  if (sequence.room_needed == 0 || running_.empty()) return false;
  if (sequence.room_needed_at != cache_changes_[sequence.request.params.organization % cache_changes_.size()])
    return false;
  return cache_.available() < sequence.room_needed + cache_.layout().tables() * static_cast<int64_t>(running_.size());
}

Admission Scheduler::try_admit(Sequence& sequence) {
  assert(sequence.kv.pages.empty() && sequence.kv.n_computed == 0);
  const auto reserve = static_cast<int64_t>(running_.size());
  // The last page of a prompt is never cached, so at least one page is needed. This early check avoids cache look-ups
  // while a long prompt waits for pages.
  if (!cache_.has_room(1 + reserve, 1 + reserve) || still_lacks_room(sequence)) return Admission::kNoRoom;
  if (!allocate(sequence)) return Admission::kNotNow;
  const int64_t available = cache_.available();
  take_cached_pages(sequence);
  const bool wait = next_page_is_being_computed(sequence);
  const int64_t needed = pages_for(sequence.length()) - static_cast<int64_t>(sequence.kv.pages.size());
  int64_t windows = window_end(sequence) - static_cast<int64_t>(sequence.kv.window_pages.size());
  // If no other sequence runs, the prompt is prefilled with as many window pages as there are.
  if (running_.empty()) windows = std::min<int64_t>(windows, 1);
  sequence.room_needed = 0;
  if (wait || !cache_.has_room(needed + reserve, windows + reserve)) {
    const KvLayout& layout = cache_.layout();
    if (!wait) sequence.room_needed = available - cache_.available() + layout.full * needed + layout.windowed * windows;
    sequence.room_needed_at = cache_changes(sequence);
    cache_.release_all(sequence.kv.pages, sequence.kv.window_pages);
    release_slots(sequence);
    sequence.kv.n_computed = sequence.kv.n_indexed = sequence.kv.n_out_of_window = 0;
    return wait ? Admission::kNotNow : Admission::kNoRoom;
  }
  cached_tokens_ += static_cast<uint64_t>(sequence.kv.n_computed);
  if (sequence.kv.n_computed > 0) ++cache_changes(sequence);
  if (sequence.choice == 0) {
    Request& request = sequence.request;
    if (sequence.state == SequenceState::kWaiting)
      request.reserved_slots = std::min(request.params.n, free_slots()) - 1;
    reserved_slots_ += request.reserved_slots;
  }
  for (int64_t i = 0; i < needed; ++i) sequence.kv.pages.push_back(cache_.allocate(), cache_.pool());
  extend_window(sequence, reserve);
  sequence.state = SequenceState::kRunning;
  sequence.kv.n_planned = 0;
  insert_by_age(running_, sequence);
  return Admission::kAdmitted;
}

void Scheduler::advance() {
  for (const StepPlan::Item& item : plan_.items) {
    item.sequence->kv.n_computed += item.n_tokens;
    index_pages(*item.sequence);
    settle_chunks(item);
    free_out_of_window_pages(*item.sequence);
  }
}

void Scheduler::keep_draft(Sequence& sequence) {
  if (!has_slots()) {
    ++sequence.kv.n_computed;
  } else {
    // The recurrent state in draft_slot includes all draft tokens, so it can be used only once all are accepted.
    if (--sequence.kv.n_drafted > 0) return;
    cache_.slots().release(sequence.kv.slot);
    sequence.kv.slot = std::exchange(sequence.kv.draft_slot, kNoSlot);
    sequence.kv.n_computed = sequence.length();
  }
  index_pages(sequence);
}

int Scheduler::reserve_draft_pages(const StepPlan::Item& item, int n_drafts) {
  Sequence& sequence = *item.sequence;
  const int end = sequence.kv.n_computed + item.n_tokens;
  const auto held = [&] {
    return static_cast<int>(has_windows() ? std::min(sequence.kv.pages.size(), sequence.kv.window_pages.size())
                                          : sequence.kv.pages.size());
  };
  const auto others = static_cast<int64_t>(running_.size());  // One page for each running sequence's next token.
  while (held() < pages_for(end + n_drafts)) {
    if (!cache_.has_room(1 + others, 1 + others)) return held() * kPageTokens - end;
    const auto n_held = static_cast<size_t>(held());
    if (sequence.kv.pages.size() == n_held) sequence.kv.pages.push_back(cache_.allocate(), cache_.pool());
    if (has_windows() && sequence.kv.window_pages.size() == n_held)
      sequence.kv.window_pages.push_back(cache_.allocate_window(), cache_.pool());
  }
  return n_drafts;
}

int Scheduler::add_drafts(const StepPlan::Item& planned, int n_drafts) {
  StepPlan::Item& item = plan_.items[static_cast<size_t>(&planned - plan_.items.data())];
  Sequence& sequence = *item.sequence;
  int n_logits = 0;
  for (const StepPlan::Item& other : plan_.items) n_logits += other.logit_rows();
  int n = std::min(
      {n_drafts, max_batch_tokens_ - plan_.n_rows, std::max(limits_.max_logit_rows, limits_.max_sequences) - n_logits});
  if (n <= 0 || (has_slots() && cache_.slots().available() == 0)) return 0;
  n = reserve_draft_pages(item, n);
  if (n > 0 && has_slots()) {
    sequence.kv.draft_slot = cache_.slots().allocate();
    sequence.kv.n_drafted = n;
  }
  item.n_drafts = n;
  plan_.n_drafts += n;
  plan_.n_rows += n;
  return n;
}

void Scheduler::fork(Sequence& lead, Sequence& fork) {
  assert(lead.state == SequenceState::kRunning && lead.kv.n_computed == lead.n_prompt);
  grow(preempted_, preempted_.size() + running_.size() + 1);
  fork.allocate();  // Also without a slot, because the fork takes its first token immediately.
  bool has_place = waiting_.empty() && free_slots() > 0;
  if (lead.request.reserved_slots > 0) {
    --lead.request.reserved_slots;
    --reserved_slots_;
    // Resumed sequences or a lowered limit may have taken the reserved slot.
    has_place = static_cast<int>(running_.size()) < max_sequences_;
  }
  if (!has_place) {
    fork.state = SequenceState::kForked;
    waiting_.push(fork);
    return;
  }
  fork.kv.pages = lead.kv.pages;
  fork.kv.window_pages = lead.kv.window_pages;
  for (const PageId page : fork.kv.pages) cache_.share(page);
  for (const PageId page : fork.kv.window_pages)
    if (page != kNoPage) cache_.share_window(page);
  fork.kv.slot = lead.kv.slot;
  if (fork.kv.slot != kNoSlot) cache_.slots().share(fork.kv.slot);
  fork.kv.n_computed = lead.kv.n_computed;
  fork.kv.n_indexed = lead.kv.n_indexed;
  fork.kv.n_out_of_window = lead.kv.n_out_of_window;
  fork.state = SequenceState::kRunning;
  insert_by_age(running_, fork);
}

void Scheduler::remove(Sequence& sequence) {
  switch (sequence.state) {
    case SequenceState::kWaiting:
    case SequenceState::kForked: waiting_.remove(sequence); break;
    case SequenceState::kRunning: std::erase(running_, &sequence); break;
    case SequenceState::kPreempted: std::erase(preempted_, &sequence); break;
    case SequenceState::kEnded: return;
  }
  cache_.release_all(sequence.kv.pages, sequence.kv.window_pages);
  release_slots(sequence);
  sequence.state = SequenceState::kEnded;
}

}  // namespace monolith
