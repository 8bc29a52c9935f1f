// One engine's work without its threads, one step at a time. All functions must be called by the thread that calls
// step(): the engine thread, or a test. StepLoop only decides the order of the work. The work itself is done by:
//
//   RequestLifecycle    requests: added, started, finished, failed, cancelled, timed out
//   ImageStage          image embeddings: a part of the work after each step
//   Scheduler           which tokens a step computes, and which pages hold them
//   SpeculativeDecoder  draft tokens for the step
//   BatchBuilder        the model's input
//   SampleRequests      sampling tasks of all logit rows
//   TokenAcceptor       accepted tokens and their effects, as OutputState determines them
//   TextOutput          deferred text
//   PendingMasks        sequences that wait for the mask of a grammar
//   StepGauges          statistics for other threads
//
// A step is submitted and completed. With an asynchronous backend, one step is in flight between two calls of step():
//
//   device   [ step n            ][ sampling ]          [ step n + 1           ][ sampling ]
//   host     text of n - 1, publish    await   complete n, submit n + 1   samples, text of n, publish   await
//                                              └─ the device waits only for this ─┘
//
// With other backends, or if overlapping is disabled, step() completes the step that it submits.
//
// In the steady state, when no request starts or ends, a step allocates nothing. Plan, batch and sampling use memory
// allocated at construction, sequences use memory allocated at admission, and event buffers keep their capacity.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/images/image_stage.h"
#include "engine/loop/batch_builder.h"
#include "engine/loop/pending_masks.h"
#include "engine/loop/token_acceptor.h"
#include "engine/tiers/page_tier.h"
#include "model/model.h"

namespace monolith {

class StepLoop {
 public:
  // `draft`: a draft model with the same vocabulary; null if there is none. `encoder`: a vision encoder that computes
  // image embeddings; null if there is none. `wake` is called on another thread when a sequence that step() could not
  // schedule can continue, because its grammar mask is ready. It must not block.
  StepLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options, EngineCounters& counters,
           Model* draft = nullptr, VisionEncoder* encoder = nullptr, std::function<void()> wake = nullptr);

  // Maximum length of prompt plus output of a sequence, limited by the model's context and by its KV pages.
  static int max_context(const Model& model);
  static int vocabulary(const Model& model, const Tokenizer& tokenizer);

  // Adds a request. If memory runs out, the request fails and a failure record is written.
  void add(std::unique_ptr<Request> request);
  // Ends a request with the given failure without adding it first.
  void refuse(std::unique_ptr<Request> request, FailureCode code, std::string_view message) {
    requests_.refuse(std::move(request), code, message);
  }
  void cancel(RequestId id) { requests_.cancel(id); }  // Cancels a request; unknown ids are ignored.
  // Ends one choice with kEndOfTurn, even before its first token. Unknown ids and finished choices are ignored.
  void finish_choice(RequestId id, int choice) { requests_.finish_choice(id, choice); }
  void cancel_channel(const Channel& channel) { requests_.cancel_channel(channel); }
  void configure(const EngineTunables& tunables);  // Ignores the queue limits, which are enforced at submission.
  // Ends all started requests with kTimeLimit and fails all waiting requests with kShutdown.
  void drain() { requests_.drain(); }
  // Ends every request with the given failure.
  void fail_all(FailureCode code, const std::string& message);

  // Runs one step. With overlapping steps: completes the step in flight and submits the next one. Returns false if
  // there was nothing to compute: the engine is idle, or full channels or pending grammar masks block all sequences. If
  // an allocation for one request fails, only that request fails.
  bool step();
  // Waits for the results of the step in flight, if any. step() then processes the results. Requests and cancellations
  // that arrive before this step() call are included in the next step.
  void await();
  // Publishes records that were written outside step(), by drain() or fail_all().
  void publish();

  bool idle() const { return requests_.idle(); }
  // The storage tier below the page pool. step() copies pages to and from the tier, even while there are no requests.
  PageTier& tier() { return tier_; }
  // Returns true if records could not be published for lack of memory. The next step() or publish() tries again.
  bool has_unpublished() const { return requests_.has_unpublished(); }
  // Ids of requests that ended since the caller last cleared the list.
  std::vector<RequestId>& ended() { return requests_.ended(); }
  // Returns true if all page references are accounted for. Takes O(pages) time.
  bool consistent() const { return tier_.consistent() && drafts_.consistent(); }
  // These accessors may be called only between two steps.
  const Scheduler& scheduler() const { return scheduler_; }
  const PrefixCache& cache() const { return cache_; }

 private:
  // A step that was submitted. Its plan is valid until the next plan is made.
  struct InFlight {
    const StepPlan* plan = nullptr;  // Null if no step is in flight.
    const float* logits = nullptr;
    Clock::time_point begun_at, answered_at;
    bool answered = false;     // The results have arrived, so the tokens can be taken.
    bool finds_masks = false;  // A worker thread is computing grammar masks for this step.
  };

  void begin(Clock::time_point now);
  void request_samples();
  std::optional<Clock::time_point> complete();
  void take(const StepPlan::Item& item, const float* logits, std::span<const int32_t> tasks);
  const float* compute(const StepPlan& plan);
  void note_step(const StepPlan& plan, Clock::duration duration);
  bool decodes() const;
  void note_copies();
  bool run_vision(Clock::duration step);

  Model& model_;
  EngineCounters& counters_;
  const int max_context_, n_vocab_;
  PrefixCache cache_;
  Scheduler scheduler_;
  PageTier tier_;
  PrefillBudget pace_;
  BatchBuilder batch_;
  GrammarRunner grammars_;
  PendingMasks pending_masks_;
  SpeculativeDecoder drafts_;
  SampleRequests samples_;
  const bool overlaps_;
  StepGauges gauges_;
  ImageStage images_;
  RequestLifecycle requests_;
  TextOutput texts_;
  TokenAcceptor acceptor_;
  InFlight in_flight_;
  bool sees_ = false;  // Images were computed after the last step.
};

}  // namespace monolith
