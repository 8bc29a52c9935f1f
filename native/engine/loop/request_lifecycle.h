// Owns requests from add() until nothing refers to them any more, and handles start, finish, failure, cancellation and
// time limits. Also tracks the channels that have records of the current step. Engine thread only.
//
// A finished request frees its pages at once. The object is kept until no plan or pending text refers to it: until both
// plan_made() and publish() were called after the request ended.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/speculation/speculative_decoder.h"
#include "engine/images/image_stage.h"
#include "engine/loop/step_gauges.h"

namespace monolith {

class RequestLifecycle {
 public:
  RequestLifecycle(Scheduler& scheduler, SpeculativeDecoder& drafts, ImageStage& images, StepGauges& gauges,
                   EngineCounters& counters)
      : scheduler_(scheduler), drafts_(drafts), images_(images), gauges_(gauges), counters_(counters) {}

  // These functions are documented in StepLoop.
  void add(std::unique_ptr<Request> request);
  void cancel(RequestId id);
  void finish_choice(RequestId id, int choice);
  void cancel_channel(const Channel& channel);
  void drain();
  void fail_all(FailureCode code, const std::string& message);
  bool idle() const { return requests_.empty(); }
  std::vector<RequestId>& ended() { return ended_; }

  // Ends requests that exceed queue_wait_ms or generation_ms.
  void expire(Clock::time_point now);
  // Marks the plan's requests as started, if they were not already.
  void start(const StepPlan& plan, Clock::time_point now);
  void finish(Sequence& sequence, FinishReason reason, int stop_index = -1);
  // Ends all choices of the request, including those that are not forked yet.
  void finish_all_choices(Request& request, FinishReason reason);
  void fail(Request& request, FailureCode code, std::string_view message);
  void fail_by_grammar(Request& request);

  // The buffer to which the request's event records of this step are written.
  std::vector<std::byte>& records_of(Request& request);
  // Call when a new plan was made: the previous plan is no longer used.
  void plan_made() { std::swap(retired_, retired_before_); }
  // Publishes this step's records to the channels. `in_flight`: whether the last plan is still in use.
  void publish(bool in_flight);

 private:
  void end(Request& request);

  Scheduler& scheduler_;
  SpeculativeDecoder& drafts_;
  ImageStage& images_;
  StepGauges& gauges_;
  EngineCounters& counters_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  // Requests that ended since the last plan was made, and those that ended before it.
  std::vector<std::unique_ptr<Request>> retired_, retired_before_;
  std::vector<RequestId> ended_;
  std::vector<std::shared_ptr<Channel>> touched_;  // Channels with records of this step.
  std::vector<Request*> expired_;                  // Scratch of expire().
};

}  // namespace monolith
