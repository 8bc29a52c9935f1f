// The part of StepLoop that keeps a device at work: while it computes a step, the host writes the texts and events of
// the tokens before it. Engine thread.
//
//   device   [ step n            ][ sampling ]     [ step n + 1           ][ sampling ]
//   host     texts of n - 1, publish    await   land, plan   ask, texts of n, publish   await
//                                               └─ all that the device waits for ─┘
//
// land() takes the tokens of step n. Of a plain sequence, whose text cannot change what comes next, it notes no more
// than the token: what that says is left unsaid_ until step n + 1 is on its way. All others, and whoever ends with this
// token, take it as without a device's help (step_loop_tokens.cc). A stop string is thus found when the sequence's next
// token is being computed already: that row is skipped when it lands, like those of requests that are cancelled or
// run out of time in between. Their pages may go to others at once, as the device does one thing after the other; and
// what such a row has put into the prefix cache is computed from tokens that are really there.
//
// A plan is valid until the next one is made, and what it points to lives as long: graveyard_. Between two calls of
// step() nothing is unsaid.
#include "engine/loop/step_loop.h"

#include <algorithm>

namespace monolith {

bool StepLoop::step_in_flight() {
  if (requests_.empty()) flight_ = {};   // nobody waits for it any more, and a next step comes behind it
  await();
  const bool landed = flight_.plan != nullptr;
  Clock::time_point now;
  if (landed) {
    now = flight_.answered_at;
    land();
  } else {
    now = Clock::now();
    expire(now);
  }
  const bool finds_masks = begin_flight(now);
  // The device can do with the tasks as soon as they are there, but masks are still being found.
  if (!finds_masks) ask();
  say_all();
  if (finds_masks) ask();
  if (landed) {
    now = Clock::now();
    expire(now);   // after the plan: the device need not wait for that
  }
  note_progress(now);
  publish();
  return landed || flight_.plan != nullptr;
}

void StepLoop::await() {
  if (!flight_.plan || flight_.answered) return;
  if (std::ranges::none_of(ahead_, [](int32_t task) { return task >= 0; })) model_.backend().wait();
  sampler_.run();
  flight_.answered = true;
  flight_.answered_at = Clock::now();
}

// Plans a step and hands it to the device. `now`: when the device became free. Whether masks are looked for meanwhile.
bool StepLoop::begin_flight(Clock::time_point now) {
  mind_rules();
  const StepPlan& plan = scheduler_.plan(pace_.prompt_tokens());
  flight_ = {};
  std::swap(graveyard_, forgotten_);   // no plan points there any more
  if (plan.items.empty()) return mask_ahead_.start(), false;
  update_gauges();   // what hangs is seen to be running
  guess(plan);
  const float* const logits = compute(plan);
  flight_ = {.plan = &plan, .logits = logits, .begun_at = now, .answered_at = {}};
  const bool finds_masks = mask_ahead_.start();
  start_requests(plan, now);
  scheduler_.advance();
  return finds_masks;
}

// Has the device sample what the step in flight will give.
void StepLoop::ask() {
  if (!flight_.plan) return;
  ask_ahead(*flight_.plan, flight_.logits);
  sampler_.begin();
}

// The tokens of the step in flight, whose answers are there.
void StepLoop::land() {
  const StepPlan& plan = *flight_.plan;
  note_step(plan, flight_.answered_at - flight_.begun_at);
  const float* logits = flight_.logits;
  std::span<const int32_t> ahead = ahead_;
  uint64_t n_quick = 0;
  for (const StepPlan::Item& item : plan.items) {
    if (!item.wants_logits) continue;
    const auto n_rows = static_cast<size_t>(1 + item.n_guesses);
    Sequence& sequence = *item.sequence;
    if (sequence.state != SequenceState::kEnded) {
      if (item.n_guesses == 0 && take_quickly(sequence, ahead.front())) {
        ++n_quick;
      } else {
        // What other choices have said in this step comes first, as they do in the plan.
        if (sequence.request.params.n > 1) say_of(sequence.request);
        take_row(sequence, logits, item.n_guesses, ahead.first(n_rows));
      }
    }
    ahead = ahead.subspan(n_rows);
    logits += n_rows * static_cast<size_t>(model_.params().n_vocab);
  }
  EngineCounters::add(counters_.decode_tokens, n_quick);
}

// The next token of a sequence that goes on whatever its text says. False: it must be taken as a whole.
bool StepLoop::take_quickly(Sequence& sequence, int32_t task) {
  if (task < 0 || !is_plain(sequence)) return false;
  const Request& request = sequence.request;
  const SampleResult* const chosen = sampler_.result(task);
  if (!chosen || chosen->token == kNoToken || chosen->token == request.params.calls.open.token) return false;
  if (ends_generation(request, chosen->token)) return false;
  if (sequence.generated() + 1 >= request.params.max_tokens || sequence.length() + 1 >= max_context_) return false;
  int32_t logprobs = -1;
  if (request.wants_logprobs()) {
    logprobs = static_cast<int32_t>(unsaid_logprobs_.size());
    unsaid_logprobs_.push_back(*chosen);
  }
  append(sequence, chosen->token);
  sequence.n_ahead = 0;
  sequence.open_at = sequence.generated();
  unsaid_.push_back({&sequence, chosen->token, logprobs});
  return true;
}

// Whether neither script nor rule, nor a budget or a call that is due, has a say in what comes next, and no token but
// the one that opens a call can change that.
bool StepLoop::is_plain(const Sequence& sequence) {
  const GenerationRequest& params = sequence.request.params;
  return sequence.generated() > 0 && sequence.state == SequenceState::kRunning && !may_be_constrained(sequence) &&
         !sequence.call_due && (params.calls.open.text.empty() || params.calls.open.token != kNoToken) &&
         (params.reasoning.budget < 0 || sequence.text.in_content() || sequence.text.in_call());
}

void StepLoop::say(const Unsaid& unsaid) {
  Sequence& sequence = *unsaid.sequence;
  if (sequence.state == SequenceState::kEnded) return;
  EventWriter writer(records_of(sequence.request), sequence.request.id, sequence.choice);
  const SampleResult* const logprobs =
      unsaid.logprobs < 0 ? nullptr : &unsaid_logprobs_[static_cast<size_t>(unsaid.logprobs)];
  const int stop = push_text(sequence, unsaid.token, logprobs, writer);
  if (stop >= 0) finish(sequence, FinishReason::kStopString, stop);
}

// What is unsaid of this request's choices.
void StepLoop::say_of(const Request& request) {
  std::erase_if(unsaid_, [&](const Unsaid& unsaid) {
    if (&unsaid.sequence->request != &request) return false;
    say(unsaid);
    return true;
  });
}

void StepLoop::say_all() {
  for (const Unsaid& unsaid : unsaid_) say(unsaid);
  unsaid_.clear();
  unsaid_logprobs_.clear();
}

}  // namespace monolith
