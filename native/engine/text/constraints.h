// What may come next in a sequence, by its script or its rule: the tokens the sampler chooses among, those it is not
// asked about because nothing else may come, and guesses that may be made. Masks are looked for ahead on a thread of
// their own (mask_ahead.h). Engine thread only.
#pragma once

#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/schedule/sequence.h"
#include "engine/text/mask_ahead.h"
#include "text/grammar/grammar.h"

namespace monolith {

// What a constraint refers to.
struct Allowance {
  explicit Allowance(int n_vocab) : mask(static_cast<size_t>(n_vocab)) { list.reserve(kMaxCallPrefixes); }
  std::vector<TokenId> list;  // by a script; empty: every token
  grammar::TokenMask mask;    // by a rule
};

class Constraints {
 public:
  // kFailed: a grammar has outgrown its limits, or nothing may come. kSpent: finding the allowed tokens takes longer than
  // this thread may spend.
  using Outcome = grammar::Grammar::Outcome;

  // `rule_steps`: how many steps of grammars this thread may spend in one step of the engine, half of them for one sequence
  // at once. MaskAhead's threads do the rest.
  Constraints(const Tokenizer& tokenizer, int n_vocab, uint64_t rule_steps);

  // If not, constrain() finds that every token may come.
  static bool may_hold(const Sequence& sequence) {
    return sequence.script.active() || sequence.rule.active() || sequence.format_due || sequence.after_call != nullptr;
  }
  // What may come next, as `into` has it.
  Outcome constrain(Sequence& sequence, Allowance& into, TokenConstraint& constraint);
  // Whether only the sampler can tell what comes next. A sequence with a rule is examined when its tokens are taken, one
  // that has no rule yet in its turn.
  bool is_open(const Sequence& sequence);
  // Puts the tokens that must come next into forced(): the next one of a script, or the forced ones of a rule. None where
  // logprobs are wanted: these need logits.
  Outcome find_forced(Sequence& sequence);
  const std::vector<TokenId>& forced() const { return forced_; }
  // Has a rule, which has read all of the sequence from its first token on, read the next one. kRefused: it may not come;
  // kSpent: nothing has changed.
  Outcome advance(Rule& rule, const Sequence& sequence, TokenId token);
  // How many of the guesses a rule lets through. What it allows behind each is looked up ahead.
  size_t count_allowed(Sequence& sequence, std::span<const TokenId> guesses);

  // Before a step: sequences whose rule was still being worked on (Sequence::rule_due) go on if the answer is there. The
  // others are looked after in turn, one of each organization before a second of any.
  void see_to_due(const std::vector<Sequence*>& preempted);
  // The sequence's next mask is wanted after the next step.
  void look_ahead(const Sequence& sequence) {
    if (sequence.rule.active()) mask_ahead_.add(sequence.rule, tokenizer_for(sequence));
  }
  // Starts the search for all masks that were asked for; false: none were.
  bool start_looking_ahead() { return mask_ahead_.start(); }

 private:
  template <class Work>
  Outcome by_rule(Work work);
  static Rule rule_of(const Sequence& sequence);
  const Tokenizer* tokenizer_for(const Sequence& sequence) const;
  Outcome constrain_beginning(Sequence& sequence, grammar::TokenMask& mask);
  void allow_ends(const Request& request, bool allowed, grammar::TokenMask& mask) const;
  static void allow_calls(const Request& request, grammar::TokenMask& mask);
  bool may_be_forced(const Request& request, TokenId token) const;

  const Tokenizer& tokenizer_;
  const int n_vocab_;
  const uint64_t rule_steps_;
  const bool forces_rules_;          // the tokenizer cuts what a rule leaves no choice about
  grammar::TokenMask ends_;          // end-of-generation tokens
  std::vector<TokenId> plain_ends_;  // of these, those a grammar takes for text
  std::vector<TokenId> forced_;
  std::vector<TokenId> scripted_;  // scratch
  MaskAhead mask_ahead_;
  grammar::Fuel rule_fuel_;                           // of this step
  std::vector<std::pair<Sequence*, ptrdiff_t>> due_;  // scratch of see_to_due, with their turns
  size_t first_due_ = 0;                              // whose turn it is, by then
};

}  // namespace monolith
