// From the rows of logits of a sequence to its tokens: which are taken, and what follows from each: text, the end of the
// answer, what the engine writes next. Sequences take their tokens one after the other, in the order of the plan, as if
// each had been sampled just then. Engine thread only.
//
// Where steps overlap, a token whose text cannot change what comes next is noted, and its text waits (text_output.h). So
// a stop string may be found while the sequence's next token is being computed. Such a row is skipped when results are
// taken, as are rows of requests that were cancelled or timed out meanwhile. Their pages may go to others at once: the
// device works in order. Pages that such a row has put into the prefix cache are right: they were computed from
// tokens that are really there.
#pragma once

#include <cstdint>
#include <span>

#include "engine/loop/text_output.h"
#include "engine/sampling/sample_requests.h"
#include "engine/text/token_director.h"

namespace monolith {

// The other parts that tokens go through; they outlive this one.
struct AcceptorParts {
  const Tokenizer& tokenizer;
  Scheduler& scheduler;
  Constraints& constraints;
  SampleRequests& samples;
  StepGuesses& guesses;
  RequestLifecycle& requests;
  TextOutput& texts;
  EngineCounters& counters;
};

class TokenAcceptor {
 public:
  // `row_width`: from one row of logits to the next. `writes_later`: texts may wait.
  TokenAcceptor(const AcceptorParts& parts, int max_context, int row_width, bool writes_later)
      : parts_(parts),
        director_(parts.tokenizer),
        max_context_(max_context),
        row_width_(row_width),
        may_write_later_(writes_later) {}

  // Takes the tokens of an item that wanted logits: one sequence's, or at the end of the prompt every choice's.
  // `tasks`: what SampleRequests has for each of its rows.
  void take(const StepPlan::Item& item, const float* logits, std::span<const int32_t> tasks);
  // Tells the log-probabilities of the prompt's tokens that an item has computed; `tasks`: of its scored rows.
  void take_scores(const StepPlan::Item& item, std::span<const int32_t> tasks);

 private:
  // What a sequence takes its tokens from: the row of its newest token, and one behind each guess.
  struct Rows {
    const float* logits;  // of the newest token; null: it is not computed
    std::span<const int32_t> tasks;
    std::span<const TokenId> guesses;  // still to be compared
    int n_right = 0;                   // guesses that were
    bool then_wrong = false;
    bool writes_later = false;
  };

  void take_first_tokens(Request& request, const float* logits);
  void take_tokens(Sequence& sequence, Rows rows);
  bool take_all(Sequence& sequence, Rows& rows, EventWriter& writer);
  void stop_by_rule(Sequence& sequence, Constraints::Outcome outcome, TokenId token = kNoToken);
  const SampleResult* sample(Sequence& sequence, const Rows& rows, bool is_open, EventWriter& writer);
  bool accept(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, Rows& rows, EventWriter& writer);
  bool writes_later(const Sequence& sequence, int32_t task) const;

  const AcceptorParts parts_;
  const TokenDirector director_;
  std::vector<const TokenLogprobs*> scores_;  // scratch
  const int max_context_, row_width_;
  const bool may_write_later_;
};

}  // namespace monolith
