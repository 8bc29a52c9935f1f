// The part of class World that checks the invariants after each step.
#include <algorithm>

#include "simulation/sim_clock.h"
#include "simulation/world.h"

namespace monolith::simulation {
namespace {

// Maximum number of steps for which an organization with work waits for its first sequence slot while another
// organization has two. The scheduler guarantees one or two steps if there are enough pages. If there are not, a
// sequence that has just been preempted and resumed runs for Admission::kMinRunTokens tokens before it is preempted
// again.
constexpr int64_t kMaxWithout = 2000;
// Like kMaxWithout above, but for an organization that is delayed only by sequences that receive slots in the same
// steps.
constexpr int64_t kMaxEasily = 24;
// Maximum number of steps until a request that is not blocked starts, including the steps for the requests before it.
constexpr int64_t kMaxWait = 60'000;

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
    if (waited > kMaxWait)
      throw Violation("request " + std::to_string(id) + " starves: it has waited for " + std::to_string(waited) +
                      " steps");
  }
}

// Counts the references from running sequences to each node and page, independently of the cache and the pool.
void World::check_pages() {
  const Scheduler& scheduler = machine_->loop.scheduler();
  const PrefixCache& cache = machine_->loop.cache();
  const PagePool& pool = cache.pool();
  const KvLayout& layout = cache.layout();
  std::vector<int32_t>& references = references_;
  references.assign(static_cast<size_t>(pool.size()), 0);
  std::vector<int32_t> nodes;
  std::vector<const KvState*> states;
  machine_->loop.tier().importer().collect(states);
  for (const ScheduledSequence* sequence : scheduler.running()) {
    if (sequence->state != SequenceState::kRunning) throw Violation("a running sequence is in a different state");
    states.push_back(&sequence->kv);
    const int covered = static_cast<int>(sequence->kv.pages.size()) * kPageTokens;
    if (layout.full > 0 && sequence->kv.n_computed > covered)
      throw Violation("a sequence has computed more than it has pages for");
  }
  for (const KvState* state : states) {
    const KvState& kv = *state;
    for (size_t i = 0; i < kv.nodes.size(); ++i) {
      const auto node = static_cast<size_t>(kv.nodes[i]);
      if (node >= nodes.size()) nodes.resize(node + 1);
      // A node holds one reference to its page, no matter how many sequences use the node.
      const bool is_first = ++nodes[node] == 1;
      if (layout.full > 0 && kv.pages[i] != cache.page_of(kv.nodes[i])) throw Violation("a page is not its node's");
      if (layout.full > 0 && is_first) ++references[static_cast<size_t>(kv.pages[i])];
    }
    for (size_t i = kv.nodes.size(); i < kv.pages.size(); ++i) ++references[static_cast<size_t>(kv.pages[i])];
    for (const PageId page : kv.window_pages)
      if (page != kNoPage) ++references[static_cast<size_t>(page)];
  }
  for (size_t node = 0; node < nodes.size(); ++node)
    if (nodes[node] > 0 && cache.ref_count(static_cast<NodeId>(node)) != nodes[node])
      throw Violation("a node's references are not those of the sequences");
  int64_t held = 0;
  for (PageId page = 0; page < pool.size(); ++page) {
    // The pool has no reference count for pages that have never been used.
    const int32_t counted = page < pool.touched() ? pool.ref_count(page) : 0;
    if (counted != references[static_cast<size_t>(page)])
      throw Violation("page " + std::to_string(page) + " has " + std::to_string(counted) + " references, " +
                      std::to_string(references[static_cast<size_t>(page)]) + " sequences have it");
    if (references[static_cast<size_t>(page)] > 0)
      for (PageId part = page; part != kNoPage; part = pool.next(part)) ++held;
  }
  if (held != pool.referenced())
    throw Violation(std::to_string(pool.referenced()) + " pages are held, " + std::to_string(held) + " are in tables");
  for (const ScheduledSequence* sequence : scheduler.preempted())
    if (!sequence->kv.pages.empty() || sequence->kv.slot != kNoSlot) throw Violation("a preempted sequence has pages");
  if (static_cast<int>(scheduler.running().size()) > setup_.max_sequences)
    throw Violation("more sequences run than the limit");
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
    throw Violation(std::to_string(live) + " requests have not ended, the scheduler has " +
                    std::to_string(requests_.size()));
}

// Collects all requests in any of the scheduler's lists. Each request occurs only once; requests are compared by
// address.
void World::look() {
  const Scheduler& scheduler = machine_->loop.scheduler();
  requests_.clear();
  scheduler.collect_waiting([](const ScheduledSequence&) { return true; }, requests_);
  for (const auto* sequences : {&scheduler.running(), &scheduler.preempted()})
    for (const ScheduledSequence* sequence : *sequences) requests_.push_back(&sequence->request);
  std::ranges::sort(requests_);
  const auto rest = std::ranges::unique(requests_);
  requests_.erase(rest.begin(), rest.end());
}

const Request* World::find(RequestId id) const {
  const auto at = std::ranges::find(requests_, id, &Request::id);
  return at == requests_.end() ? nullptr : *at;
}

// The engine must make progress unless all work is blocked by readers that do not drain their channels. A channel that
// was drained after the plan was made no longer blocks its work in the next plan.
void World::check_progress(bool computed) {
  const auto goes_on = [&](const auto& entry) {
    return !entry.second.retired && !lines_[static_cast<size_t>(entry.second.channel)].channel->full();
  };
  const auto found = std::ranges::find_if(witness_->all(), goes_on);
  stuck_ = computed || machine_->loop.idle() || found == witness_->all().end() ? 0 : stuck_ + 1;
  if (stuck_ > 1) throw Violation("nothing is computed though request " + std::to_string(found->first) + " could run");
}

// `begun_ns` is the time at which the last step started and read the clock.
void World::check_deadlines(int64_t begun_ns) const {
  for (const auto& [id, known] : witness_->all()) {
    if (known.retired || known.started || known.deadline_ns == 0 || known.deadline_ns > begun_ns) continue;
    // The request may have started even though the record that reports its start has not been read yet.
    const Request* request = find(id);
    if (request && request->started()) continue;
    throw Violation("request " + std::to_string(id) + " waits past its deadline");
  }
}

// Checks each organization that has work but no sequence slot while another organization has two. It must not wait
// forever. If there are enough pages and a sequence that was not preempted recently can give up its slot, the
// organization must get a slot within a few steps. Background sequences and their slots are ignored.
void World::check_places() {
  const Scheduler& scheduler = machine_->loop.scheduler();
  const PrefixCache& cache = machine_->loop.cache();
  const auto index_of = [](const ScheduledSequence& sequence) {
    return sequence.request.params.organization % kMaxOrganizations;
  };
  std::array<int, kMaxOrganizations> places{};
  std::array<bool, kMaxOrganizations> wants{};
  for (const ScheduledSequence* sequence : scheduler.running())
    if (!sequence->background) ++places[index_of(*sequence)];
  const auto want = [&](const ScheduledSequence& sequence) {
    if (!sequence.background && !sequence.request.channel->full()) wants[index_of(sequence)] = true;
  };
  for (const ScheduledSequence* sequence : scheduler.preempted()) want(*sequence);
  std::vector<Request*> none;
  scheduler.collect_waiting([&](const ScheduledSequence& sequence) { return want(sequence), false; }, none);
  const bool can_give = std::ranges::any_of(places, [](int n) { return n >= 2; });
  const bool gives = std::ranges::any_of(scheduler.running(), [&](const ScheduledSequence* sequence) {
    const bool rests =
        sequence->preempted_at >= 0 && sequence->generated() - sequence->preempted_at < Admission::kMinRunTokens;
    return !sequence->background && places[index_of(*sequence)] >= 2 && !rests;
  });
  const auto n_running = static_cast<int64_t>(scheduler.running().size());
  const int64_t needed =
      cache.layout().pages_at_once(setup_.max_context, setup_.max_rows) + cache.layout().tables() * (n_running + 1);
  int64_t kept = 0;  // Slots reserved for choices that have not started.
  for (const ScheduledSequence* sequence : scheduler.running())
    if (sequence->choice == 0) kept += sequence->reserved_slots;
  // If the limit on sequences has been lowered, enough sequences must end before a slot can be assigned.
  const bool is_easy = gives && cache.available() >= needed && n_running + kept <= scheduler.max_sequences();
  for (size_t i = 0; i < places.size(); ++i) {
    const bool waits = wants[i] && places[i] == 0;
    without_[i] = can_give && waits ? without_[i] + 1 : 0;
    easily_[i] = is_easy && waits ? easily_[i] + 1 : 0;
    figures_.longest_without = std::max(figures_.longest_without, without_[i]);
    figures_.longest_easily = std::max(figures_.longest_easily, easily_[i]);
    if (without_[i] > kMaxWithout)
      throw Violation("organization " + std::to_string(i) + " starves: others have two or more slots");
    if (easily_[i] > kMaxEasily)
      throw Violation("organization " + std::to_string(i) + " gets no slot although others can give one up");
  }
}

void World::check_idle() const {
  const StepLoop& loop = machine_->loop;
  if (!loop.idle()) throw Violation("the engine is not idle at its end");
  for (const auto& [id, known] : witness_->all()) {
    if (!known.retired) throw Violation("request " + std::to_string(id) + " has no end");
    if (!known.forgotten && !known.over())
      throw Violation("no reader received the end of request " + std::to_string(id));
  }
  if (loop.cache().pool().referenced() != 0) throw Violation("an idle engine holds pages");
  const StateSlots& slots = loop.cache().slots();
  if (slots.any() && slots.free() + slots.snapshots() != slots.size()) throw Violation("an idle engine holds slots");
  const EngineCounters& counters = machine_->counters;
  if (counters.running != 0 || counters.queue.requests() != 0 || counters.queue.tokens() != 0)
    throw Violation("an idle engine counts active work");
}

}  // namespace monolith::simulation
