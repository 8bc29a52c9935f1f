#include "engine/output/output_state.h"

#include <algorithm>
#include <utility>

#include "engine/output/token_text.h"

namespace monolith {
namespace {

constexpr int kMaxSpacesAfterCall = 2;

}  // namespace

OutputState::OutputState(const OutputFormat& format)
    : format_(format),
      text_(params().reasoning, params().calls, params().stop, format.wants_logprobs(), params().min_tokens),
      repetition_(params().max_repeats),
      due_(!format.required.empty()     ? Due::kCall
           : params().format != nullptr ? Due::kFormat
                                        : Due::kNothing) {
  follow_text();
}

bool OutputState::is_over_budget() const {
  const int budget = params().reasoning.budget;
  return state_ == State::kReasoning && budget >= 0 && text_.reasoning_tokens() >= budget;
}

// Returns whether the content starts with the next token and its beginning must be forced.
bool OutputState::is_beginning_due() const {
  return state_ == State::kContent && (due_ == Due::kCall || (due_ == Due::kFormat && !format_.heads.empty()));
}

// Forces the beginning of the required tool call, the header of the output format, or the beginning of a call in place
// of that header.
void OutputState::begin_content() {
  begin(std::exchange(due_, Due::kNothing) == Due::kCall ? format_.required : format_.heads);
}

// Starts a tag whose tokens up to `node` are already in the sequence.
void OutputState::begin(const TagSet& tags, TagSet::Node node) {
  if (tags.next(node).empty()) return follow_text();
  tags_ = &tags;
  node_ = node;
  state_ = &tags == &format_.reasoning_end ? State::kReasoningEnd
           : &tags == &format_.next        ? State::kBetween
                                           : State::kPrefix;
}

void OutputState::begin_grammar(const GrammarRef& grammar, size_t first, State state) {
  matcher_ = {&grammar, grammar->start(), first};
  state_ = state;
}

// Sets the state from the current section of the text, unless a tag or a grammar determines it.
void OutputState::follow_text() {
  if (in_tag() || matcher_.active()) return;
  if (text_.undecided())
    state_ = State::kUndecided;
  else if (text_.in_reasoning())
    state_ = State::kReasoning;
  else if (text_.in_call())
    state_ = State::kArguments;
  else if (text_.in_content())
    state_ = after_call_ != nullptr ? State::kAfterCall : State::kContent;
  else
    state_ = State::kDone;
}

void OutputState::close_reasoning(DeltaSink& sink) {
  if (!format_.reasoning_end.empty()) return begin(format_.reasoning_end);
  text_.close_reasoning(sink);
  follow_text();
}

// Returns a matcher at the start of the output format's grammar.
GrammarMatcher OutputState::format_matcher(Tokens tokens) const {
  return {&params().format, params().format->start(), tokens.size()};
}

OutputState::Next OutputState::next(GrammarRunner& runner, Tokens tokens, DeltaSink& sink) {
  if (!in_tag()) {
    if (is_over_budget()) close_reasoning(sink);
    if (is_beginning_due()) begin_content();
  }
  if (in_tag() && !format_.wants_logprobs()) {
    if (const std::span<const TokenId> found = tags_->next(node_); found.size() == 1)
      return {Next::Kind::kForced, found};
  } else if (!in_tag() && !format_.wants_logprobs() && runner.forces_tokens()) {
    std::vector<TokenId>* found = nullptr;
    const Outcome outcome = find_forced(runner, tokens, found);
    if (outcome != Outcome::kOk) return {outcome == Outcome::kOutOfBudget ? Next::Kind::kPending : Next::Kind::kFailed};
    if (found && !found->empty()) return {Next::Kind::kForced, *found};
  }
  sampled_at_ = tokens.size();
  return {};
}

// Finds the tokens that the grammar forces; null if there is no grammar.
OutputState::Outcome OutputState::find_forced(GrammarRunner& runner, Tokens tokens, std::vector<TokenId>*& forced) {
  Outcome outcome = Outcome::kOk;
  if (matcher_.active()) {
    outcome = runner.forced(matcher_, tokens, forced);
  } else if (due_ == Due::kFormat && state_ == State::kContent && format_.starts.empty()) {
    GrammarMatcher start = format_matcher(tokens);
    outcome = runner.forced(start, tokens, forced);
  }
  if (forced && outcome == Outcome::kOk)
    forced->erase(std::ranges::find_if(*forced, [&](TokenId token) { return !may_be_forced(runner, token); }),
                  forced->end());
  return outcome;
}

// Tokens that end the turn or that the caller has banned are not forced; the sampler then chooses other tokens for the
// same text.
bool OutputState::may_be_forced(const GrammarRunner& runner, TokenId token) const {
  const auto has = [token](const std::vector<TokenId>& list) { return std::ranges::find(list, token) != list.end(); };
  return !has(params().stop_tokens) && !has(params().sampling.banned) &&
         (params().ignore_eos || !has(runner.plain_ends())) &&
         std::ranges::none_of(params().sampling.logit_bias,
                              [token](const auto& entry) { return entry.first == token && entry.second <= kBanBias; });
}

bool OutputState::is_sampled(const GrammarRunner& runner, Tokens tokens) const {
  if (sampled_at_ == tokens.size()) return true;
  if (!in_tag() && (is_over_budget() || is_beginning_due())) return false;
  if (format_.wants_logprobs()) return true;
  if (in_tag()) return tags_->next(node_).size() > 1;
  return !runner.forces_tokens() || (!matcher_.active() && due_ != Due::kFormat);
}

OutputState::Next OutputState::allowed(GrammarRunner& runner, Tokens tokens, grammar::TokenMask& mask) {
  Outcome outcome = Outcome::kOk;
  if (in_tag()) return {Next::Kind::kAllowed, tags_->next(node_)};
  if (matcher_.active()) {
    outcome = runner.allowed(matcher_, tokens, mask);
    if (outcome == Outcome::kOk) allow_ends(runner, matcher_.position.accepts, mask);
  } else if (due_ == Due::kFormat && (state_ == State::kContent || state_ == State::kUndecided)) {
    outcome = allow_beginning(runner, tokens, mask);
  } else if (state_ == State::kAfterCall) {
    mask.clear();
    if (spaces_after_call_ < kMaxSpacesAfterCall) mask.add((*after_call_)->vocabulary().spaces());
    allow_ends(runner, true, mask);
    allow_calls(mask);
  } else {
    return {};
  }
  if (outcome == Outcome::kOutOfBudget) return {Next::Kind::kPending};
  if (outcome != Outcome::kOk || !mask.any()) return {Next::Kind::kFailed};
  return {Next::Kind::kAllowed, {}, mask.words()};
}

// Determines the allowed tokens where the content must begin with the output format or a tool call. Reasoning may still
// come first.
OutputState::Outcome OutputState::allow_beginning(GrammarRunner& runner, Tokens tokens,
                                                  grammar::TokenMask& mask) const {
  mask.clear();
  if (!format_.heads.empty()) {
    if (!text_.in_open_marker())
      for (const TokenId token : format_.heads.next()) mask.set(static_cast<uint32_t>(token));
  } else if (!text_.undecided() || !text_.in_open_marker()) {
    GrammarMatcher start = format_matcher(tokens);
    const Outcome outcome = runner.allowed(start, tokens, mask);
    if (outcome != Outcome::kOk) return outcome;
    allow_ends(runner, start.position.accepts, mask);
    allow_calls(mask);
  }
  if (text_.undecided()) allow_reasoning(runner, mask);
  return Outcome::kOk;
}

// Adds the open marker of the reasoning to the allowed tokens.
void OutputState::allow_reasoning(const GrammarRunner& runner, grammar::TokenMask& mask) const {
  if (const TokenId open = params().reasoning.open.token; open != kNoToken)
    return mask.set(static_cast<uint32_t>(open));
  // This path is rare, because the markers of most chat templates are single tokens.
  const char next = text_.next_of_open_marker();
  for (TokenId token = 0; token < runner.n_vocab(); ++token) {
    const std::string_view bytes = rendered(runner.tokenizer(), token);
    if (bytes.starts_with(next) && !text_.would_begin_content(token, bytes)) mask.set(static_cast<uint32_t>(token));
  }
}

// Allows the tokens that end the turn only where the text may end.
void OutputState::allow_ends(const GrammarRunner& runner, bool allowed, grammar::TokenMask& mask) const {
  for (const TokenId token : params().stop_tokens) {
    if (allowed)
      mask.set(static_cast<uint32_t>(token));
    else
      mask.reset(static_cast<uint32_t>(token));
  }
  if (params().ignore_eos) return;
  if (allowed)
    mask.add(runner.ends());
  else
    for (const TokenId token : runner.plain_ends()) mask.reset(static_cast<uint32_t>(token));
}

void OutputState::allow_calls(grammar::TokenMask& mask) const {
  for (const TokenId token : format_.starts.next()) mask.set(static_cast<uint32_t>(token));
}

const std::vector<TokenId>* OutputState::banned(int generated) const {
  const SectionBans& bans = format_.bans(generated);
  return bans.any() ? &text_.banned(bans) : nullptr;
}

size_t OutputState::count_allowed(GrammarRunner& runner, std::vector<TokenId>& tokens,
                                  std::span<const TokenId> drafts) const {
  if (!matcher_.active()) return drafts.size();
  GrammarMatcher matcher = matcher_;
  // Removes the draft tokens from `tokens` again, even if the grammar throws an exception.
  struct Restore {
    std::vector<TokenId>& tokens;
    const size_t length;
    ~Restore() { tokens.resize(length); }
  };
  const Restore restore{tokens, tokens.size()};
  size_t n = 0;
  for (; n < drafts.size(); ++n) {
    if (runner.advance(matcher, tokens, drafts[n]) != Outcome::kOk) break;
    tokens.push_back(drafts[n]);  // If the grammar has to restart, it needs all tokens so far.
    runner.prefetch(matcher, false);
  }
  return n;
}

bool OutputState::replaces(const Tokenizer& tokenizer, TokenId token, DeltaSink& sink) {
  if (in_tag() || due_ == Due::kNothing) return false;
  const bool in_reasoning = state_ == State::kReasoning;
  const bool ends = format_.ends(tokenizer, token);
  if (due_ == Due::kFormat) {
    if (!in_reasoning || !(ends || text_.would_spill_into_content(rendered(tokenizer, token)))) return false;
    close_reasoning(sink);
    if (is_beginning_due()) begin_content();
    return true;
  }
  if (!ends && !text_.would_begin_content(token, rendered(tokenizer, token))) return false;
  if (in_reasoning) close_reasoning(sink);
  if (!in_tag()) begin_content();
  return true;
}

OutputState::Step OutputState::accept(GrammarRunner& runner, Tokens tokens, TokenId token,
                                      const TokenLogprobs* logprobs, DeltaSink& sink) {
  const bool ends = !in_tag() && format_.ends(runner.tokenizer(), token);
  Outcome outcome = Outcome::kOk;
  if (!ends) {
    settle_marker(token, sink);
    if (!in_tag()) outcome = read(runner, tokens, token);
  }
  if (outcome == Outcome::kOutOfBudget) {
    block(token);
    return {Step::Kind::kPending};
  }
  const bool loops = !in_tag() && repetition_.completes(generated(tokens), token);
  repetition_.add(generated(tokens), token);
  if (params().return_tokens) sink.token(token);
  if (ends) return end(FinishReason::kEndOfTurn);
  if (outcome != Outcome::kOk) return {Step::Kind::kFailed};
  const Before before{in_tag(), text_.in_reasoning(), text_.in_call()};
  const int stop = write(runner.tokenizer(), token, logprobs, sink);
  const bool is_over = before.in_tag && advance_tag(token, tokens.size() + 1, sink);
  if (stop >= 0) return end(FinishReason::kStopString, stop);
  if (is_over || (matcher_.active() && matcher_.position.ends && end_grammar(sink)))
    return end(FinishReason::kEndOfTurn);
  if (loops) return end(FinishReason::kRepetition);
  follow(token, before);
  return {};
}

OutputState::Step OutputState::end(FinishReason reason, int stop_index) {
  state_ = State::kDone;
  return {Step::Kind::kEnds, reason, stop_index};
}

// After an open marker in content that has headers: if this token starts a tag, the tag begins with it; otherwise, the
// marker was plain text.
void OutputState::settle_marker(TokenId token, DeltaSink& sink) {
  if (state_ != State::kMarker) return;
  if (format_.prefixes.starts_with(token)) return begin(format_.prefixes);
  text_.close_call(sink);
  follow_text();
}

// Advances the grammar by a token outside a tag. If a grammar or a tag begins with the token, starts it.
OutputState::Outcome OutputState::read(GrammarRunner& runner, Tokens tokens, TokenId token) {
  if (matcher_.active()) return runner.advance(matcher_, tokens, token);
  if (due_ == Due::kFormat && (state_ == State::kContent || state_ == State::kUndecided))
    return read_beginning(runner, tokens, token);
  if (state_ != State::kAfterCall) return Outcome::kOk;
  if ((*after_call_)->vocabulary().spaces().has(static_cast<uint32_t>(token))) {
    ++spaces_after_call_;
  } else {
    after_call_ = nullptr;
    begin(format_.starts);
  }
  return Outcome::kOk;
}

// Reads the token that begins the output format, a tool call or the reasoning.
OutputState::Outcome OutputState::read_beginning(GrammarRunner& runner, Tokens tokens, TokenId token) {
  const bool undecided = text_.undecided();
  if (undecided && (text_.in_open_marker() || token == params().reasoning.open.token)) return Outcome::kOk;
  if (!format_.heads.empty()) {
    if (format_.heads.starts_with(token)) begin_content();
    return Outcome::kOk;  // A token with which no tag starts is part of the reasoning's open marker.
  }
  GrammarMatcher start = format_matcher(tokens);
  const Outcome outcome = runner.advance(start, tokens, token);
  if (outcome == Outcome::kOk) {
    matcher_ = start;
    state_ = State::kFormat;
    due_ = Due::kNothing;
    text_.begin_plain_content();
  }
  if (outcome != Outcome::kRefused) return outcome;
  // A token that starts no tag is part of the reasoning's open marker.
  if (undecided && !format_.starts.starts_with(token)) return Outcome::kOk;
  due_ = Due::kNothing;
  begin(format_.starts);
  return Outcome::kOk;
}

int OutputState::write(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs* logprobs, DeltaSink& sink) {
  const int stop = tokenizer.kind(token) == TokenKind::kControl
                       ? text_.push_control(token, tokenizer.bytes(token), logprobs, sink)
                       : text_.push(token, rendered(tokenizer, token), logprobs, sink);
  follow_text();
  return stop;
}

// Moves to the next position in the tag being written, after the token's text has been added. `length`: number of
// tokens of the sequence, including this one. Returns true if the tag is complete and the turn ends with it.
bool OutputState::advance_tag(TokenId token, size_t length, DeltaSink& sink) {
  node_ = tags_->advance(node_, token);
  if (node_ != TagSet::kNowhere && !tags_->complete(node_)) return false;
  const Tag* const tag = std::exchange(tags_, nullptr)->complete(node_);
  if (!tag) return follow_text(), false;
  switch (tag->then) {
    // The section is closed even if the text of the tokens is not the marker's text.
    case Tag::Then::kReasoningEnd: text_.close_reasoning(sink); break;
    case Tag::Then::kAnswer:
      text_.close_call(sink);
      named_content_ = true;
      break;
    case Tag::Then::kCallsEnd: return end_calls(sink);
    case Tag::Then::kFormat:
      text_.close_call(sink);
      begin_grammar(params().format, length, State::kFormat);
      text_.begin_plain_content();
      break;
    case Tag::Then::kCall:
      if (tag->grammar) {
        begin_grammar(tag->grammar, length, State::kArguments);
        text_.hold_call();
      } else {
        text_.release_call();
      }
  }
  follow_text();
  return false;
}

// Handles the end of the active grammar. Returns true if the turn ends with it.
bool OutputState::end_grammar(DeltaSink& sink) {
  if (state_ == State::kFormat) return true;
  after_call_ = std::exchange(matcher_, GrammarMatcher{}).grammar;
  if (format_.next.empty()) return end_calls(sink);
  begin(format_.next);
  return false;
}

// Ends the tool-call section. Returns true if the turn ends with it.
bool OutputState::end_calls(DeltaSink& sink) {
  const CallParams& calls = params().calls;
  if ((calls.close.text.empty() && !calls.ends_itself) || calls.at_start) return true;
  text_.close_call(sink);
  spaces_after_call_ = 0;
  follow_text();
  return false;
}

// Starts tags after a token. An open marker is followed by a prefix. If a call or the output format is required, the
// remainder of `close_sequence` follows a close marker of the reasoning that the model itself has generated.
void OutputState::follow(TokenId token, const Before& before) {
  if (in_tag()) return;
  const CallParams& calls = params().calls;
  const bool opens = calls.open.token == kNoToken ? text_.at_open_end() : token == calls.open.token;
  if (opens && text_.in_call() && !before.in_call && !matcher_.active()) {
    const bool in_answer = named_content_ || text_.has_content();
    if (in_answer && !calls.answer.empty() && calls.open.token == kNoToken)
      state_ = State::kMarker;
    else
      begin(format_.prefixes);
  } else if (before.in_reasoning && !before.in_tag && due_ != Due::kNothing &&
             token == params().reasoning.close.token) {
    const std::vector<TokenId>& closing = params().reasoning.close_sequence;
    const auto marker = std::ranges::find(closing, token);
    if (marker == closing.end()) return;
    TagSet::Node node = TagSet::kStart;
    for (auto at = closing.begin(); at <= marker; ++at) node = format_.reasoning_end.advance(node, *at);
    begin(format_.reasoning_end, node);
  }
}

bool OutputState::may_defer(const Tokenizer& tokenizer, Tokens tokens, TokenId token) const {
  const CallParams& calls = params().calls;
  if (may_constrain() || due_ == Due::kCall || may_change_bans(token)) return false;
  // The marker of a tool call, or the close marker of a reasoning with a budget, may be spelled out.
  if (!calls.open.text.empty() && calls.open.token == kNoToken) return false;
  if (params().reasoning.budget >= 0 && !text_.in_content() && !text_.in_call()) return false;
  return token != calls.open.token && !repetition_.completes(generated(tokens), token) &&
         !format_.ends(tokenizer, token);
}

void OutputState::accept_deferred(Tokens tokens, TokenId token, DeltaSink& sink) {
  repetition_.add(generated(tokens), token);
  if (params().return_tokens) sink.token(token);
  sampled_at_ = tokens.size() + 1;
}

int OutputState::finish(DeltaSink& sink) {
  state_ = State::kDone;
  return text_.finish(sink);
}

void OutputState::prefetch(GrammarRunner& runner) const {
  if (matcher_.active()) runner.prefetch(matcher_, !format_.wants_logprobs());
}

void OutputState::block(TokenId token) {
  blocked_ = true;
  blocked_token_ = token;
}

void OutputState::try_unblock(GrammarRunner& runner, Tokens tokens) {
  // If no grammar is active, the sequence waits for the grammar of an output format that is about to begin.
  GrammarMatcher matcher = matcher_.active() ? matcher_ : format_matcher(tokens);
  const bool splits = !format_.wants_logprobs();
  const Outcome outcome = runner.prepared(matcher, tokens, splits, blocked_token_);
  if (matcher_.active()) matcher_.position = matcher.position;
  if (outcome == Outcome::kOutOfBudget)
    runner.prefetch_due(matcher, splits, blocked_token_);
  else
    blocked_ = false;
}

}  // namespace monolith
