#include "engine/schedule/admission.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "base/grow.h"

namespace monolith {
namespace {

int places_taken(const ScheduledSequence& sequence) { return 1 + (sequence.choice == 0 ? sequence.reserved_slots : 0); }

void insert_in_order(std::vector<ScheduledSequence*>& list, ScheduledSequence& sequence) {
  const auto before = [](const ScheduledSequence* a, const ScheduledSequence* b) { return a->order() < b->order(); };
  list.insert(std::upper_bound(list.begin(), list.end(), &sequence, before), &sequence);
}

}  // namespace

Admission::Admission(const PrefixCache& cache, PageMover& pages, const CacheChanges& changes, const StepLimits& limits)
    : cache_(cache), pages_(pages), changes_(changes), limits_(limits) {
  const auto n = static_cast<size_t>(limits.allocated.max_sequences);
  running_.reserve(n);
  holders_.reserve(2 * n);  // Includes room for organizations whose sequences have all just been preempted.
  victims_.reserve(kMaxPreempted);
}

void Admission::add(ScheduledSequence& sequence) {
  sequence.arrival = next_arrival_++;
  sequence.uses_cache &= limits_.allocated.prefix_cache;
  queue_of(sequence).push(sequence);
}

void Admission::fork(ScheduledSequence& lead, ScheduledSequence& fork) {
  assert(lead.state == SequenceState::kRunning && lead.kv.n_computed == lead.n_prompt);
  grow(preempted_, preempted_.size() + running_.size() + 1);
  fork.allocate();  // Needed even without a slot: the fork takes its first token immediately.
  fork.arrival = lead.arrival;
  fork.uses_cache = lead.uses_cache;
  bool has_place = waiting_.empty() && (!fork.background || waiting_background_.empty()) && free_slots() > 0;
  if (lead.reserved_slots > 0) {
    --lead.reserved_slots;
    --reserved_slots_;
    // The reserved slot may be gone because a sequence was resumed or the limit was lowered.
    has_place = static_cast<int>(running_.size()) < limits_.max_sequences;
  }
  if (!has_place) {
    fork.state = SequenceState::kForked;
    queue_of(fork).push(fork);
    return;
  }
  pages_.share(lead.kv, fork.kv);
  fork.state = SequenceState::kRunning;
  insert_in_order(running_, fork);
}

void Admission::remove(ScheduledSequence& sequence) {
  switch (sequence.state) {
    case SequenceState::kWaiting:
    case SequenceState::kForked: queue_of(sequence).remove(sequence); break;
    case SequenceState::kRunning: std::erase(running_, &sequence); break;
    case SequenceState::kPreempted: std::erase(preempted_, &sequence); break;
    case SequenceState::kEnded: return;
  }
  pages_.release(sequence.kv);
  sequence.state = SequenceState::kEnded;
}

void Admission::start_step() { preempted_now_ = ran_out_of_memory_ = lacked_pages_ = false; }

void Admission::preempt_blocked() {
  for (size_t i = running_.size(); i-- > 0;)
    if (running_[i]->is_blocked()) preempt(*running_[i]);
  // Preempting blocked sequences does not stop admission: they are not admitted again while they are blocked, so there
  // is no thrashing.
  preempted_now_ = false;
}

void Admission::preempt(ScheduledSequence& sequence) {
  assert(sequence.state == SequenceState::kRunning);
  std::erase(running_, &sequence);
  pages_.release(sequence.kv);
  sequence.kv.n_computed = sequence.kv.n_out_of_window = sequence.kv.n_planned = sequence.n_ahead = 0;
  sequence.state = SequenceState::kPreempted;
  insert_in_order(preempted_, sequence);
  ++preemptions_;
  preempted_now_ = true;
}

void Admission::preempt_for_pages(ScheduledSequence& sequence) {
  preempt(sequence);
  lacked_pages_ = true;
}

AdmissionResult Admission::no_room() {
  lacked_pages_ = true;
  return AdmissionResult::kNoRoom;
}

bool Admission::make_writable(ScheduledSequence& sequence, int n_tokens, std::vector<StepPlan::PageCopy>& copies) {
  while (!pages_.make_writable(sequence, n_tokens, copies)) {
    ScheduledSequence& victim = *running_.back();
    preempt_for_pages(victim);
    if (&victim == &sequence) return false;
    // The next attempt checks all pages again, because the preempted sequence may have been the only one that shared
    // one of the pages.
  }
  return true;
}

void Admission::extend_windows() {
  if (cache_.layout().windowed == 0) return;
  for (size_t i = 0; i < running_.size(); ++i) {
    ScheduledSequence& sequence = *running_[i];
    if (sequence.decoding()) continue;
    pages_.extend_window(sequence, std::ssize(running_));
    while (sequence.state == SequenceState::kRunning && pages_.writable(sequence) < sequence.min_chunk())
      if (!pages_.add_window_page(sequence)) preempt_for_pages(*running_.back());
  }
}

void Admission::count_reserved_slots() {
  reserved_slots_ = 0;
  for (const ScheduledSequence* sequence : running_)
    if (sequence->choice == 0) reserved_slots_ += sequence->reserved_slots;
}

void Admission::count_slots() {
  holders_.clear();
  for (const ScheduledSequence* sequence : running_)
    if (!sequence->background) holders_.push_back({sequence->organization, 1});
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

int Admission::slots_of(uint64_t organization) const {
  const auto at = std::lower_bound(holders_.begin(), holders_.end(), organization,
                                   [](const Holder& holder, uint64_t id) { return holder.organization < id; });
  return at != holders_.end() && at->organization == organization ? at->places : 0;
}

void Admission::add_slots(uint64_t organization, int places) {
  const auto at = std::lower_bound(holders_.begin(), holders_.end(), organization,
                                   [](const Holder& holder, uint64_t id) { return holder.organization < id; });
  if (at != holders_.end() && at->organization == organization)
    at->places += places;
  else
    holders_.insert(at, {organization, places});
}

bool Admission::is_only_one(const ScheduledSequence& sequence) const {
  const uint64_t organization = sequence.organization;
  return !sequence.background && slots_of(organization) == 1 && !waiting_.holds_one_of(organization) &&
         std::ranges::none_of(preempted_, [=](const ScheduledSequence* one) {
           return !one->background && one->organization == organization;
         });
}

bool Admission::holds_back_background() const {
  for (const ScheduledSequence* sequence : running_)
    if (!sequence->background && !sequence->decoding()) return true;
  for (const ScheduledSequence* sequence : preempted_)
    if (!sequence->background && !sequence->is_blocked()) return true;
  return waiting_.has_ready([](const ScheduledSequence& sequence) { return sequence.can_start(); });
}

void Admission::serve_entitlements() {
  if (preempted_now_ || (waiting_.empty() && preempted_.empty())) return;
  count_slots();
  for (int i = 0; i < kMaxEntitlements && serve_one_entitlement(); ++i) continue;
}

// Admits one sequence of an organization that holds no slot. While background sequences run, sequences of all
// organizations qualify, because they may preempt the background sequences. Preempted sequences are tried first.
// Returns false if no sequence was admitted.
bool Admission::serve_one_entitlement() {
  const auto may_claim = [this](uint64_t organization) { return slots_of(organization) == 0 || runs_background(); };
  // Uses an index instead of an iterator, because try_entitle() may append preempted background sequences to the list.
  for (size_t i = 0; i < preempted_.size() && !preempted_[i]->background; ++i) {
    ScheduledSequence* const sequence = preempted_[i];
    if (sequence->is_blocked() || !may_claim(sequence->organization)) continue;
    if (try_entitle(*sequence) != AdmissionResult::kAdmitted) {
      if (slots_of(sequence->organization) == 0) return false;
      continue;
    }
    std::erase(preempted_, sequence);
    return true;
  }
  if (free_slots() <= 0 && !runs_background() && !choose_victim()) return false;
  return waiting_.admit([](const ScheduledSequence& sequence) { return sequence.can_start(); },
                        [this](ScheduledSequence& sequence) { return try_entitle(sequence); }, places_taken,
                        may_claim) != nullptr;
}

AdmissionResult Admission::try_entitle(ScheduledSequence& sequence) {
  AdmissionResult result = AdmissionResult::kNotNow;
  const auto lacks_room = [&] { return free_slots() <= 0 || result == AdmissionResult::kNoRoom; };
  if (free_slots() > 0) result = try_admit(sequence, {});
  // Preempts background sequences one at a time. The number that is necessary cannot be computed in advance, because
  // background sequences may share pages.
  while (result != AdmissionResult::kAdmitted && lacks_room() && runs_background()) {
    preempt(*running_.back());
    count_reserved_slots();
    if (free_slots() > 0) result = try_admit(sequence, {});
  }
  if (result != AdmissionResult::kAdmitted && lacks_room() && slots_of(sequence.organization) == 0 &&
      preempt_for(sequence))
    result = try_admit(sequence, {});
  if (result == AdmissionResult::kAdmitted) add_slots(sequence.organization, 1);
  return result;
}

// Preempts sequences of other organizations until `sequence` can be admitted. Preempts none if that would not help.
bool Admission::preempt_for(const ScheduledSequence& sequence) {
  int places = free_slots();
  // The operator has lowered the limit: preempting one sequence would not make a slot available.
  if (places < 0) return false;
  const KvLayout& layout = cache_.layout();
  int64_t room = cache_.available() - layout.pages_at_once(sequence.length(), limits_.max_batch_tokens) -
                 layout.tables() * static_cast<int64_t>(running_.size());
  victims_.clear();
  while (places < 1 || room < 0) {
    ScheduledSequence* victim = static_cast<int>(victims_.size()) < kMaxPreempted ? choose_victim() : nullptr;
    if (!victim) break;
    victims_.push_back(victim);
    add_slots(victim->organization, -1);
    ++places;
    // Also counts the pages that were reserved for the victim's next token, one per page table.
    room += pages_.exclusive_pages(victim->kv) + layout.tables();
  }
  const bool helps = places >= 1 && room >= 0;
  for (ScheduledSequence* victim : victims_) {
    if (!helps) {
      add_slots(victim->organization, 1);
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
ScheduledSequence* Admission::choose_victim() const {
  ScheduledSequence* found = nullptr;
  int most = 1;
  for (size_t i = running_.size(); i-- > 0;) {
    ScheduledSequence* sequence = running_[i];
    if (sequence->background) continue;
    if (sequence->preempted_at >= 0 && sequence->generated() - sequence->preempted_at < kMinRunTokens) continue;
    const int places = slots_of(sequence->organization);
    if (places <= most || std::find(victims_.begin(), victims_.end(), sequence) != victims_.end()) continue;
    found = sequence;
    most = places;
  }
  return found;
}

bool Admission::may_admit() const {
  if (preempted_now_ || static_cast<int>(running_.size()) >= limits_.max_sequences) return false;
  if ((!preempted_.empty() && !preempted_.front()->background) || (free_slots() > 0 && !waiting_.empty())) return true;
  const bool has_background = !preempted_.empty() || (free_slots() > 0 && !waiting_background_.empty());
  return has_background && !holds_back_background();
}

ScheduledSequence* Admission::admit_one(std::span<ScheduledSequence* const> prompts) {
  if (!may_admit()) return nullptr;
  bool lacks_room = false;
  ScheduledSequence* admitted = resume_one(false, prompts, lacks_room);
  if (!admitted && !lacks_room) admitted = admit_from(waiting_, prompts);
  if (admitted || lacks_room || holds_back_background()) return admitted;
  admitted = resume_one(true, prompts, lacks_room);
  return admitted || lacks_room ? admitted : admit_from(waiting_background_, prompts);
}

// Admits the oldest preempted sequence that can continue, among background sequences or among all others. Returns null
// if none was admitted. Sets `lacks_room` if there were too few pages.
ScheduledSequence* Admission::resume_one(bool background, std::span<ScheduledSequence* const> prompts,
                                         bool& lacks_room) {
  for (size_t i = 0; i < preempted_.size(); ++i) {  // try_admit() may reallocate the list
    ScheduledSequence* const sequence = preempted_[i];
    if (sequence->background != background || sequence->is_blocked()) continue;
    const AdmissionResult result = try_admit(*sequence, prompts);
    lacks_room = result == AdmissionResult::kNoRoom;
    if (lacks_room) return nullptr;
    if (result == AdmissionResult::kNotNow) continue;
    std::erase(preempted_, sequence);
    return sequence;
  }
  return nullptr;
}

ScheduledSequence* Admission::admit_from(WaitingQueue& queue, std::span<ScheduledSequence* const> prompts) {
  if (free_slots() <= 0) return nullptr;
  return queue.admit([](const ScheduledSequence& sequence) { return sequence.can_start(); },
                     [&](ScheduledSequence& sequence) { return try_admit(sequence, prompts); }, places_taken);
}

// Allocates the memory that a sequence needs to run. If there is not enough, marks the request and returns false.
bool Admission::allocate(ScheduledSequence& sequence) {
  if (sequence.out_of_memory) return false;
  try {
    sequence.allocate();
    grow(preempted_, preempted_.size() + running_.size() + 1);  // Preempting a sequence must not fail.
    return true;
  } catch (const std::bad_alloc&) {
    sequence.out_of_memory = ran_out_of_memory_ = true;
    return false;
  }
}

// True if another attempt to admit the sequence would fail like the last one. The number of pages that it needed then
// remains a lower bound as long as nothing is added to its organization's part of the cache, because evictions only
// shorten its cached prefix. The pages of that prefix count both as needed and as available, unless a running sequence
// references them.
bool Admission::still_lacks_room(const ScheduledSequence& sequence) const {
  if (sequence.room_needed == 0 || running_.empty()) return false;
  if (sequence.room_needed_at != changes_.count(sequence.organization)) return false;
  return cache_.available() < sequence.room_needed + cache_.layout().tables() * static_cast<int64_t>(running_.size());
}

AdmissionResult Admission::try_admit(ScheduledSequence& sequence, std::span<ScheduledSequence* const> prompts) {
  KvState& kv = sequence.kv;
  assert(kv.nodes.empty() && kv.pages.empty() && kv.n_computed == 0);
  const int64_t reserve = std::ssize(running_);
  // The last page of a prompt is never cached, so at least one page is needed. This early check avoids cache look-ups
  // while a long prompt waits for pages.
  if (!cache_.has_room(1 + reserve, 1 + reserve) || still_lacks_room(sequence)) return no_room();
  if (!allocate(sequence)) return AdmissionResult::kNotNow;
  const int64_t available = cache_.available();
  pages_.take_cached_pages(sequence);
  const bool wait = pages_.next_page_is_being_computed(sequence, prompts);
  PageDemand missing = pages_.missing_pages(sequence);
  // If no other sequence runs, one free window page is enough to start: the prompt is then prefilled with the window
  // pages that are available.
  if (running_.empty()) missing.windows = std::min<int64_t>(missing.windows, 1);
  sequence.room_needed = 0;
  if (wait || !cache_.has_room(missing.full + reserve, missing.windows + reserve)) {
    const KvLayout& layout = cache_.layout();
    if (!wait)
      sequence.room_needed =
          available - cache_.available() + layout.full * missing.full + layout.windowed * missing.windows;
    sequence.room_needed_at = changes_.count(sequence.organization);
    pages_.release(kv);
    kv.n_computed = kv.n_out_of_window = 0;
    return wait ? AdmissionResult::kNotNow : no_room();
  }
  pages_.count_cached(sequence, kv.n_computed);
  if (sequence.choice == 0) {
    if (sequence.state == SequenceState::kWaiting)
      sequence.reserved_slots = std::min(sequence.n_choices, free_slots()) - 1;
    reserved_slots_ += sequence.reserved_slots;
  }
  pages_.allocate_pages(sequence, reserve);
  sequence.state = SequenceState::kRunning;
  kv.n_planned = 0;
  insert_in_order(running_, sequence);
  return AdmissionResult::kAdmitted;
}

}  // namespace monolith
