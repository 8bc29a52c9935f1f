// State machine of a sequence's output, driven by the generated tokens. It determines what may come next: it tracks the
// sections of the output, forces the tokens that delimit them, and constrains all other tokens by the request's
// grammars.
//
//   kUndecided ──open marker──► kReasoning ──budget used up──► kReasoningEnd
//       │ text                      │ close marker                 │ complete
//       └───────────────────────────┼──────────────────────────────┘
//                                   ▼
//                         the content begins with
//          ┌────────────────────────┼──────────────────────────────┐
//          │ anything               │ a call or a header           │ the output format
//          ▼                        ▼                              ▼
//      kContent ──open marker──► kPrefix ────────header────────► kFormat ──► kDone
//       ▲ ▲ ▲ │                   ▲ │ │
//       │ │ │ └─open marker*─► kMarker│ call
//       │ │ └────plain text───────┘ │ │
//       │ └──────header of content──┘ ▼
//       └────────close marker───── kArguments ──grammar ends──► kBetween ──further call──► kArguments
//                                   │ grammar ends, no kBetween     │ end of the section
//                                   ▼                               │
//                               kAfterCall ◄────────────────────────┘
//                                   ├──another call──► kPrefix
//                                   └──end of the turn──► kDone
//
//   *: if the content has a header, so that the marker may also be plain text
//
// kUndecided, kReasoning, kContent and kArguments without a grammar follow the parser of the text (output_parser.h).
// kReasoningEnd, kPrefix and kBetween write a tag (tag_set.h). Any state ends in kDone: at a token that ends the turn,
// a stop string, a repetition or a limit. If content must begin with a call or the output format, a token of the
// reasoning that would end the turn is replaced with the end of the reasoning.
//
// One per sequence; engine thread only. Apart from the constructor, nothing allocates, except the text that is held
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/output/grammar_runner.h"
#include "engine/output/output_format.h"
#include "engine/output/output_parser.h"
#include "engine/output/repetition_guard.h"

namespace monolith {

class OutputState {
 public:
  // All tokens of the sequence, prompt and output.
  using Tokens = std::span<const TokenId>;

  enum class State : uint8_t {
    kUndecided,  // Only whitespace so far: reasoning or content may follow.
    kReasoning,
    kReasoningEnd,  // The forced end of the reasoning.
    kContent,
    kMarker,     // After an open marker within content: the next token shows whether it is plain text.
    kPrefix,     // The beginning of a tool call, or a header.
    kArguments,  // A tool call, after its prefix.
    kBetween,    // After a tool call: the beginning of a further call, or the end of the section.
    kAfterCall,  // After the tool-call section: whitespace, another call or the end of the turn.
    kFormat,     // Content that follows the output format.
    kDone,
  };

  // The constraint on what comes next. kOpen: any token. kForced: exactly `tokens`, in this order. kAllowed: one of
  // `tokens` or, if that list is empty, one of the tokens in `mask`. kPending: computing the constraint would exceed
  // the grammar budget. kFailed: a grammar exceeded its limits, or no token is allowed.
  struct Next {
    enum class Kind : uint8_t { kOpen, kForced, kAllowed, kPending, kFailed };
    Kind kind = Kind::kOpen;
    std::span<const TokenId> tokens = {};
    std::span<const uint64_t> mask = {};

    static bool is_known(Kind kind) { return kind != Kind::kPending && kind != Kind::kFailed; }
  };
  // The effect of a token. kPending: the token was not accepted, because computing the state after it would exceed the
  // budget. kFailed: a grammar exceeded its limits.
  struct Step {
    enum class Kind : uint8_t { kContinues, kEnds, kPending, kFailed };
    Kind kind = Kind::kContinues;
    FinishReason reason = FinishReason::kEndOfTurn;  // Valid only with kEnds.
    int stop_index = -1;                             // Index of the stop string; -1: none.
  };

  // `format` must outlive the OutputState.
  explicit OutputState(const OutputFormat& format);

  State state() const { return state_; }

  // --- Before a token ---

  // Returns the tokens that are forced next, or kOpen if the next one is sampled. Must be called before a token is
  // sampled, unless is_sampled(): it starts the forced end of the reasoning and the required beginning of the content.
  // The tokens are valid until the next call for any sequence. No tokens are forced if logprobs are requested, because
  // these need logits.
  Next next(GrammarRunner& runner, Tokens tokens, DeltaSink& sink);
  // Whether it is known that next() would return kOpen. For a sequence with a grammar, this is known only after next()
  // has been called for its newest token.
  bool is_sampled(const GrammarRunner& runner, Tokens tokens) const;
  // Whether the next token may be constrained. If false, allowed() would return kOpen.
  bool may_constrain() const { return in_tag() || matcher_.active() || due_ == Due::kFormat || after_call_ != nullptr; }
  // Returns the tokens that may be sampled next. `mask` is the storage for the result's mask.
  Next allowed(GrammarRunner& runner, Tokens tokens, grammar::TokenMask& mask);
  // Tokens that must not be sampled after `generated` tokens of this output, if its section stays the same until then.
  // Null means that only SamplingParams::banned applies.
  const std::vector<TokenId>* banned(int generated) const;
  // Whether the result of banned() may change after this token.
  bool may_change_bans(TokenId token) const {
    return format_.params.bans.always.any() && (text_.undecided() || format_.is_marker(token));
  }
  // Returns the number of leading draft tokens that the grammar allows, and prefetches the mask after each of them.
  // `tokens` must have room for all of them; its contents are unchanged on return.
  size_t count_allowed(GrammarRunner& runner, std::vector<TokenId>& tokens, std::span<const TokenId> drafts) const;
  // Whether a tag is being written. Draft tokens are useless in a tag.
  bool in_tag() const { return tags_ != nullptr; }

  // --- With a token ---

  // Returns true if this sampled token must be rejected: a tool call or the output format is required, and the token
  // would start the content without it or end the turn. In that case, allowed() afterwards returns the tokens to choose
  // from instead.
  bool replaces(const Tokenizer& tokenizer, TokenId token, DeltaSink& sink);
  // Accepts a token that next() or allowed() permits. `tokens`: the sequence's tokens before this token. `logprobs` may
  // be null if the request has none.
  Step accept(GrammarRunner& runner, Tokens tokens, TokenId token, const TokenLogprobs* logprobs, DeltaSink& sink);
  // Whether this token can only continue the output: whatever its text is, no token will be forced or constrained
  // because of it. A stop string may still end the output.
  bool may_defer(const Tokenizer& tokenizer, Tokens tokens, TokenId token) const;
  // Accepts a token that may_defer() permits. Its text must be added with write() before the next call to next() or
  // accept().
  void accept_deferred(Tokens tokens, TokenId token, DeltaSink& sink);
  // Adds the text of a token. Returns the index of a completed stop string, or -1.
  int write(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs* logprobs, DeltaSink& sink);
  // Ends the output: emits all held-back text. Returns the index of a completed stop string, or -1.
  int finish(DeltaSink& sink);
  int reasoning_tokens() const { return text_.reasoning_tokens(); }  // Includes the markers.

  // --- Grammar masks that a worker thread computes ---

  // Requests prefetching of the mask that is needed after the next step.
  void prefetch(GrammarRunner& runner) const;
  // True while a worker thread computes the mask of allowed tokens, or the state after a token. The sequence is not
  // scheduled until the result is ready.
  bool is_blocked() const { return blocked_; }
  // Blocks the sequence after next() or allowed() has returned kPending. Not needed after accept(), which itself blocks
  // the sequence.
  void block(TokenId token = kNoToken);
  // Unblocks the sequence if the result is ready, and otherwise queues it for the worker thread.
  void try_unblock(GrammarRunner& runner, Tokens tokens);

 private:
  using Outcome = grammar::Grammar::Outcome;
  // How the content must start; kNothing once it has started.
  enum class Due : uint8_t { kNothing, kCall, kFormat };
  // The text's section before a token.
  struct Before {
    bool in_tag, in_reasoning, in_call;
  };

  const GenerationRequest& params() const { return format_.params; }
  bool is_over_budget() const;
  bool is_beginning_due() const;
  void begin_content();
  void begin(const TagSet& tags, TagSet::Node node = TagSet::kStart);
  void begin_grammar(const GrammarRef& grammar, size_t first, State state);
  void follow_text();
  void close_reasoning(DeltaSink& sink);
  GrammarMatcher format_matcher(Tokens tokens) const;
  Outcome find_forced(GrammarRunner& runner, Tokens tokens, std::vector<TokenId>*& forced);
  bool may_be_forced(const GrammarRunner& runner, TokenId token) const;
  Outcome allow_beginning(GrammarRunner& runner, Tokens tokens, grammar::TokenMask& mask) const;
  void allow_reasoning(const GrammarRunner& runner, grammar::TokenMask& mask) const;
  void allow_ends(const GrammarRunner& runner, bool allowed, grammar::TokenMask& mask) const;
  void allow_calls(grammar::TokenMask& mask) const;
  void settle_marker(TokenId token, DeltaSink& sink);
  Outcome read(GrammarRunner& runner, Tokens tokens, TokenId token);
  Outcome read_beginning(GrammarRunner& runner, Tokens tokens, TokenId token);
  bool advance_tag(TokenId token, size_t length, DeltaSink& sink);
  bool end_grammar(DeltaSink& sink);
  bool end_calls(DeltaSink& sink);
  void follow(TokenId token, const Before& before);
  Step end(FinishReason reason, int stop_index = -1);
  Tokens generated(Tokens tokens) const { return tokens.subspan(params().prompt.size()); }

  const OutputFormat& format_;
  OutputParser text_;
  RepetitionGuard repetition_;
  State state_ = State::kUndecided;
  Due due_;
  const TagSet* tags_ = nullptr;        // The tags being written, in kReasoningEnd, kPrefix and kBetween.
  TagSet::Node node_ = TagSet::kStart;  // Position in tags_.
  GrammarMatcher matcher_;              // The active grammar, in kFormat and kArguments.
  // Grammar of the last tool call, until something other than whitespace follows the section.
  const GrammarRef* after_call_ = nullptr;
  int spaces_after_call_ = 0;   // White-space tokens since the end of the tool-call section.
  bool named_content_ = false;  // Content with a header that starts with the marker of tool calls was generated.
  bool blocked_ = false;
  TokenId blocked_token_ = kNoToken;  // If set, the state after this token is pending, and otherwise the mask.
  size_t sampled_at_ = SIZE_MAX;      // Length of the sequence when next() last returned kOpen.
};

}  // namespace monolith
