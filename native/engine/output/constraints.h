// Structured output: determines which tokens may come next in a sequence, according to its forced sequence or grammar.
// Provides masks for the sampler, forced tokens that need no sampling, and the allowed prefix of draft tokens. Masks
// are prefetched on a worker thread (mask_prefetcher.h). Engine thread only.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/sequence.h"
#include "engine/output/mask_prefetcher.h"
#include "text/grammar/grammar.h"

namespace monolith {

// Storage for the allowed tokens to which a TokenConstraint refers.
struct AllowedTokens {
  explicit AllowedTokens(int n_vocab) : mask(static_cast<size_t>(n_vocab)) { list.reserve(kMaxCallPrefixes); }
  std::vector<TokenId> list;  // Tokens that a forced sequence allows; empty: every token.
  grammar::TokenMask mask;    // Tokens that a grammar allows.
};

class Constraints {
 public:
  // kFailed: a grammar exceeded its limits, or no token is allowed. kOutOfBudget: determining the allowed tokens would
  // exceed the engine thread's budget.
  using Outcome = grammar::Grammar::Outcome;

  // `grammar_steps`: automaton steps that the engine thread may spend on grammars per engine step; one sequence gets at
  // most half. The worker threads of MaskPrefetcher do the rest. `wake` is called on such a thread when a pending mask
  // (Sequence::mask_pending) is ready.
  Constraints(const Tokenizer& tokenizer, int n_vocab, uint64_t grammar_steps, std::function<void()> wake = nullptr);

  // Whether the next token may be constrained. If false, constrain() would allow every token.
  static bool may_hold(const Sequence& sequence) {
    return sequence.output.script.active() || sequence.output.matcher.active() || sequence.output.format_due ||
           sequence.output.after_call != nullptr;
  }
  // Determines which tokens may come next. `constraint` refers to memory in `into`.
  Outcome constrain(Sequence& sequence, AllowedTokens& into, TokenConstraint& constraint);
  // Whether it is known that no token is forced next, so the sampler decides. For a sequence with a grammar, this is
  // known only after find_forced() has been called for its newest token.
  bool is_open(const Sequence& sequence);
  // Puts the tokens that must come next into forced(): the next token of a forced sequence, or the tokens that the
  // grammar forces. Empty if logprobs are requested, because these need logits.
  Outcome find_forced(Sequence& sequence);
  const std::vector<TokenId>& forced() const { return forced_; }
  // Advances a grammar by the next token. `matcher` must already have read all of the sequence's tokens, starting at
  // matcher.first. kRefused: the token is not allowed. kOutOfBudget: the budget ran out; nothing has changed.
  Outcome advance(GrammarMatcher& matcher, const Sequence& sequence, TokenId token);
  // Returns the number of leading draft tokens that the grammar allows. Also prefetches the mask after each of them.
  size_t count_allowed(Sequence& sequence, std::span<const TokenId> drafts);

  // Call before each step: unblocks sequences whose pending mask (Sequence::mask_pending) is ready. The others are
  // queued for the worker thread in turn: one sequence of each organization before a second one of any. Returns false
  // if memory ran out for a sequence (Request::out_of_memory).
  bool see_to_due(const std::vector<ScheduledSequence*>& preempted);
  // Requests prefetching of the sequence's next mask, which is needed after the next step.
  void look_ahead(const Sequence& sequence) {
    if (sequence.output.matcher.active()) mask_ahead_.add(sequence.output.matcher, tokenizer_for(sequence));
  }
  // Starts the worker thread on all requested masks. Returns false if none were requested.
  bool start_looking_ahead() { return mask_ahead_.start(); }

 private:
  template <class Work>
  Outcome within_budget(Work work);
  void see_to(Sequence& sequence);
  static GrammarMatcher matcher_of(const Sequence& sequence);
  const Tokenizer* tokenizer_for(const Sequence& sequence) const;
  Outcome constrain_beginning(Sequence& sequence, grammar::TokenMask& mask);
  void allow_ends(const Request& request, bool allowed, grammar::TokenMask& mask) const;
  static void allow_calls(const Request& request, grammar::TokenMask& mask);
  bool may_be_forced(const Request& request, TokenId token) const;

  const Tokenizer& tokenizer_;
  const int n_vocab_;
  const uint64_t grammar_steps_;
  // Whether tokens that a grammar forces may be inserted without sampling. Requires a tokenizer that reproduces its own
  // vocabulary.
  const bool forces_tokens_;
  grammar::TokenMask ends_;  // End-of-generation tokens.
  // End-of-generation tokens that a grammar treats as text, because they are not control tokens.
  std::vector<TokenId> plain_ends_;
  std::vector<TokenId> forced_;
  std::vector<TokenId> scripted_;  // Scratch: next tokens of a forced sequence.
  MaskPrefetcher mask_ahead_;
  grammar::Fuel grammar_fuel_;                        // Remaining grammar budget of the current step.
  std::vector<std::pair<Sequence*, ptrdiff_t>> due_;  // Scratch for see_to_due(): blocked sequences and their turns.
  size_t first_due_ = 0;                              // Rotates the order in which blocked sequences get their turns.
};

}  // namespace monolith
