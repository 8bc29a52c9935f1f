#include "engine/output/output_parser.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace monolith {
namespace {

// If the output starts with more whitespace than this, the content has started without an open marker.
constexpr size_t kMaxLeadingSpace = 32;
constexpr std::string_view kSpaces = " \t\r\n";

bool is_line_break(char byte) { return byte == '\n' || byte == '\r'; }

// Returns the length that remains of the first `length` bytes without their trailing line breaks.
size_t before_line_breaks(std::string_view text, size_t length) {
  while (length > 0 && is_line_break(text[length - 1])) --length;
  return length;
}

}  // namespace

OutputParser::OutputParser(const ReasoningParams& reasoning, const CallParams& calls,
                           const std::vector<std::string>& stop, bool with_logprobs, int stops_behind)
    : stops_behind_(stops_behind), with_logprobs_(with_logprobs) {
  const auto exists = [](const Marker& marker) { return marker.token != kNoToken || !marker.text.empty(); };
  // Removes the marker's leading whitespace, because leading whitespace in the output is skipped too.
  const auto trimmed = [](const std::string& text) {
    return text.substr(std::min(text.find_first_not_of(kSpaces), text.size()));
  };
  phase_ = exists(reasoning.open) ? Phase::kUndecided : Phase::kContent;
  if (reasoning.starts_inside) enter(Phase::kReasoning);
  if (reasoning.continued) skips_line_breaks_ = false;
  open_token_ = reasoning.open.token;
  close_token_ = reasoning.close.token;
  if (open_token_ == kNoToken) {
    open_text_ = trimmed(reasoning.open.text);
    if (open_text_.empty() && phase_ == Phase::kUndecided) phase_ = Phase::kContent;
  }
  if (close_token_ == kNoToken) close_text_ = TextPattern(reasoning.close.text);

  call_open_token_ = calls.open.token;
  call_close_token_ = calls.close.token;
  if (call_open_token_ == kNoToken)
    call_open_text_ = TextPattern(calls.at_start ? trimmed(calls.open.text) : calls.open.text);
  if (call_close_token_ == kNoToken) call_close_text_ = TextPattern(calls.close.text);
  only_at_start_ = at_start_ = calls.at_start && (call_open_token_ != kNoToken || !call_open_text_.empty());

  for (const std::string& text : stop) stops_.emplace_back(text);
  text_.reserve(256);
  token_starts_.reserve(64);
  if (with_logprobs_) token_logprobs_.reserve(16);
}

bool OutputParser::would_begin_content(TokenId token, std::string_view bytes) const {
  if (phase_ != Phase::kUndecided || token == open_token_) return false;
  if (bytes.empty() || utf8_.pending() > 0) return true;
  size_t matched = open_matched_, at = scanned_;
  for (const char byte : bytes) {
    if (matched == 0 && at++ < kMaxLeadingSpace && kSpaces.find(byte) != kSpaces.npos) continue;
    if (matched == open_text_.size() || byte != open_text_[matched]) return true;
    if (++matched == open_text_.size()) return false;
  }
  return false;
}

bool OutputParser::would_spill_into_content(std::string_view bytes) const {
  if (phase_ != Phase::kReasoning || close_text_.empty()) return false;
  size_t matched = close_text_.matched();  // close_text_ is up to date because all of text_ has been scanned.
  for (size_t i = 0; i < bytes.size(); ++i) {
    matched = close_text_.after(matched, bytes[i]);
    if (matched == close_text_.size()) return bytes.find_first_not_of("\r\n", i + 1) != bytes.npos;
  }
  return false;
}

int OutputParser::take(TokenId token, std::string_view bytes, std::string_view spelling, const TokenLogprobs* logprobs,
                       DeltaSink& sink) {
  if (phase_ == Phase::kStopped) return -1;
  stops_held_ = stops_behind_ > 0;
  if (stops_held_) --stops_behind_;
  if (phase_ == Phase::kCall) return take_in_call(token, spelling, logprobs, sink);
  if (token == call_open_token_ && phase_ != Phase::kReasoning) {
    if (const int stop = take_call_marker(spelling, logprobs, sink); stop >= 0) return stop;
    if (phase_ == Phase::kCall) return -1;
  }
  if (phase_ == Phase::kUndecided && token == open_token_ && utf8_.pending() > 0) {
    utf8_.finish(text_);  // An incomplete character before the marker is text, so the content has started.
    if (const int stop = scan(sink); stop >= 0) return stop;
  }
  if (take_marker(token, sink)) return -1;
  if (phase_ == Phase::kReasoning) ++reasoning_tokens_;
  if (phase_ == Phase::kUndecided) ++undecided_tokens_;
  if (bytes.empty()) return -1;
  append(bytes, logprobs);
  return scan(sink);
}

// Handles a token that opens a call. It ends the matching of the preceding content, and starts a call if one may start
// here.
int OutputParser::take_call_marker(std::string_view spelling, const TokenLogprobs* logprobs, DeltaSink& sink) {
  utf8_.finish(text_);
  if (phase_ == Phase::kUndecided) {
    phase_ = Phase::kContent;
    scanned_ = 0;
  }
  if (const int stop = scan(sink); stop >= 0) return stop;
  if (only_at_start_ && !at_start_) return -1;
  begin_call(at_start_ ? 0 : text_.size(), sink);
  append(spelling, logprobs);
  emit(text_.size(), Section::kCall, sink);
  return -1;
}

int OutputParser::take_in_call(TokenId token, std::string_view spelling, const TokenLogprobs* logprobs,
                               DeltaSink& sink) {
  const bool closes = token == call_close_token_;
  at_open_end_ = false;
  if (closes) utf8_.finish(text_);
  if (!spelling.empty()) append(spelling, logprobs);
  if (!closes) return scan(sink);
  emit(text_.size(), Section::kCall, sink);
  end_call();
  return -1;
}

// Adds the text of one token.
void OutputParser::append(std::string_view bytes, const TokenLogprobs* logprobs) {
  token_starts_.push_back(released_ + text_.size());  // Offset of the character in which the token's text starts.
  utf8_.push(bytes, text_);
  if (with_logprobs_) {
    assert(logprobs != nullptr);
    token_logprobs_.push_back(*logprobs);
  }
}

// Starts the reasoning section, or the content section after it.
void OutputParser::enter(Phase phase) {
  phase_ = phase;
  scanned_ = 0;
  skips_line_breaks_ = true;
}

// Handles a marker that is a single token. Returns true if `token` is a marker in the current section.
bool OutputParser::take_marker(TokenId token, DeltaSink& sink) {
  if (phase_ == Phase::kUndecided && token == open_token_) {
    discard(text_.size());  // Drops the leading whitespace.
    reasoning_tokens_ = undecided_tokens_ + 1;
    enter(Phase::kReasoning);
    return true;
  }
  if (phase_ == Phase::kReasoning && token == close_token_) {
    ++reasoning_tokens_;
    close_reasoning(sink);
    return true;
  }
  return false;
}

void OutputParser::close_reasoning(DeltaSink& sink) {
  if (phase_ != Phase::kReasoning) return;
  utf8_.finish(text_);
  end_reasoning(text_.size(), sink);
}

void OutputParser::begin_plain_content() {
  if (phase_ == Phase::kUndecided) phase_ = Phase::kContent;
  skips_line_breaks_ = false;
  call_open_token_ = kNoToken;
  call_open_text_ = {};
  only_at_start_ = at_start_ = false;
}

void OutputParser::close_call(DeltaSink& sink) {
  call_held_ = false;
  if (phase_ != Phase::kCall) return;
  utf8_.finish(text_);
  emit(text_.size(), Section::kCall, sink);
  end_call();
}

// Ends the reasoning. Of the text that has not been emitted yet, the first `length` bytes still belong to the
// reasoning.
void OutputParser::end_reasoning(size_t length, DeltaSink& sink) {
  const size_t kept = before_line_breaks(text_, length);
  emit(kept, Section::kReasoning, sink);
  if (length > kept) skipped_tokens_ += discard(length - kept);
  enter(Phase::kContent);
}

int OutputParser::finish(DeltaSink& sink) {
  if (phase_ == Phase::kStopped) return -1;
  utf8_.finish(text_);
  int stop = scan(sink);
  if (phase_ == Phase::kUndecided) {  // No marker can follow, so the text is content.
    phase_ = Phase::kContent;
    scanned_ = 0;
    stop = scan(sink);
  }
  if (stop >= 0) return stop;
  emit(text_.size(), section(), sink);
  phase_ = Phase::kStopped;
  return -1;
}

Section OutputParser::section() const {
  switch (phase_) {
    case Phase::kReasoning: return Section::kReasoning;
    case Phase::kCall: return Section::kCall;
    default: return Section::kContent;
  }
}

int OutputParser::scan(DeltaSink& sink) {
  if (phase_ == Phase::kUndecided && !scan_undecided()) return -1;
  if (phase_ == Phase::kReasoning && !scan_reasoning(sink)) return -1;
  for (;;) {  // A single token may contain several calls.
    if (phase_ == Phase::kCall && !scan_call(sink)) return -1;
    const int stop = scan_content(sink);
    if (phase_ != Phase::kCall) return stop;
  }
}

// Returns true once it is known whether the output starts with reasoning.
bool OutputParser::scan_undecided() {
  for (; scanned_ < text_.size(); ++scanned_) {
    const char byte = text_[scanned_];
    if (open_matched_ == 0 && scanned_ < kMaxLeadingSpace && kSpaces.find(byte) != kSpaces.npos) continue;
    if (open_text_.empty() || byte != open_text_[open_matched_]) {
      phase_ = Phase::kContent;
      scanned_ = 0;
      return true;
    }
    if (++open_matched_ == open_text_.size()) {
      discard(scanned_ + 1);
      reasoning_tokens_ = undecided_tokens_;
      enter(Phase::kReasoning);
      return true;
    }
  }
  return false;
}

// Returns true if the reasoning was closed; the text after the close marker has then not been scanned yet.
bool OutputParser::scan_reasoning(DeltaSink& sink) {
  while (scanned_ < text_.size()) {
    if (!close_text_.advance(text_[scanned_++])) continue;
    end_reasoning(scanned_ - close_text_.size(), sink);
    discard(close_text_.size());
    return true;
  }
  emit(before_line_breaks(text_, text_.size() - close_text_.matched()), Section::kReasoning, sink);
  return false;
}

// Scans content up to a stop string or the start of a call. Returns the index of the stop string, or -1 if there is
// none.
int OutputParser::scan_content(DeltaSink& sink) {
  if (skips_line_breaks_) skip_line_breaks(text_.size());
  const bool may_open = only_at_start_ ? at_start_ : !call_open_text_.empty();
  if ((stops_.empty() || stops_held_) && !may_open) scanned_ = text_.size();
  while (scanned_ < text_.size()) {
    const char byte = text_[scanned_++];
    if (opens_call(byte)) {
      at_open_end_ = scanned_ == text_.size() && utf8_.pending() == 0;
      begin_call(only_at_start_ ? 0 : scanned_ - call_open_text_.size(), sink);
      return -1;
    }
    int found = -1;
    for (size_t i = 0; i < stops_.size() && !stops_held_; ++i) {
      if (!stops_[i].advance(byte)) continue;
      if (found < 0 || stops_[i].size() > stops_[static_cast<size_t>(found)].size()) found = static_cast<int>(i);
    }
    if (found < 0) continue;
    emit(scanned_ - stops_[static_cast<size_t>(found)].size(), Section::kContent, sink);
    phase_ = Phase::kStopped;
    return found;
  }
  size_t held = at_start_ ? text_.size() : only_at_start_ ? 0 : call_open_text_.matched();
  for (const TextPattern& stop : stops_) held = std::max(held, stop.matched());
  emit(text_.size() - held, Section::kContent, sink);
  return -1;
}

// Returns whether a spelled-out open marker ends with the byte just scanned.
bool OutputParser::opens_call(char byte) {
  if (!only_at_start_) return call_open_text_.advance(byte);
  if (!at_start_) return false;
  const size_t before = call_open_text_.matched();
  if (before == 0 && scanned_ <= kMaxLeadingSpace && kSpaces.find(byte) != kSpaces.npos) return false;
  const bool whole = call_open_text_.advance(byte);
  at_start_ = call_open_text_.matched() == before + 1;  // The marker must come at the very start of the content.
  return whole;
}

// Starts a call whose text begins at text_[start].
void OutputParser::begin_call(size_t start, DeltaSink& sink) {
  emit(start, Section::kContent, sink);
  phase_ = Phase::kCall;
  call_held_ = false;
  at_start_ = skips_line_breaks_ = false;
  call_open_text_.reset();
  call_close_text_.reset();
  for (TextPattern& stop : stops_) stop.reset();
}

void OutputParser::end_call() {
  phase_ = Phase::kContent;
  scanned_ = 0;
}

// Returns true if the call was closed; the text after the close marker has then not been scanned yet.
bool OutputParser::scan_call(DeltaSink& sink) {
  bool closed = false;
  if (call_held_) scanned_ = text_.size();
  while (scanned_ < text_.size() && !closed) closed = call_close_text_.advance(text_[scanned_++]);
  emit(scanned_, Section::kCall, sink);
  if (closed) end_call();
  return closed;
}

// Drops the line breaks at the start of the section, within the first `limit` bytes, and returns the number of bytes
// dropped. In reasoning, the close marker is matched first; in content, line breaks are dropped before anything is
// matched.
size_t OutputParser::skip_line_breaks(size_t limit) {
  size_t length = 0;
  while (length < limit && is_line_break(text_[length])) ++length;
  if (length < limit) skips_line_breaks_ = false;
  if (length > 0) skipped_tokens_ += discard(length);
  return length;
}

void OutputParser::emit(size_t length, Section section, DeltaSink& sink) {
  if (skips_line_breaks_) length -= skip_line_breaks(length);
  if (length == 0) return;
  has_content_ |= section == Section::kContent;
  const size_t first = first_token_;
  while (first_token_ < token_starts_.size() && token_starts_[first_token_] < released_ + length) ++first_token_;
  const size_t n = first_token_ - first;
  std::span<const TokenLogprobs> logprobs;
  if (with_logprobs_ && section == Section::kContent) logprobs = {token_logprobs_.data() + first, n};
  const int n_tokens = static_cast<int>(n) + std::exchange(skipped_tokens_, 0);
  sink.piece(section, std::string_view(text_).substr(0, length), n_tokens, logprobs);
  drop_front(length);
}

// Drops the text of a marker or of line breaks, and the tokens that end within that text. A token whose text extends
// beyond it is kept. Returns the number of tokens dropped.
int OutputParser::discard(size_t length) {
  const uint64_t end = released_ + length;
  // Returns true if the newest token's text extends beyond the first `length` bytes.
  const bool goes_on = length < text_.size() || utf8_.pending() > 0;
  int n = 0;
  while (first_token_ < token_starts_.size() && token_starts_[first_token_] < end) {
    const bool newest = first_token_ + 1 == token_starts_.size();
    if (newest ? goes_on : token_starts_[first_token_ + 1] > end) break;
    ++first_token_;
    ++n;
  }
  drop_front(length);
  return n;
}

void OutputParser::drop_front(size_t length) {
  text_.erase(0, length);
  released_ += length;
  scanned_ = scanned_ > length ? scanned_ - length : 0;
  if (first_token_ < token_starts_.size() && first_token_ < 64) return;
  token_starts_.erase(token_starts_.begin(), token_starts_.begin() + static_cast<ptrdiff_t>(first_token_));
  if (with_logprobs_)
    token_logprobs_.erase(token_logprobs_.begin(), token_logprobs_.begin() + static_cast<ptrdiff_t>(first_token_));
  first_token_ = 0;
}

}  // namespace monolith
