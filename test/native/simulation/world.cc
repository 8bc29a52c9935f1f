#include "simulation/world.h"

#include <algorithm>

#include "engine/request_check.h"
#include "engine/output/section_bans.h"
#include "simulation/sim_clock.h"

namespace monolith::simulation {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kEpochNs = 1'000'000'000'000;
constexpr int64_t kStalledNs = 20 * kMs;   // Interval at which an engine waiting for a reader checks its clock.
constexpr int64_t kMaxToTheEnd = 200'000;  // Maximum number of steps after the last action.

GenerationRequest request_of(const Ask& ask, const Tokenizer& tokenizer) {
  GenerationRequest request;
  request.prompt = prompt_of(ask);
  request.organization = ask.organization;
  request.background = ask.background;
  request.output = ask.output;
  for (const Span& span : ask.spans) {
    request.spans.push_back({.first = span.first,
                             .n_rows = span.n_rows,
                             .hash = {static_cast<uint64_t>(span.content), static_cast<uint64_t>(span.n_rows)},
                             .rows = std::make_shared<const std::vector<float>>(rows_of(span)),
                             .bidirectional = span.bidirectional});
  }
  request.n = ask.n;
  request.max_tokens = ask.max_tokens;
  request.min_tokens = ask.min_tokens;
  request.sampling = sampling_of(ask);
  request.ignore_eos = ask.ignore_end;
  request.use_prefix_cache = ask.use_cache;
  request.return_tokens = true;
  if (ask.stop >= 0) request.stop = {stop_of(ask)};
  if (ask.budget >= 0) {
    request.reasoning = {.open = {"[", kOpen},
                         .close = {"]", kClose},
                         .starts_inside = true,
                         .budget = ask.budget,
                         .close_sequence = closing_of(ask)};
  }
  request.queue_wait_ms = ask.queue_wait_ms;
  request.generation_ms = ask.generation_ms;
  request.bans = make_bans(request, tokenizer);
  return request;
}

}  // namespace

void Figures::add(const Figures& other) {
  for (int64_t Figures::*field :
       {&Figures::steps, &Figures::rows, &Figures::requests, &Figures::refused, &Figures::tokens,
        &Figures::cached_tokens, &Figures::preemptions, &Figures::drafted, &Figures::accepted_draft_tokens,
        &Figures::cancelled, &Figures::timeouts, &Figures::restarts, &Figures::exported, &Figures::imported})
    this->*field += other.*field;
  longest_wait = std::max(longest_wait, other.longest_wait);
  longest_without = std::max(longest_without, other.longest_without);
  longest_easily = std::max(longest_easily, other.longest_easily);
}

World::World(const Scenario& scenario, std::vector<bool> kept, const Tokenizer& tokenizer, Backend& inner)
    : scenario_(scenario), setup_(scenario.setup), kept_(std::move(kept)), tokenizer_(tokenizer), inner_(inner) {
  SimClock::set(kEpochNs);
  for (int i = 0; i < setup_.n_channels; ++i)
    lines_.push_back({std::make_shared<Channel>(nullptr, setup_.channel_bytes)});
  if (Random(setup_.chance, ~uint64_t{0}).one_in(2)) disk_ = std::make_unique<Disk>(setup_.chance);
  start();
  witness_ = std::make_unique<Witness>(setup_, tokenizer_, StepLoop::max_context(machine_->model));
}

uint64_t World::trace() const { return fold(trace_, witness_->trace()); }

void World::start() {
  machine_ = std::make_unique<Machine>(setup_, tokenizer_, inner_);
  if (disk_) disk_->attach(machine_->loop.tier());
  machine_->model.on_forward = [this](const Batch& batch) { pass_time(batch); };
  machine_->model.owner_of = [this](const Segment& segment) {
    return sequence_of(segment).request.params.organization;
  };
  machine_->model.on_spoilt = [this](const Segment& segment) {
    if (Witness::Known* known = witness_->find(sequence_of(segment).request.id)) known->spoilt = true;
  };
}

const Sequence& World::sequence_of(const Segment& segment) const {
  for (const ScheduledSequence* running : machine_->loop.scheduler().running()) {
    const Sequence& sequence = monolith::sequence_of(*running);
    if (sequence.table(0) == segment.pages) return sequence;
  }
  throw Violation("a segment has pages of no running sequence");
}

void World::pass_time(const Batch& batch) {
  Random random(setup_.chance, static_cast<uint64_t>(step_) * 2);
  SimClock::advance(kMs / 2 + random.below(setup_.most_model_ms * 1000) * (kMs / 1000));
  if (random.one_in(500)) SimClock::advance(random.from(100, 2000) * kMs);
  ++figures_.steps;
  figures_.rows += static_cast<int64_t>(batch.tokens.size());
  trace_ = fold(fold(trace_, batch.tokens.size()), static_cast<uint64_t>(SimClock::now()));
  cancel_meanwhile();
  if (std::exchange(breaks_, false)) throw BrokenStep();
}

void World::run() {
  size_t next = 0;
  const auto& actions = scenario_.actions;
  for (int64_t last = -1; next < actions.size() || !machine_->loop.idle(); ++step_) {
    if (machine_->loop.idle() && next < actions.size()) step_ = std::max(step_, int64_t{actions[next].at});
    machine_->loop.await();
    const size_t first = next;
    for (; next < actions.size() && actions[next].at <= step_; ++next) last = step_;
    take_in(first, next);
    if (step_ > std::max<int64_t>(last, setup_.n_steps) + kMaxToTheEnd) throw Violation("does not finish");
    const int64_t begun_ns = SimClock::now();
    const bool computed = compute();
    if (disk_) disk_->work(machine_->loop.tier());
    cancel_meanwhile();
    retire();
    check();
    check_progress(computed);
    check_deadlines(begun_ns);
    read_channels(next == actions.size());
    witness_->drop_finished();
    SimClock::advance(computed ? kMs / 100 : kStalledNs);
  }
  if (disk_) disk_->close_all(machine_->loop.tier());
  compute();  // A last step publishes the remaining records.
  retire();
  read_channels(true);
  check();
  check_idle();
  figures_.tokens = witness_->tokens();
  if (disk_) {
    figures_.exported = disk_->exported();
    figures_.imported = disk_->imported();
  }
  restart();  // Adds the statistics of the last engine to the totals.
}

// Applies all actions between two steps in the order in which the engine processes them, regardless of their order in
// the scenario.
void World::take_in(size_t first, size_t end) {
  const auto turn = [](Act act) {
    switch (act) {
      case Act::kConfigure: return 0;
      case Act::kSubmit: return 1;
      case Act::kCancel: return 2;
      case Act::kFinish: return 3;
      case Act::kClose: return 4;
      case Act::kShutDown: return 6;
      default: return 5;
    }
  };
  for (int now = 0; now <= 6; ++now) {
    for (size_t number = first; number < end; ++number)
      if (turn(scenario_.actions[number].act) == now && (kept_.empty() || kept_[number])) act(number);
    if (now == 2) take_in_cancelled();
  }
}

bool World::compute() {
  try {
    return machine_->loop.step();
  } catch (const BrokenStep&) {
    die();
    return true;
  }
}

void World::act(size_t number) {
  const Action& action = scenario_.actions[number];
  Line& line = lines_[static_cast<size_t>(action.target) % lines_.size()];
  const auto of = ids_.find(static_cast<size_t>(action.target));
  switch (action.act) {
    case Act::kSubmit: return submit(number, action.ask);
    case Act::kCancel:
      if (of == ids_.end()) return;
      if (action.more > 0)
        meanwhile_.push_back(of->second);
      else
        cancel(of->second);
      return;
    case Act::kFinish: {
      Witness::Known* known = of == ids_.end() ? nullptr : witness_->find(of->second);
      if (!known || known->retired || known->forgotten) return;
      if (action.amount < known->ask->n) known->finishing.set(static_cast<size_t>(action.amount));
      return machine_->loop.finish_choice(of->second, action.amount);
    }
    case Act::kClose: return close(line);
    case Act::kStall: line.stalled_until = step_ + action.amount; return;
    case Act::kConfigure: {
      EngineTunables tunables;
      tunables.max_batch_tokens = action.amount;
      tunables.max_sequences = action.more;
      return machine_->loop.configure(tunables);
    }
    case Act::kNotFinite: machine_->model.spoils = true; return;
    case Act::kBreak: breaks_ = true; return;
    case Act::kHold: return SimClock::advance(action.amount * kMs);
    case Act::kShutDown: return shut_down();
  }
}

// Does the same as Engine::submit().
void World::submit(size_t number, const Ask& ask) {
  GenerationRequest request = request_of(ask, tokenizer_);
  Machine& machine = *machine_;
  const int max_context = StepLoop::max_context(machine.model);
  const RequestBounds bounds{.n_vocab = kVocabulary,
                             .max_context = max_context,
                             .has_vision = false,
                             .input_width = 1,
                             .most_bidirectional_rows = std::min(setup_.max_rows, kMinRowsAlone)};
  ++figures_.requests;
  const size_t n_tokens = request.prompt.size();
  if (!check_request(request, bounds) || machine.counters.queue.take(n_tokens) != QueueRoom::Taken::kTaken) {
    ++figures_.refused;
    return;
  }
  if (disk_) {
    request.retain = "all";
    disk_->prefetch(machine.loop.tier(), request);
  }
  auto made = std::make_unique<Request>(next_id_, lines_[static_cast<size_t>(ask.channel)].channel, std::move(request),
                                        kVocabulary, max_context, machine.model.memory().layout);
  ids_[number] = next_id_;
  witness_->submitted(next_id_++, ask, step_);
  machine.loop.add(std::move(made));
}

// Does the same as Engine::cancel(), which may be called at any time: the request's records are dropped immediately.
void World::cancel(RequestId id) {
  Witness::Known* known = witness_->find(id);
  if (!known || known->forgotten) return;
  ++figures_.cancelled;
  const std::shared_ptr<Channel>& channel = lines_[static_cast<size_t>(known->channel)].channel;
  known->forgotten = true;
  if (known->retired) return channel->discard(id);
  channel->forget(id);
  cancelled_.emplace_back(id, channel);
}

// Cancels requests while a step is being computed. The engine processes the cancellation after the step.
void World::cancel_meanwhile() {
  for (const RequestId id : meanwhile_) cancel(id);
  meanwhile_.clear();
}

void World::take_in_cancelled() {
  for (const auto& [id, channel] : cancelled_) {
    machine_->loop.cancel(id);
    channel->remember(id);
  }
  cancelled_.clear();
}

void World::close(Line& line) {
  line.channel->close();
  const auto at = static_cast<int>(&line - lines_.data());
  for (auto& [id, known] : witness_->all())
    if (known.channel == at) known.forgotten = true;
  machine_->loop.cancel_channel(*line.channel);
  line = {std::make_shared<Channel>(nullptr, setup_.channel_bytes)};
}

void World::shut_down() {
  witness_->shutting_down(true);
  machine_->loop.drain();
  machine_->loop.publish();
  restart();
}

// Does the same as the engine after a failed step: every request fails, and nothing more is computed.
void World::die() {
  witness_->shutting_down(false);
  machine_->loop.fail_all(FailureCode::kEngineError, "the device is gone");
  machine_->loop.publish();
  restart();
}

void World::restart() {
  retire();
  read_channels(true);
  cancelled_.clear();  // The cancelled requests no longer exist.
  if (!machine_->loop.idle()) throw Violation("an engine that has ended still has requests");
  for (const auto& [id, known] : witness_->all())
    if (!known.retired || !(known.forgotten || known.over()))
      throw Violation("request " + std::to_string(id) + " has received no end from an engine that has ended");
  const EngineStats stats = machine_->counters.snapshot(Clock::now());
  figures_.preemptions += static_cast<int64_t>(stats.preemptions);
  figures_.cached_tokens += static_cast<int64_t>(stats.cached_tokens);
  figures_.drafted += static_cast<int64_t>(stats.draft_tokens);
  figures_.accepted_draft_tokens += static_cast<int64_t>(stats.accepted_draft_tokens);
  ++figures_.restarts;
  witness_->running_again();
  witness_->drop_finished();
  without_ = easily_ = {};
  start();
}

void World::retire() {
  for (const RequestId id : machine_->loop.ended()) witness_->retired(id);
  machine_->loop.ended().clear();
}

void World::read_channels(bool all) {
  Random random(setup_.chance, static_cast<uint64_t>(step_) * 2 + 1);
  for (Line& line : lines_) {
    const bool reads = !random.one_in(4);
    if (all || (reads && step_ >= line.stalled_until)) read(line);
  }
}

void World::read(Line& line) {
  line.channel->drain(drained_);
  witness_->read(drained_);
}

}  // namespace monolith::simulation
