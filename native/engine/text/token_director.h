// Where a sequence's text leads: the engine writes the end of a reasoning whose budget is used up, and calls that are due;
// what was sampled begins scripts and rules, and ends them. One per engine, its state is in the sequences. Engine thread
// only.
#pragma once

#include "engine/schedule/sequence.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

class Constraints;

class TokenDirector {
 public:
  explicit TokenDirector(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // What a sequence was in before a token's text was pushed.
  struct Before {
    bool scripted, in_reasoning, in_call;
  };
  static Before before(const Sequence& sequence) {
    return {sequence.script.active(), sequence.text.in_reasoning(), sequence.text.in_call()};
  }

  // Whether direct() has anything to do.
  static bool must_direct(const Sequence& sequence);
  // Before a token is sampled: the engine writes the end of the reasoning when the budget is used up, and the call that
  // is due when the content begins.
  static void direct(Sequence& sequence, PieceSink& sink);
  // True if the engine must write something else than this sampled token, because a call or a format is due: where the
  // content would begin without it, or the turn end.
  bool redirect(Sequence& sequence, TokenId token, PieceSink& sink) const;
  // A token that no script has asked for, and that is about to be the sequence's newest: where it leads. kFailed: a grammar
  // has outgrown its limits; kSpent: this thread has none of its time left for that, and nothing has changed.
  static grammar::Grammar::Outcome read(Sequence& sequence, TokenId token, Constraints& constraints);
  // A token that no script has asked for, before read(): behind a marker within content that has a header of its own, one that
  // begins a header begins its script; with any other the marker was text.
  static void settle_marker(Sequence& sequence, TokenId token, PieceSink& sink);
  // Its text has been pushed: a script goes on. True if the turn ends with it.
  static bool advance_script(Sequence& sequence, TokenId token, const Before& before, PieceSink& sink);
  // A rule has come to its end. True if the turn ends with it.
  static bool end_rule(Sequence& sequence, PieceSink& sink);
  // After a token: an open marker is followed by one of the prefixes; the reasoning before a call or format that is due,
  // by what the model's own close marker is followed by when the engine writes it.
  static void follow(Sequence& sequence, TokenId token, const Before& before);

 private:
  static void close_reasoning(Sequence& sequence, PieceSink& sink);
  static bool close_call(Sequence& sequence, PieceSink& sink);

  const Tokenizer& tokenizer_;
};

}  // namespace monolith
