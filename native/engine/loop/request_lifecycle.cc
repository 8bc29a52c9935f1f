#include "engine/loop/request_lifecycle.h"

#include <algorithm>
#include <cassert>

#include "base/grow.h"
#include "engine/adapters/adapter_set.h"
#include "engine/loop/event_writer.h"

namespace monolith {
namespace {

constexpr const char* kNoMemory = "there is not enough memory for this request";

float milliseconds(Clock::duration duration) { return std::chrono::duration<float, std::milli>(duration).count(); }

bool passed(Clock::time_point since, uint32_t limit_ms, Clock::time_point now) {
  return now - since >= std::chrono::milliseconds(limit_ms);
}

}  // namespace

void RequestLifecycle::add(std::unique_ptr<Request> request) {
  Request& added = *request;
  try {
    grow(ended_, ended_.size() + requests_.size() + 1);
    requests_.try_emplace(added.id).first->second = std::move(request);
  } catch (const std::bad_alloc&) {
    return refuse(std::move(request), FailureCode::kEngineError, kNoMemory);
  }
  gauges_.note_added(added.params.prompt.size());
  guard(added, [&] {
    images_.add(added);
    scheduler_.add(*added.choices[0]);
  });
}

// The request never reaches the scheduler, so the next update of the gauges releases its share of the queue limits.
void RequestLifecycle::refuse(std::unique_ptr<Request> request, FailureCode code, std::string_view message) {
  gauges_.note_added(request->params.prompt.size());
  EngineCounters::add(counters_.failed_requests, 1);
  const bool reported = report(*request, code, message);
  (reported ? retired_ : unreported_).push(std::move(request));
}

void RequestLifecycle::start(const StepPlan& plan, Clock::time_point now) {
  for (const StepPlan::Item& item : plan.items) {
    Request& request = item.sequence->request;
    if (request.started()) continue;
    // With overlapping steps, `now` is the time when the previous step's results arrived, so it may precede this
    // request's submission.
    request.started_at = std::max(now, request.submitted_at);
    if (request.params.adapter_use) request.params.adapter_use->start();
    EngineCounters::add(counters_.prompt_tokens, static_cast<uint64_t>(item.sequence->n_prompt));
    EngineCounters::add(counters_.prompt_tokens_cached, static_cast<uint64_t>(item.sequence->kv.n_computed));
    const Clock::duration waited = *request.started_at - request.submitted_at,
                          seen = std::min(waited, request.encoder_time);
    try {
      EventWriter(records_of(request), request.id, 0)
          .started(static_cast<uint32_t>(item.sequence->n_prompt), static_cast<uint32_t>(item.sequence->kv.n_computed),
                   milliseconds(waited - seen), milliseconds(seen));
    } catch (const std::bad_alloc&) {
      request.out_of_memory = true;  // The plan refers to the request, so it is failed when the step has completed.
    }
  }
}

// A request counts as waiting until a step computes part of it, even if it already holds a sequence slot. queue_wait_ms
// applies while it waits, and generation_ms after that.
void RequestLifecycle::expire(Clock::time_point now) {
  const auto out_of_time = [now](const ScheduledSequence& sequence) {
    const Request& request = sequence.request;
    const uint32_t limit_ms = request.started() ? request.params.generation_ms : request.params.queue_wait_ms;
    return limit_ms > 0 && passed(request.started_at.value_or(request.waits_since), limit_ms, now);
  };
  expired_.clear();
  try {
    scheduler_.collect_waiting(out_of_time, expired_);
    for (const auto* sequences : {&scheduler_.running(), &scheduler_.preempted()}) {
      for (const ScheduledSequence* sequence : *sequences) {
        if (!out_of_time(*sequence)) continue;
        Request& request = sequence->request;
        if (std::find(expired_.begin(), expired_.end(), &request) == expired_.end()) expired_.push_back(&request);
      }
    }
  } catch (const std::bad_alloc&) {  // The requests that are missing from the list expire in a later step.
  }
  for (Request* request : expired_) {
    if (request->started())
      guard(*request, [&] { finish_all_choices(*request, FinishReason::kTimeLimit); });
    else
      fail(*request, FailureCode::kQueueTimeout, "the request waited too long for a sequence slot");
  }
}

void RequestLifecycle::finish(Sequence& sequence, FinishReason reason, int stop_index) {
  Request& request = sequence.request;
  EventWriter writer(records_of(request), request.id, sequence.choice);
  if (const int stop = sequence.output.finish(writer); stop >= 0) {
    reason = FinishReason::kStopString;
    stop_index = stop;
  }
  const Clock::time_point now = Clock::now();
  const Clock::time_point first = sequence.first_token_at.value_or(now);
  writer.finished(reason, static_cast<uint32_t>(sequence.generated()),
                  static_cast<uint32_t>(sequence.output.reasoning_tokens()), stop_index,
                  milliseconds(first - request.started_at.value_or(first)), milliseconds(now - first),
                  static_cast<uint32_t>(sequence.prediction ? sequence.prediction->n_matched() : 0));
  exporter_.enqueue(sequence, request.params.retain);
  scheduler_.remove(sequence);
  drafts_.forget(sequence);
  if (--request.live_choices == 0) {
    EngineCounters::add(counters_.finished, 1);
    end(request);
  }
}

void RequestLifecycle::finish_all_choices(Request& request, FinishReason reason) {
  const auto forked = static_cast<int>(request.choices.size());
  for (int choice = forked; choice < request.params.n; ++choice) {
    EventWriter(records_of(request), request.id, choice).finished(reason, 0, 0, -1, 0, 0, 0);
    --request.live_choices;
  }
  for (int choice = 0; choice < forked; ++choice) {
    Sequence& sequence = *request.choices[static_cast<size_t>(choice)];
    if (sequence.state != SequenceState::kEnded) finish(sequence, reason);
  }
}

void RequestLifecycle::fail(Request& request, FailureCode code, std::string_view message) {
  EngineCounters::add(counters_.failed_requests, 1);
  std::unique_ptr<Request> failed = take(request);
  const bool reported = report(request, code, message);
  (reported ? retired_ : unreported_).push(std::move(failed));
}

// Writes the failure record. Returns false if there is no memory for the record.
bool RequestLifecycle::report(const Request& request, FailureCode code, std::string_view message) {
  try {
    grow(ended_, ended_.size() + requests_.size() + 1);
    EventWriter(records_of(request), request.id, 0).failed(code, message);
  } catch (const std::bad_alloc&) {
    return false;
  }
  ended_.push_back(request.id);
  return true;
}

void RequestLifecycle::report_failures() {
  while (!unreported_.empty() && report(unreported_.top(), FailureCode::kEngineError, kNoMemory))
    retired_.push(unreported_.pop());
}

void RequestLifecycle::fail_for_memory(Request& request) {
  const auto at = requests_.find(request.id);
  if (at != requests_.end() && at->second.get() == &request) fail(request, FailureCode::kEngineError, kNoMemory);
}

void RequestLifecycle::fail_out_of_memory() {
  for (auto at = requests_.begin(); at != requests_.end();) {
    Request& request = *(at++)->second;  // Only the entry of this request is erased.
    if (request.out_of_memory) fail_for_memory(request);
  }
}

void RequestLifecycle::fail_by_grammar(Request& request) {
  fail(request, FailureCode::kEngineError, "the grammar of the output exceeded its limits");
}

// Frees the request's resources, and removes it from the live requests.
std::unique_ptr<Request> RequestLifecycle::take(Request& request) {
  for (const auto& choice : request.choices) {
    scheduler_.remove(*choice);
    drafts_.forget(*choice);
  }
  images_.forget(request);
  const auto at = requests_.find(request.id);
  assert(at != requests_.end());
  std::unique_ptr<Request> taken = std::move(at->second);
  requests_.erase(at);
  return taken;
}

void RequestLifecycle::end(Request& request) {
  ended_.push_back(request.id);
  retired_.push(take(request));
}

void RequestLifecycle::cancel(RequestId id) {
  const auto at = requests_.find(id);
  if (at == requests_.end()) return;
  Request& request = *at->second;
  const bool generating = request.choices.size() > 1 || request.choices[0]->generated() > 0;
  EngineCounters::add(!request.started() ? counters_.cancelled_queued
                      : generating       ? counters_.cancelled_decode
                                         : counters_.cancelled_prefill,
                      1);
  for (const auto& choice : request.choices) exporter_.enqueue(*choice, request.params.retain);
  end(request);
  gauges_.update();
}

void RequestLifecycle::finish_choice(RequestId id, int choice) {
  const auto at = requests_.find(id);
  if (at == requests_.end() || choice < 0 || choice >= at->second->params.n) return;
  Request& request = *at->second;
  const auto index = static_cast<size_t>(choice);
  // Choices are forked together after the prefill. Until then, ending one choice must not stop the prefill for the
  // others.
  if (index >= request.choices.size() || request.choices[index]->generated() == 0) {
    request.finishing.set(index);
    return;
  }
  Sequence& sequence = *request.choices[index];
  if (sequence.state != SequenceState::kEnded) guard(request, [&] { finish(sequence, FinishReason::kEndOfTurn); });
}

void RequestLifecycle::cancel_channel(const Channel& channel) {
  for (auto at = requests_.begin(); at != requests_.end();) {
    const Request& request = *(at++)->second;  // Only the entry of this request is erased.
    if (request.channel.get() == &channel) cancel(request.id);
  }
}

void RequestLifecycle::drain() {
  for (auto at = requests_.begin(); at != requests_.end();) {
    Request& request = *(at++)->second;  // Only the entry of this request is erased.
    if (request.started()) {
      guard(request, [&] { finish_all_choices(request, FinishReason::kTimeLimit); });
    } else {
      fail(request, FailureCode::kShutdown, "the engine is shutting down");
    }
  }
}

void RequestLifecycle::fail_all(FailureCode code, const std::string& message) {
  while (!requests_.empty()) fail(*requests_.begin()->second, code, message);
}

std::vector<std::byte>& RequestLifecycle::records_of(const Request& request) {
  std::vector<std::byte>& records = request.channel->step_records();
  if (records.empty() && std::find(touched_.begin(), touched_.end(), request.channel) == touched_.end())
    touched_.push_back(request.channel);
  return records;
}

void RequestLifecycle::publish(bool in_flight) {
  report_failures();
  retired_before_.clear();
  if (!in_flight) retired_.clear();
  gauges_.update();  // The page counts are updated before a consumer can observe the end of a request.
  std::erase_if(touched_, [](const auto& channel) { return channel->publish(); });
}

}  // namespace monolith
