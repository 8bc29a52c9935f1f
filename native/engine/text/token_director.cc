#include "engine/text/token_director.h"

#include <algorithm>
#include <utility>

#include "engine/text/constraints.h"
#include "engine/text/token_text.h"

namespace monolith {
namespace {

// Forces the beginning of the required tool call.
void write_call(Sequence& sequence) {
  sequence.call_due = false;
  sequence.script.start(sequence.request.params.calls.required);
  sequence.script_grammars = &sequence.request.call_grammars.required;
}

// Forces the header of the output format or the beginning of a tool call.
void write_head(Sequence& sequence) {
  sequence.format_due = false;
  sequence.script.start(sequence.request.call_grammars.heads);
  sequence.script_grammars = &sequence.request.call_grammars.headed;
}

// Forces the rest of a call's beginning, after its first token has been sampled.
void begin_call(Sequence& sequence) {
  sequence.script.start(sequence.request.params.calls.starts);
  sequence.script_grammars = &sequence.request.call_grammars.starts;
}

bool is_over_budget(const Sequence& sequence) {
  const int budget = sequence.request.params.reasoning.budget;
  return budget >= 0 && sequence.text.in_reasoning() && sequence.text.reasoning_tokens() >= budget;
}

// Returns whether the content has started and its beginning must be forced.
bool is_beginning_due(const Sequence& sequence) {
  const bool head_due = sequence.format_due && !sequence.request.call_grammars.heads.empty();
  return (sequence.call_due || head_due) && sequence.text.in_content() && !sequence.script.active();
}

void write_beginning(Sequence& sequence) {
  if (sequence.call_due)
    write_call(sequence);
  else
    write_head(sequence);
}

}  // namespace

bool TokenDirector::must_direct(const Sequence& sequence) {
  return !sequence.script.active() && (is_over_budget(sequence) || is_beginning_due(sequence));
}

void TokenDirector::direct(Sequence& sequence, DeltaSink& sink) {
  if (!must_direct(sequence)) return;
  if (is_over_budget(sequence)) close_reasoning(sequence, sink);
  if (is_beginning_due(sequence)) write_beginning(sequence);
}

bool TokenDirector::redirect(Sequence& sequence, TokenId token, DeltaSink& sink) const {
  if (sequence.script.active()) return false;
  const GenerationRequest& params = sequence.request.params;
  if (sequence.format_due && sequence.text.in_reasoning() &&
      (ends_generation(tokenizer_, params, token) ||
       sequence.text.would_spill_into_content(rendered(tokenizer_, token)))) {
    close_reasoning(sequence, sink);
    if (is_beginning_due(sequence)) write_beginning(sequence);
    return true;
  }
  if (!sequence.call_due) return false;
  if (!ends_generation(tokenizer_, params, token) &&
      !sequence.text.would_begin_content(token, rendered(tokenizer_, token)))
    return false;
  if (sequence.text.in_reasoning()) close_reasoning(sequence, sink);
  if (!sequence.script.active()) write_call(sequence);
  return true;
}

void TokenDirector::close_reasoning(Sequence& sequence, DeltaSink& sink) {
  const std::vector<TokenId>& closing = sequence.request.params.reasoning.close_sequence;
  if (closing.empty()) {
    sequence.text.close_reasoning(sink);
  } else {
    sequence.script.start({&closing, 1});
  }
}

grammar::Grammar::Outcome TokenDirector::read(Sequence& sequence, TokenId token, Constraints& constraints) {
  using Outcome = grammar::Grammar::Outcome;
  const GenerationRequest& params = sequence.request.params;
  OutputParser& text = sequence.text;
  if (sequence.matcher.active()) return constraints.advance(sequence.matcher, sequence, token);
  if (sequence.format_due && (text.in_content() || text.undecided())) {
    if (text.undecided() && (text.in_open_marker() || token == params.reasoning.open.token)) return Outcome::kOk;
    const auto begins = [&](const std::vector<TokenId>& start) { return start.front() == token; };
    if (const auto& heads = sequence.request.call_grammars.heads; !heads.empty()) {
      if (std::ranges::any_of(heads, begins)) write_head(sequence);
      return Outcome::kOk;  // A token with which no alternative starts is part of the reasoning's open marker.
    }
    GrammarMatcher matcher{&params.format, params.format->start(), sequence.tokens.size()};
    const Outcome read = constraints.advance(matcher, sequence, token);
    switch (read) {
      case Outcome::kOutOfBudget:
      case Outcome::kFailed: return read;
      case Outcome::kOk:
        sequence.matcher = matcher;
        sequence.format_due = false;
        text.begin_plain_content();
        return read;
      case Outcome::kRefused: break;
    }
    // The token is part of the reasoning's open marker.
    if (text.undecided() && std::ranges::none_of(params.calls.starts, begins)) return Outcome::kOk;
    sequence.format_due = false;
    begin_call(sequence);
  } else if (sequence.after_call != nullptr && text.in_content()) {
    if ((*sequence.after_call)->vocabulary().spaces().has(static_cast<uint32_t>(token))) {
      ++sequence.spaces_after_call;
    } else {
      sequence.after_call = nullptr;
      begin_call(sequence);
    }
  }
  return Outcome::kOk;
}

void TokenDirector::settle_marker(Sequence& sequence, TokenId token, DeltaSink& sink) {
  if (!std::exchange(sequence.marker_due, false)) return;
  const CallParams& calls = sequence.request.params.calls;
  if (std::ranges::any_of(calls.prefixes, [&](const auto& prefix) { return prefix.front() == token; })) {
    sequence.script.start(calls.prefixes);
    sequence.script_grammars = &sequence.request.call_grammars.prefixes;
  } else {
    sequence.text.close_call(sink);
  }
}

bool TokenDirector::advance_script(Sequence& sequence, TokenId token, const Before& before, DeltaSink& sink) {
  sequence.script.advance(token);
  if (sequence.script.active()) return false;
  // The forced sequence is complete. If it was the end of the reasoning, the section is closed even if the tokens do
  // not spell the marker.
  if (before.in_reasoning) sequence.text.close_reasoning(sink);
  // A call's prefix is complete, so its grammar, if any, becomes active.
  const std::vector<GrammarRef>* grammars = std::exchange(sequence.script_grammars, nullptr);
  const CallGrammars& call_grammars = sequence.request.call_grammars;
  const size_t completed = sequence.script.completed();
  if ((grammars == &call_grammars.prefixes && completed == call_grammars.prefix_answer) ||
      (grammars == &call_grammars.starts && completed == call_grammars.start_answer)) {
    sequence.text.release_call();
    sequence.text.close_call(sink);
    sequence.named_content = true;
    return false;
  }
  if (grammars == nullptr || grammars->empty()) return false;
  if (grammars == &call_grammars.next && completed == call_grammars.end) return close_call(sequence, sink);
  if (grammars == &call_grammars.headed && completed == call_grammars.format_head) {
    const GrammarRef& format = sequence.request.params.format;
    sequence.text.close_call(sink);
    sequence.matcher = {&format, format->start(), sequence.tokens.size()};
    sequence.text.begin_plain_content();
    return false;
  }
  const GrammarRef& grammar = (*grammars)[completed];
  if (grammar == nullptr) {
    sequence.text.release_call();
    return false;
  }
  sequence.matcher = {&grammar, grammar->start(), sequence.tokens.size()};
  sequence.text.hold_call();
  return false;
}

bool TokenDirector::end_grammar(Sequence& sequence, DeltaSink& sink) {
  const GenerationRequest& params = sequence.request.params;
  if (sequence.matcher.grammar == &params.format) return true;
  sequence.after_call = std::exchange(sequence.matcher, GrammarMatcher{}).grammar;
  if (params.calls.end.empty()) return close_call(sequence, sink);
  // Either another call follows, or the section ends.
  sequence.script.start(params.calls.next);
  sequence.script_grammars = &sequence.request.call_grammars.next;
  return false;
}

// Ends the call section. Returns true if the turn ends with it.
bool TokenDirector::close_call(Sequence& sequence, DeltaSink& sink) {
  const CallParams& calls = sequence.request.params.calls;
  if ((calls.close.text.empty() && !calls.ends_itself) || calls.at_start) return true;
  sequence.text.close_call(sink);
  sequence.spaces_after_call = 0;
  return false;
}

void TokenDirector::follow(Sequence& sequence, TokenId token, const Before& before) {
  if (sequence.script.active()) return;
  const GenerationRequest& params = sequence.request.params;
  const bool opens =
      params.calls.open.token == kNoToken ? sequence.text.at_open_end() : token == params.calls.open.token;
  if (opens && sequence.text.in_call() && !before.in_call && !sequence.matcher.active()) {
    const bool in_answer = sequence.named_content || sequence.text.has_content();
    sequence.marker_due = in_answer && !params.calls.answer.empty() && params.calls.open.token == kNoToken;
    if (sequence.marker_due) return;
    sequence.script.start(params.calls.prefixes);
    sequence.script_grammars = &sequence.request.call_grammars.prefixes;
  } else if (before.in_reasoning && !before.scripted && (sequence.call_due || sequence.format_due) &&
             token == params.reasoning.close.token) {
    const std::vector<TokenId>& closing = params.reasoning.close_sequence;
    const auto marker = std::find(closing.begin(), closing.end(), token);
    if (marker != closing.end())
      sequence.script.start({&closing, 1}, static_cast<size_t>(marker - closing.begin()) + 1);
  }
}

}  // namespace monolith
