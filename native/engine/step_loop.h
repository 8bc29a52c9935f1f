// One engine's work without its threads: step() = expire, plan, forward, sample, publish. Everything here
// belongs to whoever calls step(): the engine thread, or a test.
//
// In the steady state (no request starts or ends) a step allocates nothing: plan, batch and sampling use
// what was allocated at construction, sequences what was allocated at submission, and event buffers keep
// their capacity.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/draft_model.h"
#include "engine/engine_counters.h"
#include "engine/event_writer.h"
#include "engine/mask_ahead.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "model/model.h"

namespace monolith {

class StepLoop {
 public:  // `draft`: of the same vocabulary, guesses what may come next; null: none does.
  StepLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options, EngineCounters& counters, Model* draft = nullptr);

  // Prompt plus output a sequence may have: what the model's limits allow and its pages can hold.
  static int max_context(const Model& model);
  static int vocabulary(const Model& model, const Tokenizer& tokenizer);

  void add(std::unique_ptr<Request> request);
  void cancel(RequestId id);                       // unknown ids are ignored
  // Ends one choice as kEndOfTurn, before its first token if it has none; unknown ids and ended choices are
  // ignored.
  void finish_choice(RequestId id, int choice);
  void cancel_channel(const Channel& channel);
  void configure(const EngineTunables& tunables);   // the queue's bounds are not its affair
  // Everything started ends as kTimeLimit, everything waiting fails as kShutdown.
  void drain();
  // Ends every request with this failure.
  void fail_all(FailureCode code, const std::string& message);

  // One step. False if there was nothing to compute: idle, or all is held up by full channels.
  bool step();
  // Hands over records written outside step() (by drain() and fail_all()).
  void publish();

  bool idle() const { return requests_.empty(); }
  // Ids that ended since the caller last cleared the list.
  std::vector<RequestId>& ended() { return ended_; }
  // All pages accounted for. O(pages).
  bool consistent() const { return scheduler_.consistent() && (!draft_ || draft_->consistent()); }

 private:
  void expire(Clock::time_point now);
  void start_requests(const StepPlan& plan, Clock::time_point now);
  void guess(const StepPlan& plan);
  void draft();
  void add_guesses(const StepPlan::Item& item, std::span<const TokenId> guesses);
  void settle_draft(int n_guesses, int n_right, bool then_wrong);
  size_t cut_by_rule(Sequence& sequence, std::span<const TokenId> guesses);
  const float* compute(const StepPlan& plan);
  void take_row(Sequence& sequence, const float* logits, int n_guesses);
  void take_tokens(Sequence& sequence, const float* logits, std::span<const TokenId> guesses);
  TokenId sample(Sequence& sequence, const float* logits, EventWriter& writer);
  bool find_forced(Sequence& sequence);
  bool accept(Sequence& sequence, TokenId token, bool is_computed, const TokenLogprobs* logprobs, EventWriter& writer);
  void direct(Sequence& sequence, EventWriter& writer) const;
  bool constrain(Sequence& sequence, TokenConstraint& constraint);
  bool constrain_beginning(Sequence& sequence);
  bool read_by_rule(Sequence& sequence, TokenId token);
  void end_rule(Sequence& sequence, EventWriter& writer) const;
  void end_script(Sequence& sequence, bool was_in_reasoning, EventWriter& writer) const;
  void add_ends(const Request& request, bool allowed);
  void add_starts(const Request& request);
  bool redirect(Sequence& sequence, TokenId token, EventWriter& writer) const;
  void close_reasoning(Sequence& sequence, EventWriter& writer) const;
  void follow(Sequence& sequence, TokenId token, bool was_in_reasoning, bool was_in_call) const;
  int push_text(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, EventWriter& writer) const;
  bool ends_generation(const Request& request, TokenId token) const;
  std::string_view rendered(TokenId token) const;

  void finish(Sequence& sequence, FinishReason reason, int stop_index = -1);
  void finish_all_choices(Request& request, FinishReason reason);
  void fail(Request& request, FailureCode code, std::string_view message);
  void fail_by_rule(Request& request);
  void end(Request& request);   // it is destroyed when the step is over
  std::vector<std::byte>& records_of(Request& request);
  void update_gauges();

  Model& model_;
  const Tokenizer& tokenizer_;
  EngineCounters& counters_;
  const int max_context_;
  const int n_vocab_;
  const bool forces_rules_;         // the tokenizer cuts what a rule leaves no choice about
  PrefixCache cache_;
  const Speculation speculation_;
  StepPace pace_;
  GuessPace guess_pace_;
  DraftPace draft_pace_;
  std::unique_ptr<DraftModel> draft_;   // null: there is none
  std::vector<DraftWish> wishes_;       // of this step
  std::vector<const StepPlan::Item*> wish_items_;
  double draft_ms_ = 0;                 // of this step, spent on drafts
  int n_decodes_ = 1;                   // of the last step with guesses
  Scheduler scheduler_;
  Sampler sampler_;
  TokenLogprobs logprobs_;          // of the token being taken
  std::vector<TokenId> forced_;     // come next without a choice
  std::vector<TokenId> allowed_;    // by the script of its sequence; empty: every token
  grammar::TokenMask mask_;         // by its rule
  grammar::TokenMask ends_;         // end-of-generation tokens
  std::vector<TokenId> plain_ends_; // of these, those a grammar takes for text
  MaskAhead mask_ahead_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  std::vector<std::unique_ptr<Request>> graveyard_;   // ended in this step; the plan may still point there
  std::vector<RequestId> ended_;
  std::vector<std::shared_ptr<Channel>> touched_;     // have records of this step
  std::vector<Request*> found_;                       // scratch
  size_t waiting_seen_ = 0, waiting_tokens_seen_ = 0;   // of counters_.queue

  // The step's batch.
  std::vector<int32_t> tokens_, logit_rows_;
  std::vector<Segment> segments_;
};

}  // namespace monolith
