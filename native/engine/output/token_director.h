// State machine for a sequence's output. It forces the end of the reasoning when the budget is used up, forces required
// tool calls, and starts and ends forced sequences and grammars as tokens are sampled. One per engine; all state is in
// the sequences. Engine thread only.
#pragma once

#include "engine/sequence.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

class Constraints;

class TokenDirector {
 public:
  explicit TokenDirector(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // State of a sequence before a token's text was added.
  struct Before {
    bool scripted, in_reasoning, in_call;
  };
  static Before before(const Sequence& sequence) {
    return {sequence.output.script.active(), sequence.output.text.in_reasoning(), sequence.output.text.in_call()};
  }

  // Whether direct() has anything to do.
  static bool must_direct(const Sequence& sequence);
  // Must be called before a token is sampled. Starts to force the end of the reasoning if the budget is used up, and a
  // required tool call or header if the content begins.
  static void direct(Sequence& sequence, DeltaSink& sink);
  // Returns whether this sampled token must be replaced with forced tokens: a tool call or the output format is
  // required, and the token would start the content without it or end the turn.
  bool redirect(Sequence& sequence, TokenId token, DeltaSink& sink) const;
  // Advances the state by a sampled token that is about to be appended. kFailed: a grammar exceeded its limits.
  // kOutOfBudget: the engine thread's grammar budget is used up; nothing has changed.
  static grammar::Grammar::Outcome read(Sequence& sequence, TokenId token, Constraints& constraints);
  // Must be called for sampled tokens, before read(). After an open marker within content that has headers: a token
  // that starts a header starts the header's forced sequence; any other token means that the marker was plain text.
  static void settle_marker(Sequence& sequence, TokenId token, DeltaSink& sink);
  // Advances the forced sequence after the token's text has been added. Returns true if the turn ends with this token.
  static bool advance_script(Sequence& sequence, TokenId token, const Before& before, DeltaSink& sink);
  // Handles the end of the active grammar. Returns true if the turn ends with it.
  static bool end_grammar(Sequence& sequence, DeltaSink& sink);
  // Starts forced sequences after a token. An open marker is followed by one of the call prefixes. If a call or the
  // output format is required, the rest of `close_sequence` follows the reasoning's close marker that the model itself
  // has generated.
  static void follow(Sequence& sequence, TokenId token, const Before& before);

 private:
  static void close_reasoning(Sequence& sequence, DeltaSink& sink);
  static bool close_call(Sequence& sequence, DeltaSink& sink);

  const Tokenizer& tokenizer_;
};

}  // namespace monolith
