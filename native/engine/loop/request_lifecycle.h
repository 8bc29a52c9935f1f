// Requests from add() until nothing points to them any more: started, finished, failed, cancelled, out of time; and the
// channels that have records of theirs. Engine thread only.
//
// Who ends gives its pages back at once. The object lives on: the last plan may point to it, and text that is still to
// be written. plan_made() says that the next plan is there, publish() that nothing is left to be written.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/guess/step_guesses.h"
#include "engine/images/image_stage.h"
#include "engine/loop/step_gauges.h"

namespace monolith {

class RequestLifecycle {
 public:
  RequestLifecycle(Scheduler& scheduler, StepGuesses& guesses, ImageStage& images, StepGauges& gauges,
                   EngineCounters& counters)
      : scheduler_(scheduler), guesses_(guesses), images_(images), gauges_(gauges), counters_(counters) {}

  // Of these see StepLoop.
  void add(std::unique_ptr<Request> request);
  void cancel(RequestId id);
  void finish_choice(RequestId id, int choice);
  void cancel_channel(const Channel& channel);
  void drain();
  void fail_all(FailureCode code, const std::string& message);
  bool idle() const { return requests_.empty(); }
  std::vector<RequestId>& ended() { return ended_; }

  // Ends requests that have waited or generated for too long.
  void expire(Clock::time_point now);
  // Those of the plan that have not started do so now.
  void start(const StepPlan& plan, Clock::time_point now);
  void finish(Sequence& sequence, FinishReason reason, int stop_index = -1);
  // Whether they have come into being or not.
  void finish_all_choices(Request& request, FinishReason reason);
  void fail(Request& request, FailureCode code, std::string_view message);
  void fail_by_rule(Request& request);

  // Where the request's records of this step go.
  std::vector<std::byte>& records_of(Request& request);
  // The last plan is no longer looked at.
  void plan_made() { std::swap(retired_, retired_before_); }
  // Hands this step's records over. `in_flight`: the last plan is still looked at.
  void publish(bool in_flight);

 private:
  void end(Request& request);

  Scheduler& scheduler_;
  StepGuesses& guesses_;
  ImageStage& images_;
  StepGauges& gauges_;
  EngineCounters& counters_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  // Ended since the last plan was made, and before.
  std::vector<std::unique_ptr<Request>> retired_, retired_before_;
  std::vector<RequestId> ended_;
  std::vector<std::shared_ptr<Channel>> touched_;  // have records of this step
  std::vector<Request*> expired_;                  // scratch
};

}  // namespace monolith
