// The part of World that says what must be true after each step.
#include <algorithm>

#include "simulation/sim_clock.h"
#include "simulation/world.h"

namespace monolith::simulation {
namespace {

// Steps that an organization with work waits for its first place beside one that has two of them. The scheduler
// promises a step or two where pages are not lacking; where they are, whoever has just given way runs on for
// Scheduler::kLeastRun tokens before it does again.
constexpr int64_t kMostWithout = 2000;
// The same where nothing stands in the way but what others of the same steps are given.
constexpr int64_t kMostEasily = 24;
// Steps until a request has started that nobody holds up, with all that is before it.
constexpr int64_t kMostWait = 60'000;

}  // namespace

void World::check() {
  const StepLoop& loop = machine_->loop;
  look();
  check_pages();
  if (!loop.consistent()) throw Violation("pages, prefix cache and slots do not agree");
  check_queue();
  check_places();
  for (auto& [id, known] : witness_->all()) {
    if (known.retired || known.started) continue;
    const int64_t waited = step_ - known.submitted_step;
    figures_.longest_wait = std::max(figures_.longest_wait, waited);
    if (waited > kMostWait)
      throw Violation("request " + std::to_string(id) + " starves: it has waited for " + std::to_string(waited) +
                      " steps");
  }
}

// Counted anew from the tables of those that run, whatever the pool says.
void World::check_pages() {
  const Scheduler& scheduler = machine_->loop.scheduler();
  const PrefixCache& cache = machine_->loop.cache();
  const PagePool& pool = cache.pool();
  const KvLayout& layout = cache.layout();
  std::vector<int32_t>& references = references_;
  references.assign(static_cast<size_t>(pool.size()), 0);
  for (const Sequence* sequence : scheduler.running()) {
    if (sequence->state != SequenceState::kRunning) throw Violation("a sequence runs that does not say so");
    if (layout.full > 0)
      for (const PageId page : sequence->pages) ++references[static_cast<size_t>(page)];
    for (const PageId page : sequence->window_pages)
      if (page != kNoPage) ++references[static_cast<size_t>(page)];
    const int covered = static_cast<int>(sequence->pages.size()) * kPageTokens;
    if (layout.full > 0 && sequence->n_computed > covered)
      throw Violation("a sequence has computed more than it has pages for");
  }
  int64_t held = 0;
  for (PageId page = 0; page < pool.size(); ++page) {
    // the pool keeps no count of a page before its first use
    const int32_t counted = page < pool.touched() ? pool.references(page) : 0;
    if (counted != references[static_cast<size_t>(page)])
      throw Violation("page " + std::to_string(page) + " has " + std::to_string(counted) + " references, " +
                      std::to_string(references[static_cast<size_t>(page)]) + " sequences have it");
    if (references[static_cast<size_t>(page)] > 0)
      for (PageId part = page; part != kNoPage; part = pool.next(part)) ++held;
  }
  if (held != pool.referenced())
    throw Violation(std::to_string(pool.referenced()) + " pages are held, " + std::to_string(held) + " are in tables");
  for (const Sequence* sequence : scheduler.preempted())
    if (!sequence->pages.empty() || sequence->slot != kNoSlot) throw Violation("a sequence that was put off has pages");
  if (static_cast<int>(scheduler.running().size()) > setup_.max_sequences)
    throw Violation("more sequences run than there is room for");
}

void World::check_queue() const {
  const Scheduler& scheduler = machine_->loop.scheduler();
  const QueueRoom& queue = machine_->counters.queue;
  if (queue.requests() != static_cast<int>(scheduler.waiting()) ||
      queue.tokens() != static_cast<int64_t>(scheduler.waiting_tokens()))
    throw Violation("the queue counts " + std::to_string(queue.requests()) + " requests, " +
                    std::to_string(scheduler.waiting()) + " wait");
  const auto live = std::ranges::count_if(witness_->all(), [](const auto& entry) { return !entry.second.retired; });
  if (live != static_cast<int64_t>(requests_.size()))
    throw Violation(std::to_string(live) + " requests have no end yet, the scheduler knows " +
                    std::to_string(requests_.size()));
}

// What the scheduler knows of, wherever it stands; each once, by its address.
void World::look() {
  const Scheduler& scheduler = machine_->loop.scheduler();
  requests_.clear();
  scheduler.waiting_queue().collect([](const Sequence&) { return true; }, requests_);
  for (const auto* sequences : {&scheduler.running(), &scheduler.preempted()})
    for (const Sequence* sequence : *sequences) requests_.push_back(&sequence->request);
  std::ranges::sort(requests_);
  const auto rest = std::ranges::unique(requests_);
  requests_.erase(rest.begin(), rest.end());
}

const Request* World::find(RequestId id) const {
  const auto at = std::ranges::find(requests_, id, &Request::id);
  return at == requests_.end() ? nullptr : *at;
}

// Whoever is not held up by its reader gets on. A channel may have been emptied behind the plan: then with the next one.
void World::check_progress(bool computed) {
  const auto goes_on = [&](const auto& entry) {
    return !entry.second.retired && !lines_[static_cast<size_t>(entry.second.channel)].channel->full();
  };
  const auto found = std::ranges::find_if(witness_->all(), goes_on);
  stuck_ = computed || machine_->loop.idle() || found == witness_->all().end() ? 0 : stuck_ + 1;
  if (stuck_ > 1)
    throw Violation("nothing is computed though request " + std::to_string(found->first) + " could go on");
}

// `begun_ns`: when the last step was begun, which looks at the clock.
void World::check_deadlines(int64_t begun_ns) const {
  for (const auto& [id, known] : witness_->all()) {
    if (known.retired || known.started || known.deadline_ns == 0 || known.deadline_ns > begun_ns) continue;
    // Its record that it has started may not be read yet.
    const Request* request = find(id);
    if (request && request->started()) continue;
    throw Violation("request " + std::to_string(id) + " waits beyond its time");
  }
}

// An organization with work and no place, beside one that has two: it does not wait for ever, and hardly at all where pages
// are not lacking and somebody can give a place up who has not just done so.
void World::check_places() {
  const Scheduler& scheduler = machine_->loop.scheduler();
  const PrefixCache& cache = machine_->loop.cache();
  const auto index_of = [](const Sequence& sequence) {
    return sequence.request.params.organization % kMostOrganizations;
  };
  std::array<int, kMostOrganizations> places{};
  std::array<bool, kMostOrganizations> wants{};
  for (const Sequence* sequence : scheduler.running()) ++places[index_of(*sequence)];
  const auto want = [&](const Sequence& sequence) {
    if (!sequence.request.channel->full()) wants[index_of(sequence)] = true;
  };
  for (const Sequence* sequence : scheduler.preempted()) want(*sequence);
  std::vector<Request*> none;
  scheduler.waiting_queue().collect([&](const Sequence& sequence) { return want(sequence), false; }, none);
  const bool can_give = std::ranges::any_of(places, [](int n) { return n >= 2; });
  const bool gives = std::ranges::any_of(scheduler.running(), [&](const Sequence* sequence) {
    const bool rests =
        sequence->displaced_at >= 0 && sequence->generated() - sequence->displaced_at < Scheduler::kLeastRun;
    return places[index_of(*sequence)] >= 2 && !rests;
  });
  const auto n_running = static_cast<int64_t>(scheduler.running().size());
  const int64_t needed =
      cache.layout().pages_at_once(setup_.max_context, setup_.max_rows) + cache.layout().tables() * (n_running + 1);
  int64_t kept = 0;  // places for choices that are still to come
  for (const Sequence* sequence : scheduler.running())
    if (sequence->choice == 0) kept += sequence->request.kept_places;
  // A limit that was lowered comes first.
  const bool is_easy = gives && cache.available() >= needed && n_running + kept <= scheduler.max_sequences();
  for (size_t i = 0; i < places.size(); ++i) {
    const bool waits = wants[i] && places[i] == 0;
    without_[i] = can_give && waits ? without_[i] + 1 : 0;
    easily_[i] = is_easy && waits ? easily_[i] + 1 : 0;
    figures_.longest_without = std::max(figures_.longest_without, without_[i]);
    figures_.longest_easily = std::max(figures_.longest_easily, easily_[i]);
    if (without_[i] > kMostWithout)
      throw Violation("organization " + std::to_string(i) + " starves: others have two places and more");
    if (easily_[i] > kMostEasily)
      throw Violation("organization " + std::to_string(i) + " is not given a place that others can give up");
  }
}

void World::check_idle() const {
  const StepLoop& loop = machine_->loop;
  if (!loop.idle()) throw Violation("the engine is not idle at its end");
  for (const auto& [id, known] : witness_->all()) {
    if (!known.retired) throw Violation("request " + std::to_string(id) + " has no end");
    if (!known.forgotten && !known.over())
      throw Violation("nobody was told of the end of request " + std::to_string(id));
  }
  if (loop.cache().pool().referenced() != 0) throw Violation("an idle engine holds pages");
  const StateSlots& slots = loop.cache().slots();
  if (slots.any() && slots.free() + slots.snapshots() != slots.size()) throw Violation("an idle engine holds slots");
  const EngineCounters& counters = machine_->counters;
  if (counters.running != 0 || counters.queue.requests() != 0 || counters.queue.tokens() != 0)
    throw Violation("an idle engine counts work");
}

}  // namespace monolith::simulation
