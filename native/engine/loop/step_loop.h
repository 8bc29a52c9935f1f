// One engine's work without its threads, a step at a time. Everything here belongs to whoever calls step(): the engine
// thread, or a test. This part says when things happen; what happens is the parts':
//
//   RequestLifecycle   who is there: added, started, finished, failed, cancelled, out of time
//   ImageStage         what images bring: a bit of it after each step
//   Scheduler          which tokens a step computes, whose pages hold them
//   StepGuesses        the guesses it computes beside them
//   BatchBuilder       the batch the model gets
//   SampleRequests     what is asked of the sampler, of all rows at once
//   TokenAcceptor      which tokens are taken, and what follows from them: Constraints, TokenDirector, TextOutput
//   StepGauges         what others may know of it
//
// A step is begun and completed. Where the backend computes asynchronously, one is in flight between two calls of step():
//
//   device   [ step n            ][ sampling ]          [ step n + 1           ][ sampling ]
//   host     texts of n - 1, publish    await   complete n, begin n + 1   samples, texts of n, publish   await
//                                               └─ all that the device waits for ─┘
//
// Elsewhere, or if it is told so, step() completes what it has begun and leaves nothing in flight.
//
// In the steady state (no request starts or ends) a step allocates nothing: plan, batch and sampling use what was
// allocated at construction, sequences what was allocated at submission, and event buffers keep their capacity.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/images/image_stage.h"
#include "engine/loop/batch_builder.h"
#include "engine/loop/token_acceptor.h"
#include "model/model.h"

namespace monolith {

class StepLoop {
 public:  // `draft`: of the same vocabulary, guesses what may come next; null: none does.
  // `tower`: computes the rows of images; null: none does.
  StepLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options, EngineCounters& counters,
           Model* draft = nullptr, VisionTower* tower = nullptr);

  // Prompt plus output a sequence may have: what the model's limits allow and its pages can hold.
  static int max_context(const Model& model);
  static int vocabulary(const Model& model, const Tokenizer& tokenizer);

  void add(std::unique_ptr<Request> request);
  void cancel(RequestId id) { requests_.cancel(id); }  // unknown ids are ignored
  // Ends one choice as kEndOfTurn, before its first token if it has none; unknown ids and ended choices are
  // ignored.
  void finish_choice(RequestId id, int choice) { requests_.finish_choice(id, choice); }
  void cancel_channel(const Channel& channel) { requests_.cancel_channel(channel); }
  void configure(const EngineTunables& tunables);  // the queue's bounds are not its affair
  // Everything started ends as kTimeLimit, everything waiting fails as kShutdown.
  void drain() { requests_.drain(); }
  // Ends every request with this failure.
  void fail_all(FailureCode code, const std::string& message);

  // One step. False if there was nothing to compute: idle, or all is held up by full channels. Where steps overlap: the
  // tokens of the one in flight, and the next one begun.
  bool step();
  // Waits for the answers of the step in flight, if there is one; step() takes them. Requests and cancellations that are
  // handed in between the two count for the next step.
  void await();
  // Hands over records written outside step() (by drain() and fail_all()).
  void publish();

  bool idle() const { return requests_.idle(); }
  // Ids that ended since the caller last cleared the list.
  std::vector<RequestId>& ended() { return requests_.ended(); }
  // All pages accounted for. O(pages).
  bool consistent() const { return scheduler_.consistent() && guesses_.consistent(); }
  // To be looked at between two steps.
  const Scheduler& scheduler() const { return scheduler_; }
  const PrefixCache& cache() const { return cache_; }

 private:
  // A step that was begun. Its plan is valid until the next one is made.
  struct InFlight {
    const StepPlan* plan = nullptr;  // null: there is none
    const float* logits = nullptr;
    Clock::time_point begun_at, answered_at;
    bool answered = false;     // its tokens can be taken
    bool finds_masks = false;  // on another thread, meanwhile
  };

  void begin(Clock::time_point now);
  void request_samples();
  std::optional<Clock::time_point> complete();
  const float* compute(const StepPlan& plan);
  void note_step(const StepPlan& plan, Clock::duration duration);
  bool see(Clock::duration step);

  Model& model_;
  EngineCounters& counters_;
  const int max_context_, n_vocab_;
  PrefixCache cache_;
  Scheduler scheduler_;
  StepPace pace_;
  BatchBuilder batch_;
  Constraints constraints_;
  StepGuesses guesses_;
  SampleRequests samples_;
  const bool overlaps_;
  StepGauges gauges_;
  ImageStage images_;
  RequestLifecycle requests_;
  TextOutput texts_;
  TokenAcceptor acceptor_;
  InFlight in_flight_;
  bool sees_ = false;  // images were computed behind the last step
};

}  // namespace monolith
