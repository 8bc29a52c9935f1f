// Owns requests from add() until nothing refers to them, and handles start, finish, failure, cancellation and time
// limits. Also tracks the channels that have records of the current step. Engine thread only.
//
// A finished request frees its pages immediately. The object is kept until no plan or pending text refers to it: until
// both plan_made() and publish() were called after the request ended.
//
// Out of memory: if an allocation on behalf of one request fails, only that request fails (guard()). Ending a request
// allocates nothing but its last record. If there is no memory for a failure record, the record is written later.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/speculation/speculative_decoder.h"
#include "engine/images/image_stage.h"
#include "engine/loop/step_gauges.h"
#include "engine/tiers/page_exporter.h"

namespace monolith {

// A stack of owned requests, linked through Request::next. Adding a request allocates nothing.
class RequestList {
 public:
  RequestList() = default;
  ~RequestList() { clear(); }
  RequestList(const RequestList&) = delete;
  RequestList& operator=(const RequestList&) = delete;

  bool empty() const { return first_ == nullptr; }
  Request& top() const { return *first_; }
  void push(std::unique_ptr<Request> request) {
    request->next = std::move(first_);
    first_ = std::move(request);
  }
  std::unique_ptr<Request> pop() {
    std::unique_ptr<Request> request = std::move(first_);
    first_ = std::move(request->next);
    return request;
  }
  void clear() {
    while (!empty()) pop();
  }
  void swap(RequestList& other) { first_.swap(other.first_); }

 private:
  std::unique_ptr<Request> first_;
};

// The gauges and counters that RequestLifecycle updates.
struct StepReports {
  StepGauges& gauges;
  EngineCounters& counters;
};

class RequestLifecycle {
 public:
  RequestLifecycle(Scheduler& scheduler, PageExporter& exporter, SpeculativeDecoder& drafts, ImageStage& images,
                   const StepReports& reports)
      : scheduler_(scheduler),
        exporter_(exporter),
        drafts_(drafts),
        images_(images),
        gauges_(reports.gauges),
        counters_(reports.counters) {}

  // These functions are documented in StepLoop.
  void add(std::unique_ptr<Request> request);
  void refuse(std::unique_ptr<Request> request, FailureCode code, std::string_view message);
  void cancel(RequestId id);
  void finish_choice(RequestId id, int choice);
  void cancel_channel(const Channel& channel);
  void drain();
  void fail_all(FailureCode code, const std::string& message);
  bool idle() const { return requests_.empty() && unreported_.empty(); }
  bool has_unpublished() const { return !touched_.empty(); }
  std::vector<RequestId>& ended() { return ended_; }

  // Ends requests that exceed queue_wait_ms or generation_ms.
  void expire(Clock::time_point now);
  // Marks the plan's requests as started, unless they are already marked.
  void start(const StepPlan& plan, Clock::time_point now);
  void finish(Sequence& sequence, FinishReason reason, int stop_index = -1);
  // Ends all choices of the request, including choices that have not been forked yet.
  void finish_all_choices(Request& request, FinishReason reason);
  void fail(Request& request, FailureCode code, std::string_view message);
  void fail_by_grammar(Request& request);
  // Fails the request for lack of memory, unless it has ended.
  void fail_for_memory(Request& request);
  // Fails all requests that are marked Request::out_of_memory.
  void fail_out_of_memory();
  // Runs `work`, which allocates memory for this request only. The request fails if this allocation fails, or if an
  // earlier allocation has failed (Request::out_of_memory).
  template <typename Work>
  void guard(Request& request, Work&& work) {
    if (request.out_of_memory) return fail_for_memory(request);
    try {
      work();
    } catch (const std::bad_alloc&) {
      fail_for_memory(request);
    }
  }

  // Returns the buffer for the event records that this step writes for the request.
  std::vector<std::byte>& records_of(const Request& request);
  // Call after a new plan has been made, when the previous plan is no longer in use.
  void plan_made() { retired_.swap(retired_before_); }
  // Publishes this step's records to the channels. `in_flight`: whether the last plan is still in use. Records for
  // which there is no memory are kept for the next call.
  void publish(bool in_flight);

 private:
  std::unique_ptr<Request> take(Request& request);
  void end(Request& request);
  bool report(const Request& request, FailureCode code, std::string_view message);
  void report_failures();

  Scheduler& scheduler_;
  PageExporter& exporter_;
  SpeculativeDecoder& drafts_;
  ImageStage& images_;
  StepGauges& gauges_;
  EngineCounters& counters_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  // Requests that ended after the last plan was made, and requests that ended before that.
  RequestList retired_, retired_before_;
  RequestList unreported_;        // Failed requests whose failure record is not written yet, for lack of memory.
  std::vector<RequestId> ended_;  // Its capacity is sufficient for all live requests.
  std::vector<std::shared_ptr<Channel>> touched_;  // Channels with records of this step.
  std::vector<Request*> expired_;                  // Scratch of expire().
};

}  // namespace monolith
