// One engine's work without its threads: step() = expire, plan, forward, sample, publish. Everything here
// belongs to whoever calls step(): the engine thread, or a test.
//
// Where the backend computes asynchronously steps overlap (step_loop_flight.cc): one is in flight between two calls of
// step(), and what the host does for the text of its tokens it does while the next one is computed.
//
// Sampling has three parts. What is asked of the sampler whatever else becomes of the step is gathered from all
// sequences, changing none of them (step_loop_ahead.cc); all of it is found at once (batch_sampler.h); then sequence by
// sequence takes its tokens (step_loop_tokens.cc), as if each had been sampled just then.
//
// In the steady state (no request starts or ends) a step allocates nothing: plan, batch and sampling use
// what was allocated at construction, sequences what was allocated at submission, and event buffers keep
// their capacity.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sampling/batch_sampler.h"
#include "engine/guess/draft_model.h"
#include "engine/loop/engine_counters.h"
#include "engine/loop/event_writer.h"
#include "engine/text/mask_ahead.h"
#include "engine/schedule/scheduler.h"
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

  // One step. False if there was nothing to compute: idle, or all is held up by full channels. Where steps overlap: the
  // tokens of the one in flight, and the next one begun.
  bool step();
  // Waits for the answers of the step in flight, if there is one; step() takes them. What is to count for the next step
  // is best handed in between.
  void await();
  // Hands over records written outside step() (by drain() and fail_all()).
  void publish();

  bool idle() const { return requests_.empty(); }
  // Ids that ended since the caller last cleared the list.
  std::vector<RequestId>& ended() { return ended_; }
  // All pages accounted for. O(pages).
  bool consistent() const { return scheduler_.consistent() && (!draft_ || draft_->consistent()); }

 private:
  // Why a row has no task: it must be looked at when its turn comes, or the rule it is under has failed, or what that
  // allows takes longer to find than this thread may spend.
  static constexpr int32_t kNotAsked = -1, kRuleFailed = -2, kRuleDue = -3;
  using RuleOutcome = grammar::Grammar::Outcome;
  // What a constraint refers to.
  struct Allowance {
    explicit Allowance(int n_vocab) : mask(static_cast<size_t>(n_vocab)) { list.reserve(kMaxCallPrefixes); }
    std::vector<TokenId> list;      // by the script of a sequence; empty: every token
    grammar::TokenMask mask;        // by its rule
  };

  // A step the device computes.
  struct Flight {
    const StepPlan* plan = nullptr;   // null: there is none
    const float* logits = nullptr;
    Clock::time_point begun_at, answered_at;
    bool answered = false;            // its tokens can be taken
  };
  // A token that has been taken, and whose text is not written yet.
  struct Unsaid {
    Sequence* sequence;
    TokenId token;
    int32_t logprobs;                 // in unsaid_logprobs_; -1: none wanted
  };

  bool step_in_order();
  bool step_in_flight();
  bool begin_flight(Clock::time_point now);
  void ask();
  void land();
  bool take_quickly(Sequence& sequence, int32_t task);
  static bool is_plain(const Sequence& sequence);
  void say(const Unsaid& unsaid);
  void say_of(const Request& request);
  void say_all();
  void note_step(const StepPlan& plan, Clock::duration duration);
  void note_progress(Clock::time_point now);

  void expire(Clock::time_point now);
  void start_requests(const StepPlan& plan, Clock::time_point now);
  void guess(const StepPlan& plan);
  void draft();
  void add_guesses(const StepPlan::Item& item, std::span<const TokenId> guesses);
  void settle_draft(int n_guesses, int n_right, bool then_wrong);
  size_t cut_by_rule(Sequence& sequence, std::span<const TokenId> guesses);
  const float* compute(const StepPlan& plan);
  void ask_ahead(const StepPlan& plan, const float* logits);
  int32_t ask_ahead(Sequence& sequence, const float* logits);
  bool is_open(const Sequence& sequence);
  static bool may_be_constrained(const Sequence& sequence);
  void take_row(Sequence& sequence, const float* logits, int n_guesses, std::span<const int32_t> ahead);
  void take_tokens(Sequence& sequence, const float* logits, std::span<const TokenId> guesses, std::span<const int32_t> ahead);
  const SampleResult* sample(Sequence& sequence, const float* logits, const SampleResult* ahead, bool is_open, EventWriter& writer);
  SampleTask task_of(const Sequence& sequence, const float* logits, int n_behind, const TokenConstraint& constraint) const;
  template <class Work> RuleOutcome by_rule(Work work);
  void mind_rules();
  static void wait_for_rule(Sequence& sequence, TokenId token = kNoToken);
  Rule rule_of(const Sequence& sequence) const;
  const Tokenizer* tokenizer_for(const Sequence& sequence) const;
  RuleOutcome find_forced(Sequence& sequence);
  void append(Sequence& sequence, TokenId token);
  bool accept(Sequence& sequence, TokenId token, bool is_computed, const TokenLogprobs* logprobs, EventWriter& writer);
  void direct(Sequence& sequence, EventWriter& writer) const;
  static bool must_direct(const Sequence& sequence);
  RuleOutcome constrain(Sequence& sequence, Allowance& into, TokenConstraint& constraint);
  RuleOutcome constrain_beginning(Sequence& sequence, grammar::TokenMask& mask);
  RuleOutcome read_by_rule(Sequence& sequence, TokenId token);
  void end_rule(Sequence& sequence, EventWriter& writer) const;
  void end_script(Sequence& sequence, bool was_in_reasoning, EventWriter& writer) const;
  void add_ends(const Request& request, bool allowed, grammar::TokenMask& mask) const;
  void add_starts(const Request& request, grammar::TokenMask& mask) const;
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
  BatchSampler sampler_;
  const bool overlaps_;
  Flight flight_;
  std::vector<Unsaid> unsaid_;      // in the order of their step
  std::vector<SampleResult> unsaid_logprobs_;
  std::vector<int32_t> ahead_;      // for each row of logits the number of its task, or one of the reasons why there is none
  std::deque<Allowance> allowances_;   // of tasks; grows to the most that a step has had
  size_t n_allowances_ = 0;         // of this step
  Allowance allowance_;             // of what is sampled by itself
  std::vector<TokenId> forced_;     // come next without a choice
  grammar::TokenMask ends_;         // end-of-generation tokens
  std::vector<TokenId> plain_ends_; // of these, those a grammar takes for text
  MaskAhead mask_ahead_;
  const uint64_t rule_steps_;
  grammar::Fuel rule_fuel_;         // of this step
  std::vector<std::pair<Sequence*, ptrdiff_t>> due_;   // scratch of mind_rules, with their turns
  size_t first_due_ = 0;            // whose turn it is, by then
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  // Ended since the last plan was made: that may still point there. And before: nothing does but what is unsaid.
  std::vector<std::unique_ptr<Request>> graveyard_, forgotten_;
  std::vector<RequestId> ended_;
  std::vector<std::shared_ptr<Channel>> touched_;     // have records of this step
  std::vector<Request*> found_;                       // scratch
  size_t waiting_seen_ = 0, waiting_tokens_seen_ = 0;   // of counters_.queue

  // The step's batch.
  std::vector<int32_t> tokens_, logit_rows_;
  std::vector<Segment> segments_;
};

}  // namespace monolith
