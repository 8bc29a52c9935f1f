#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>

namespace monolith {
namespace {

int pages_for(int n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

// Most running sequences of which all may decode and still leave a quarter of the budget to prompts.
int sequences_for(int budget) { return std::max(1, budget - budget / 4); }

void insert_by_age(std::vector<Sequence*>& list, Sequence& sequence) {
  const auto older = [](const Sequence* a, const Sequence* b) { return a->order() < b->order(); };
  list.insert(std::upper_bound(list.begin(), list.end(), &sequence, older), &sequence);
}

}  // namespace

Scheduler::Scheduler(PrefixCache& cache, const SchedulerLimits& limits) : cache_(cache), limits_(limits) {
  const auto n = static_cast<size_t>(limits.max_sequences);
  running_.reserve(n);
  prompts_.reserve(n);
  plan_.items.reserve(n);
  plan_.copies.reserve(n);
  configure(limits.max_rows, limits.max_sequences);
}

void Scheduler::configure(int max_batch_tokens, int max_sequences) {
  max_batch_tokens_ = std::clamp(max_batch_tokens, 1, limits_.max_rows);
  const int most = std::min({limits_.max_sequences, sequences_for(max_batch_tokens_), sequences_for(limits_.max_rows)});
  max_sequences_ = std::clamp(max_sequences, 1, most);
}

void Scheduler::add(Request& request) {
  request.arrival = next_arrival_++;
  waiting_.push(*request.choices[0]);
}

const StepPlan& Scheduler::plan(int prompt_tokens_beside_decodes) {
  plan_.items.clear();
  plan_.copies.clear();
  plan_.n_rows = 0;
  preempted_now_ = false;
  suspend_full_channels();
  const int n_decodes = plan_decodes();
  plan_.n_decodes = n_decodes;
  count_kept_places();
  const int share = std::max(max_batch_tokens_ - n_decodes, std::max(1, max_batch_tokens_ / 4));
  const int bound = n_decodes > 0 ? prompt_tokens_beside_decodes : StepPace::kNoBound;
  plan_prompts(std::min({share, limits_.max_rows - n_decodes, bound}));
  return plan_;
}

void Scheduler::suspend_full_channels() {
  for (size_t i = running_.size(); i-- > 0;)
    if (running_[i]->request.channel->full()) preempt(*running_[i]);
  preempted_now_ = false;   // these will not come back before their channel is drained
}

void Scheduler::count_kept_places() {
  kept_places_ = 0;
  for (const Sequence* sequence : running_)
    if (sequence->choice == 0) kept_places_ += sequence->request.kept_places;
}

int Scheduler::plan_decodes() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    sequence.n_planned = 0;
    if (!sequence.decoding()) continue;
    // Victims are younger, hence behind `i` and not planned yet.
    if (make_writable(sequence)) {
      plan_.items.push_back({&sequence, 1, true});
      ++plan_.n_rows;
    }
  }
  return plan_.n_rows;
}

// A page of its own for the position the sequence computes next. False: it was preempted.
bool Scheduler::make_writable(Sequence& sequence) {
  const auto index = static_cast<size_t>(sequence.n_computed / kPageTokens);
  for (;;) {
    const bool shared = index < sequence.pages.size();
    if (shared && cache_.pool().references(sequence.pages[index]) == 1) return true;
    const PageId page = cache_.allocate();
    if (page == kNoPage) {
      Sequence& victim = *running_.back();
      preempt(victim);
      if (&victim == &sequence) return false;
      continue;   // look again: the victim may have been the one it shared with
    }
    if (shared) {
      plan_.copies.push_back({sequence.pages[index], page});
      cache_.release(sequence.pages[index]);
      sequence.pages[index] = page;
    } else {
      sequence.pages.push_back(page);
    }
    return true;
  }
}

void Scheduler::preempt(Sequence& sequence) {
  assert(sequence.state == SequenceState::kRunning);
  std::erase(running_, &sequence);
  cache_.release_all(sequence.pages);
  sequence.n_computed = sequence.n_indexed = sequence.n_planned = 0;
  sequence.state = SequenceState::kPreempted;
  insert_by_age(preempted_, sequence);
  ++preemptions_;
  preempted_now_ = true;
}

void Scheduler::plan_prompts(int budget) {
  prompts_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->decoding()) continue;
    cached_tokens_ += static_cast<uint64_t>(take_cached_pages(*sequence));
    prompts_.push_back(sequence);
  }
  Sequence* oldest = prompts_.empty() ? nullptr : prompts_.front();
  if (oldest) budget -= give(*oldest, (budget + 1) / 2);
  if (prompts_.size() > 1) {
    std::sort(prompts_.begin() + 1, prompts_.end(), [](const Sequence* a, const Sequence* b) {
      return a->remaining() != b->remaining() ? a->remaining() < b->remaining() : a->order() < b->order();
    });
    for (size_t i = 1; i < prompts_.size() && budget > 0; ++i)
      if (!next_page_is_being_computed(*prompts_[i])) budget -= give(*prompts_[i], budget);
  }
  while (budget > 0) {
    Sequence* admitted = admit_one();
    if (!admitted) break;
    prompts_.push_back(admitted);
    budget -= give(*admitted, budget);
  }
  if (oldest && budget > 0) give(*oldest, budget);
  for (Sequence* sequence : prompts_) {
    if (sequence->n_planned == 0) continue;
    plan_.items.push_back({sequence, sequence->n_planned, sequence->n_planned == sequence->remaining()});
    plan_.n_rows += sequence->n_planned;
  }
}

int Scheduler::give(Sequence& sequence, int n_tokens) {
  const int given = std::min(n_tokens, sequence.remaining() - sequence.n_planned);
  sequence.n_planned += given;
  return given;
}

bool Scheduler::uses_cache(const Sequence& sequence) const {
  return limits_.prefix_cache && sequence.request.params.use_prefix_cache;
}

// Goes on with pages that hold what the sequence would compute next. Its last token is always computed:
// somebody has to produce the logits. Returns how many tokens that saves.
int Scheduler::take_cached_pages(Sequence& sequence) {
  if (!uses_cache(sequence)) return 0;
  const int before = sequence.n_computed;
  while (sequence.n_computed == sequence.n_indexed * kPageTokens &&
         sequence.n_computed + kPageTokens < sequence.length()) {
    const auto index = static_cast<size_t>(sequence.n_indexed);
    const PageId parent = index > 0 ? sequence.pages[index - 1] : kNoPage;
    const PageId found =
        cache_.find(sequence.request.params.organization, parent, &sequence.tokens[index * kPageTokens]);
    if (found == kNoPage) break;
    cache_.share(found);
    if (index < sequence.pages.size()) {
      cache_.release(sequence.pages[index]);
      sequence.pages[index] = found;
    } else {
      sequence.pages.push_back(found);
    }
    sequence.n_computed += kPageTokens;
    ++sequence.n_indexed;
  }
  return sequence.n_computed - before;
}

bool Scheduler::next_page_is_being_computed(const Sequence& sequence) const {
  const int begin = sequence.n_computed;
  if (!uses_cache(sequence) || begin != sequence.n_indexed * kPageTokens) return false;
  if (begin + kPageTokens >= sequence.length()) return false;
  const auto index = static_cast<size_t>(sequence.n_indexed);
  for (const Sequence* other : prompts_) {
    if (other == &sequence || other->n_planned == 0 || !uses_cache(*other)) continue;
    if (other->n_computed >= begin + kPageTokens) continue;
    if (other->n_computed + other->n_planned < begin + kPageTokens) continue;
    if (other->request.params.organization != sequence.request.params.organization) continue;
    // Equal pages up to here are equal prefixes: the cache has one page for one prefix.
    if (index > 0 && (other->n_indexed < sequence.n_indexed || other->pages[index - 1] != sequence.pages[index - 1]))
      continue;
    const TokenId* page = &sequence.tokens[static_cast<size_t>(begin)];
    if (std::equal(page, page + kPageTokens, &other->tokens[static_cast<size_t>(begin)])) return true;
  }
  return false;
}

Sequence* Scheduler::admit_one() {
  if (preempted_now_ || static_cast<int>(running_.size()) >= max_sequences_) return nullptr;
  for (Sequence* sequence : preempted_) {
    if (sequence->request.channel->full()) continue;
    const Admission admission = try_admit(*sequence);
    if (admission == Admission::kNoRoom) return nullptr;
    if (admission == Admission::kNotNow) continue;
    std::erase(preempted_, sequence);
    return sequence;
  }
  if (free_places() <= 0) return nullptr;
  return waiting_.admit([](const Sequence& sequence) { return !sequence.request.channel->full(); },
                        [this](Sequence& sequence) { return try_admit(sequence); },
                        [](const Sequence& sequence) {
                          return 1 + (sequence.choice == 0 ? sequence.request.kept_places : 0);
                        });
}

Admission Scheduler::try_admit(Sequence& sequence) {
  assert(sequence.pages.empty() && sequence.n_computed == 0);
  const auto reserve = static_cast<int64_t>(running_.size());
  // At least the last page is never cached: without look-ups while a long prompt waits for room.
  if (cache_.available() < 1 + reserve) return Admission::kNoRoom;
  take_cached_pages(sequence);
  const bool wait = next_page_is_being_computed(sequence);
  const int64_t needed = pages_for(sequence.length()) - static_cast<int64_t>(sequence.pages.size());
  if (wait || cache_.available() < needed + reserve) {
    cache_.release_all(sequence.pages);
    sequence.n_computed = sequence.n_indexed = 0;
    return wait ? Admission::kNotNow : Admission::kNoRoom;
  }
  cached_tokens_ += static_cast<uint64_t>(sequence.n_computed);
  if (sequence.choice == 0) {
    Request& request = sequence.request;
    if (sequence.state == SequenceState::kWaiting) request.kept_places = std::min(request.params.n, free_places()) - 1;
    kept_places_ += request.kept_places;
  }
  for (int64_t i = 0; i < needed; ++i) sequence.pages.push_back(cache_.allocate());
  sequence.state = SequenceState::kRunning;
  sequence.n_planned = 0;
  insert_by_age(running_, sequence);
  return Admission::kAdmitted;
}

void Scheduler::advance() {
  for (const StepPlan::Item& item : plan_.items) {
    Sequence& sequence = *item.sequence;
    sequence.n_computed += item.n_tokens;
    if (!uses_cache(sequence)) continue;
    while ((sequence.n_indexed + 1) * kPageTokens <= sequence.n_computed) {
      const auto index = static_cast<size_t>(sequence.n_indexed);
      const PageId parent = index > 0 ? sequence.pages[index - 1] : kNoPage;
      sequence.pages[index] = cache_.insert(sequence.request.params.organization, parent,
                                            &sequence.tokens[index * kPageTokens], sequence.pages[index]);
      ++sequence.n_indexed;
    }
  }
}

void Scheduler::fork(Sequence& lead, Sequence& fork) {
  assert(lead.state == SequenceState::kRunning && lead.n_computed == lead.n_prompt);
  bool has_place = waiting_.empty() && free_places() > 0;
  if (lead.request.kept_places > 0) {
    --lead.request.kept_places;
    --kept_places_;
    // Resumed sequences and lowered limits may have taken it.
    has_place = static_cast<int>(running_.size()) < max_sequences_;
  }
  if (!has_place) {
    fork.state = SequenceState::kForked;
    waiting_.push(fork);
    return;
  }
  fork.pages = lead.pages;
  for (const PageId page : fork.pages) cache_.share(page);
  fork.n_computed = lead.n_computed;
  fork.n_indexed = lead.n_indexed;
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
  cache_.release_all(sequence.pages);
  sequence.state = SequenceState::kEnded;
}

bool Scheduler::consistent() const {
  std::vector<int32_t> held(static_cast<size_t>(cache_.pool().size()), 0);
  for (const Sequence* sequence : running_)
    for (const PageId page : sequence->pages) ++held[static_cast<size_t>(page)];
  for (size_t page = 0; page < held.size(); ++page)
    if (cache_.pool().references(static_cast<PageId>(page)) != held[page]) return false;
  return cache_.consistent();
}

}  // namespace monolith
