// Output parser: converts a sequence's generated tokens to the text that a client sees. It completes UTF-8 characters,
// separates reasoning and tool calls from content, matches stop strings, and holds back text whose section is not known
// yet. One per sequence; engine thread only.
//
//   kUndecided ──open marker──► kReasoning ──close marker──► kContent ──stop string──► stopped
//        └──────anything else but whitespace─────────────────────▲ │
//                                                                │ └──open marker of a call──► kCall
//                                                                └────────close marker───────────┘
//
// The emitted text depends only on the concatenated bytes, not on the token boundaries:
// 1. The open marker of the reasoning is recognized only at the start of the output, after optional whitespace, which
// is dropped. Once the content has started, the marker's spelling is text, and so is its token if it is user-defined.
// 2. Line breaks at the start and end of the reasoning, and at the start of content after reasoning, are dropped before
// anything is matched. Content without reasoning keeps its line breaks, and so does reasoning that started in the
// prompt or was cut off.
// 3. If an open marker of a call and stop strings overlap, the one that ends first wins. If several end at the same
// byte, the marker wins, then the longest stop string. Stop strings do not match across a call.
// 4. The text of a call includes its open and close markers and the spelling of control tokens. With `at_start`, it
// also includes the whitespace before the open marker.
// 5. The only text held back is the longest suffix that could begin a stop string or a call (in content), or the line
// breaks and the marker that close the reasoning. The text of a call is never held back. Stop strings and markers
// consist of whole characters, so no character is split.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/events.h"
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/output/text_pattern.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Receives emitted text. `n_tokens`: number of tokens whose text starts in this delta, plus the earlier tokens that
// consisted only of dropped line breaks. `logprobs`: if requested and the text is content, the entries for the tokens
// whose text starts in this delta. The views are valid only during the call.
class DeltaSink {
 public:
  virtual void piece(Section section, std::string_view text, int n_tokens, std::span<const TokenLogprobs> logprobs) = 0;
  // Receives the id of each token, before its text, if GenerationRequest::return_tokens is set.
  virtual void token(TokenId) {}

 protected:
  ~DeltaSink() = default;
};

class OutputParser {
 public:
  // `stops_behind`: number of tokens after which stop strings are matched (min_tokens).
  OutputParser(const ReasoningParams& reasoning, const CallParams& calls, const std::vector<std::string>& stop,
               bool with_logprobs, int stops_behind = 0);

  // Adds one generated token. `bytes`: its text. `logprobs` may be null only if `with_logprobs` is false. Returns the
  // index of a completed stop string, or -1 if there is none.
  int push(TokenId token, std::string_view bytes, const TokenLogprobs* logprobs, DeltaSink& sink) {
    return take(token, bytes, bytes, logprobs, sink);
  }
  // Adds a control token. Such a token has text (its spelling) only within a tool call.
  int push_control(TokenId token, std::string_view spelling, const TokenLogprobs* logprobs, DeltaSink& sink) {
    return take(token, {}, spelling, logprobs, sink);
  }
  // Ends the reasoning here, if it is open.
  void close_reasoning(DeltaSink& sink);
  // Starts the content with the next token. After that, no line breaks are dropped and tool calls are not recognized.
  void begin_plain_content();
  // While a call is held, only close_call() ends it; a spelled-out close marker does not.
  void hold_call() { call_held_ = phase_ == Phase::kCall; }
  void release_call() { call_held_ = false; }
  void close_call(DeltaSink& sink);
  // Emits all held-back text. An incomplete character becomes U+FFFD, which may complete a stop string. Returns the
  // index of the completed stop string, or -1 if there is none.
  int finish(DeltaSink& sink);

  bool undecided() const { return phase_ == Phase::kUndecided; }  // The output so far consists only of whitespace.
  bool in_reasoning() const { return phase_ == Phase::kReasoning; }
  bool in_content() const { return phase_ == Phase::kContent; }  // In the content and not in a tool call.
  bool in_call() const { return phase_ == Phase::kCall; }
  // Returns the list in `bans` that applies to the next token.
  const std::vector<TokenId>& banned(const SectionBans& bans) const {
    switch (phase_) {
      case Phase::kUndecided: return bans.undecided;
      case Phase::kReasoning: return bans.reasoning;
      case Phase::kCall: return bans.call;
      case Phase::kContent:
      case Phase::kStopped: break;
    }
    return bans.content;
  }
  // has_content(): content text has been emitted. at_open_end(): a call is open, and only its spelled-out open marker
  // has been read so far.
  bool has_content() const { return has_content_; }
  bool at_open_end() const { return phase_ == Phase::kCall && at_open_end_; }
  // Whether this token would start the content if it came next in an undecided output.
  bool would_begin_content(TokenId token, std::string_view bytes) const;
  // in_open_marker(): part of a spelled-out open marker has been read. next_of_open_marker(): the marker's next byte; 0
  // if the marker is a token or there is none.
  bool in_open_marker() const { return open_matched_ > 0; }
  char next_of_open_marker() const { return open_matched_ < open_text_.size() ? open_text_[open_matched_] : '\0'; }
  // Whether a token with this text would both close the reasoning and start the content if it came next.
  bool would_spill_into_content(std::string_view bytes) const;
  int reasoning_tokens() const { return reasoning_tokens_; }  // Includes the markers.

 private:
  enum class Phase : uint8_t { kUndecided, kReasoning, kContent, kCall, kStopped };

  int take(TokenId token, std::string_view bytes, std::string_view spelling, const TokenLogprobs* logprobs,
           DeltaSink& sink);
  bool take_marker(TokenId token, DeltaSink& sink);
  int take_call_marker(std::string_view spelling, const TokenLogprobs* logprobs, DeltaSink& sink);
  int take_in_call(TokenId token, std::string_view spelling, const TokenLogprobs* logprobs, DeltaSink& sink);
  void append(std::string_view bytes, const TokenLogprobs* logprobs);
  int scan(DeltaSink& sink);
  bool scan_undecided();
  bool scan_reasoning(DeltaSink& sink);
  int scan_content(DeltaSink& sink);
  bool scan_call(DeltaSink& sink);
  bool opens_call(char byte);
  void begin_call(size_t start, DeltaSink& sink);
  void end_call();
  void enter(Phase phase);
  Section section() const;
  size_t skip_line_breaks(size_t limit);
  void end_reasoning(size_t length, DeltaSink& sink);
  void emit(size_t length, Section section, DeltaSink& sink);
  int discard(size_t length);
  void drop_front(size_t length);

  Phase phase_;
  bool skips_line_breaks_ = false;  // Only line breaks of this section have been read so far.
  int skipped_tokens_ = 0;          // Tokens that consisted only of dropped line breaks; the next delta counts them.
  TokenId open_token_ = kNoToken, close_token_ = kNoToken;
  std::string open_text_;  // Spelling of the open marker; empty if the marker is a token or there is none.
  size_t open_matched_ = 0;
  TextPattern close_text_;  // Pattern of the close marker; empty if the marker is a token or there is none.
  std::vector<TextPattern> stops_;
  int stops_behind_;         // Tokens still to be read before stop strings are matched.
  bool stops_held_ = false;  // Stop strings do not apply to the current token yet.
  TokenId call_open_token_ = kNoToken, call_close_token_ = kNoToken;
  // Patterns of the call markers; empty if the marker is a token or there is none.
  TextPattern call_open_text_, call_close_text_;
  bool only_at_start_ = false;  // Tool calls are recognized only at the start of the content.
  bool call_held_ = false;      // The open call's close marker is not matched.
  bool has_content_ = false;
  bool at_open_end_ = false;
  // For only_at_start_: true while the content is only whitespace, possibly followed by part of the open marker.
  bool at_start_ = false;
  Utf8Stream utf8_;
  std::string text_;       // Whole characters that have not been emitted yet.
  size_t scanned_ = 0;     // Number of bytes of text_ that the patterns have read.
  uint64_t released_ = 0;  // Number of bytes before text_ that have been emitted or dropped.
  int undecided_tokens_ = 0, reasoning_tokens_ = 0;
  bool with_logprobs_;
  // Queue of the tokens whose text has not been emitted: for each token, the offset in the output stream at which the
  // token's text starts.
  std::vector<uint64_t> token_starts_;
  std::vector<TokenLogprobs> token_logprobs_;  // Parallel to token_starts_, if logprobs are requested.
  size_t first_token_ = 0;
};

}  // namespace monolith
