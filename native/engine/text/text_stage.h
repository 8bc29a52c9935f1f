// From a sequence's generated tokens to the text a client sees: UTF-8 made whole, reasoning and tool calls
// told from content, stop strings found, nothing released that could still turn out to be something else.
// One per sequence, engine thread only.
//
//   kUndecided ──open marker──► kReasoning ──close marker──► kContent ──stop string──► stopped
//        └──────anything else but white space────────────────────▲ │
//                                                                │ └──open marker of a call──► kCall
//                                                                └────────close marker───────────┘
//
// The released text depends on the joined bytes alone, never on how tokens cut them:
//  1. The open marker counts only as the first thing after white space, which it swallows. Once in
//     content never back: a marker's spelling there is text, and so is its token if it is user-defined.
//  2. Line breaks at the very beginning and end of the reasoning, and at the beginning of content that follows
//     it, belong to neither text: they are left out before anything is looked for. Content without reasoning
//     keeps its own, so does reasoning that has begun in the prompt or is cut.
//  3. If a call's open marker and stop strings compete, the one that ends first wins; among equals the
//     marker, then the longest. Content behind a call does not continue the content before it.
//  4. A call's text is all from its open to its close marker, both included, and the spellings of control
//     tokens in it. With `at_start` the white space before the open marker is part of it too.
//  5. Held back is the longest suffix that could begin a stop string or a call (content), or the line breaks
//     and marker that close the reasoning, and no more; of a call nothing. Stop strings and markers begin and
//     end with whole characters, so no character is split.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/events.h"
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/text/text_pattern.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Takes released text. `n_tokens`: tokens whose text begins in it, or was line breaks left out before it.
// `logprobs`, if wanted and the text is content: of the tokens whose first text is in this piece. Views are
// valid during the call of piece() only.
class PieceSink {
 public:
  virtual void piece(Section section, std::string_view text, int n_tokens, std::span<const TokenLogprobs> logprobs) = 0;

 protected:
  ~PieceSink() = default;
};

class TextStage {
 public:
  // `stops_behind`: so many tokens are read before stop strings are looked for.
  TextStage(const ReasoningParams& reasoning, const CallParams& calls, const std::vector<std::string>& stop,
            bool with_logprobs, int stops_behind = 0);

  // One generated token. `bytes` is what it renders as. `logprobs` may be null unless the stage was made
  // with them. Returns the index of the stop string found, or -1.
  int push(TokenId token, std::string_view bytes, const TokenLogprobs* logprobs, PieceSink& sink) {
    return take(token, bytes, bytes, logprobs, sink);
  }
  // The same for a control token: only within a call it has a text, its spelling.
  int push_control(TokenId token, std::string_view spelling, const TokenLogprobs* logprobs, PieceSink& sink) {
    return take(token, {}, spelling, logprobs, sink);
  }
  // Ends the reasoning section here if it is open.
  void close_reasoning(PieceSink& sink);
  // The content begins with the next token, whatever that is: none of it is left out, and no call will come.
  void begin_plain_content();
  // The call that is open ends where close_call() says, and not where its marker is spelled.
  void hold_call() { call_held_ = phase_ == Phase::kCall; }
  void release_call() { call_held_ = false; }
  void close_call(PieceSink& sink);
  // Releases all that is held; returns as push() does (a broken character's U+FFFD may end a stop string).
  int finish(PieceSink& sink);

  bool undecided() const { return phase_ == Phase::kUndecided; }  // nothing but white space so far
  bool in_reasoning() const { return phase_ == Phase::kReasoning; }
  bool in_content() const { return phase_ == Phase::kContent; }  // and in no call
  bool in_call() const { return phase_ == Phase::kCall; }
  // Of these, what may not be sampled as the next token.
  const std::vector<TokenId>& banned(const MarkerBans& bans) const {
    switch (phase_) {
      case Phase::kUndecided: return bans.undecided;
      case Phase::kReasoning: return bans.reasoning;
      case Phase::kCall: return bans.call;
      case Phase::kContent:
      case Phase::kStopped: break;
    }
    return bans.content;
  }
  // Whether of the open call nothing was read but its marker, which is spelled.
  // Some of the content has been told.
  bool has_content() const { return has_content_; }
  bool at_open_end() const { return phase_ == Phase::kCall && at_open_end_; }
  // Whether this token, were it the next, would decide an undecided beginning for content.
  bool would_begin_content(TokenId token, std::string_view bytes) const;
  // Whether a spelled open marker has begun, and the byte it goes on with; 0: it is a token, or there is none.
  bool in_open_marker() const { return open_matched_ > 0; }
  char next_of_open_marker() const { return open_matched_ < open_text_.size() ? open_text_[open_matched_] : '\0'; }
  // Whether this token, were it the next of the reasoning, would be the beginning of content too.
  bool would_spill_into_content(std::string_view bytes) const;
  int reasoning_tokens() const { return reasoning_tokens_; }  // markers included

 private:
  enum class Phase : uint8_t { kUndecided, kReasoning, kContent, kCall, kStopped };

  int take(TokenId token, std::string_view bytes, std::string_view spelling, const TokenLogprobs* logprobs,
           PieceSink& sink);
  bool take_marker(TokenId token, PieceSink& sink);
  int take_call_marker(std::string_view spelling, const TokenLogprobs* logprobs, PieceSink& sink);
  int take_in_call(TokenId token, std::string_view spelling, const TokenLogprobs* logprobs, PieceSink& sink);
  void append(std::string_view bytes, const TokenLogprobs* logprobs);
  int scan(PieceSink& sink);
  bool scan_undecided();
  bool scan_reasoning(PieceSink& sink);
  int scan_content(PieceSink& sink);
  bool scan_call(PieceSink& sink);
  bool opens_call(char byte);
  void begin_call(size_t start, PieceSink& sink);
  void end_call();
  void enter(Phase phase);
  Section section() const;
  size_t skip_line_breaks(size_t limit);
  void end_reasoning(size_t length, PieceSink& sink);
  void emit(size_t length, Section section, PieceSink& sink);
  int discard(size_t length);
  void drop_front(size_t length);

  Phase phase_;
  bool skips_line_breaks_ = false;  // nothing but line breaks was read of this section
  int skipped_tokens_ = 0;          // were nothing else; the next piece counts them
  TokenId open_token_ = kNoToken, close_token_ = kNoToken;
  std::string open_text_;  // empty unless the open marker is found by spelling
  size_t open_matched_ = 0;
  TextPattern close_text_;  // the same for the close marker
  std::vector<TextPattern> stops_;
  int stops_behind_;         // tokens still to be read before these are looked for
  bool stops_held_ = false;  // the token that was read last is one of them
  TokenId call_open_token_ = kNoToken, call_close_token_ = kNoToken;
  TextPattern call_open_text_, call_close_text_;  // empty unless found by spelling
  bool only_at_start_ = false;                    // a call opens there or nowhere
  bool call_held_ = false;                        // of the open call no close marker is looked for
  bool has_content_ = false;
  bool at_open_end_ = false;
  bool at_start_ = false;  // of such content all is white space, or the marker as far as it is read
  Utf8Stream utf8_;
  std::string text_;       // whole characters not yet released
  size_t scanned_ = 0;     // bytes of text_ the patterns have read
  uint64_t released_ = 0;  // bytes of text that were before text_
  int undecided_tokens_ = 0, reasoning_tokens_ = 0;
  bool with_logprobs_;
  // For each token with no text released yet, where its text starts in the stream. A queue in vectors.
  std::vector<uint64_t> token_starts_;
  std::vector<TokenLogprobs> token_logprobs_;  // parallel, if wanted
  size_t first_token_ = 0;
};

}  // namespace monolith
