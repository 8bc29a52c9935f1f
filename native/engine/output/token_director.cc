#include "engine/output/token_director.h"

#include <algorithm>
#include <utility>

#include "engine/output/constraints.h"
#include "engine/output/token_text.h"

namespace monolith {
namespace {

// Forces the beginning of the required tool call.
void write_call(Sequence& sequence) {
  sequence.output.call_due = false;
  sequence.output.script.start(sequence.request.params.calls.required);
  sequence.output.script_grammars = &sequence.request.call_grammars.required;
}

// Forces the header of the output format or the beginning of a tool call.
void write_head(Sequence& sequence) {
  sequence.output.format_due = false;
  sequence.output.script.start(sequence.request.call_grammars.heads);
  sequence.output.script_grammars = &sequence.request.call_grammars.headed;
}

// Forces the rest of a call's beginning, after its first token has been sampled.
void begin_call(Sequence& sequence) {
  sequence.output.script.start(sequence.request.params.calls.starts);
  sequence.output.script_grammars = &sequence.request.call_grammars.starts;
}

bool is_over_budget(const Sequence& sequence) {
  const int budget = sequence.request.params.reasoning.budget;
  return budget >= 0 && sequence.output.text.in_reasoning() && sequence.output.text.reasoning_tokens() >= budget;
}

// Returns whether the content has started and its beginning must be forced.
bool is_beginning_due(const Sequence& sequence) {
  const bool head_due = sequence.output.format_due && !sequence.request.call_grammars.heads.empty();
  return (sequence.output.call_due || head_due) && sequence.output.text.in_content() &&
         !sequence.output.script.active();
}

void write_beginning(Sequence& sequence) {
  if (sequence.output.call_due)
    write_call(sequence);
  else
    write_head(sequence);
}

}  // namespace

bool TokenDirector::must_direct(const Sequence& sequence) {
  return !sequence.output.script.active() && (is_over_budget(sequence) || is_beginning_due(sequence));
}

void TokenDirector::direct(Sequence& sequence, DeltaSink& sink) {
  if (!must_direct(sequence)) return;
  if (is_over_budget(sequence)) close_reasoning(sequence, sink);
  if (is_beginning_due(sequence)) write_beginning(sequence);
}

bool TokenDirector::redirect(Sequence& sequence, TokenId token, DeltaSink& sink) const {
  if (sequence.output.script.active()) return false;
  const GenerationRequest& params = sequence.request.params;
  if (sequence.output.format_due && sequence.output.text.in_reasoning() &&
      (ends_generation(tokenizer_, params, token) ||
       sequence.output.text.would_spill_into_content(rendered(tokenizer_, token)))) {
    close_reasoning(sequence, sink);
    if (is_beginning_due(sequence)) write_beginning(sequence);
    return true;
  }
  if (!sequence.output.call_due) return false;
  if (!ends_generation(tokenizer_, params, token) &&
      !sequence.output.text.would_begin_content(token, rendered(tokenizer_, token)))
    return false;
  if (sequence.output.text.in_reasoning()) close_reasoning(sequence, sink);
  if (!sequence.output.script.active()) write_call(sequence);
  return true;
}

void TokenDirector::close_reasoning(Sequence& sequence, DeltaSink& sink) {
  const std::vector<TokenId>& closing = sequence.request.params.reasoning.close_sequence;
  if (closing.empty()) {
    sequence.output.text.close_reasoning(sink);
  } else {
    sequence.output.script.start({&closing, 1});
  }
}

grammar::Grammar::Outcome TokenDirector::read(Sequence& sequence, TokenId token, Constraints& constraints) {
  using Outcome = grammar::Grammar::Outcome;
  const GenerationRequest& params = sequence.request.params;
  OutputParser& text = sequence.output.text;
  if (sequence.output.matcher.active()) return constraints.advance(sequence.output.matcher, sequence, token);
  if (sequence.output.format_due && (text.in_content() || text.undecided())) {
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
        sequence.output.matcher = matcher;
        sequence.output.format_due = false;
        text.begin_plain_content();
        return read;
      case Outcome::kRefused: break;
    }
    // The token is part of the reasoning's open marker.
    if (text.undecided() && std::ranges::none_of(params.calls.starts, begins)) return Outcome::kOk;
    sequence.output.format_due = false;
    begin_call(sequence);
  } else if (sequence.output.after_call != nullptr && text.in_content()) {
    if ((*sequence.output.after_call)->vocabulary().spaces().has(static_cast<uint32_t>(token))) {
      ++sequence.output.spaces_after_call;
    } else {
      sequence.output.after_call = nullptr;
      begin_call(sequence);
    }
  }
  return Outcome::kOk;
}

void TokenDirector::settle_marker(Sequence& sequence, TokenId token, DeltaSink& sink) {
  if (!std::exchange(sequence.output.marker_due, false)) return;
  const CallParams& calls = sequence.request.params.calls;
  if (std::ranges::any_of(calls.prefixes, [&](const auto& prefix) { return prefix.front() == token; })) {
    sequence.output.script.start(calls.prefixes);
    sequence.output.script_grammars = &sequence.request.call_grammars.prefixes;
  } else {
    sequence.output.text.close_call(sink);
  }
}

bool TokenDirector::advance_script(Sequence& sequence, TokenId token, const Before& before, DeltaSink& sink) {
  sequence.output.script.advance(token);
  if (sequence.output.script.active()) return false;
  // The forced sequence is complete. If it was the end of the reasoning, the section is closed even if the tokens do
  // not spell the marker.
  if (before.in_reasoning) sequence.output.text.close_reasoning(sink);
  // A call's prefix is complete, so its grammar, if any, becomes active.
  const std::vector<GrammarRef>* grammars = std::exchange(sequence.output.script_grammars, nullptr);
  const CallGrammars& call_grammars = sequence.request.call_grammars;
  const size_t completed = sequence.output.script.completed();
  if ((grammars == &call_grammars.prefixes && completed == call_grammars.prefix_answer) ||
      (grammars == &call_grammars.starts && completed == call_grammars.start_answer)) {
    sequence.output.text.release_call();
    sequence.output.text.close_call(sink);
    sequence.output.named_content = true;
    return false;
  }
  if (grammars == nullptr || grammars->empty()) return false;
  if (grammars == &call_grammars.next && completed == call_grammars.end) return close_call(sequence, sink);
  if (grammars == &call_grammars.headed && completed == call_grammars.format_head) {
    const GrammarRef& format = sequence.request.params.format;
    sequence.output.text.close_call(sink);
    sequence.output.matcher = {&format, format->start(), sequence.tokens.size()};
    sequence.output.text.begin_plain_content();
    return false;
  }
  const GrammarRef& grammar = (*grammars)[completed];
  if (grammar == nullptr) {
    sequence.output.text.release_call();
    return false;
  }
  sequence.output.matcher = {&grammar, grammar->start(), sequence.tokens.size()};
  sequence.output.text.hold_call();
  return false;
}

bool TokenDirector::end_grammar(Sequence& sequence, DeltaSink& sink) {
  const GenerationRequest& params = sequence.request.params;
  if (sequence.output.matcher.grammar == &params.format) return true;
  sequence.output.after_call = std::exchange(sequence.output.matcher, GrammarMatcher{}).grammar;
  if (params.calls.end.empty()) return close_call(sequence, sink);
  // Either another call follows, or the section ends.
  sequence.output.script.start(params.calls.next);
  sequence.output.script_grammars = &sequence.request.call_grammars.next;
  return false;
}

// Ends the call section. Returns true if the turn ends with it.
bool TokenDirector::close_call(Sequence& sequence, DeltaSink& sink) {
  const CallParams& calls = sequence.request.params.calls;
  if ((calls.close.text.empty() && !calls.ends_itself) || calls.at_start) return true;
  sequence.output.text.close_call(sink);
  sequence.output.spaces_after_call = 0;
  return false;
}

void TokenDirector::follow(Sequence& sequence, TokenId token, const Before& before) {
  if (sequence.output.script.active()) return;
  const GenerationRequest& params = sequence.request.params;
  const bool opens =
      params.calls.open.token == kNoToken ? sequence.output.text.at_open_end() : token == params.calls.open.token;
  if (opens && sequence.output.text.in_call() && !before.in_call && !sequence.output.matcher.active()) {
    const bool in_answer = sequence.output.named_content || sequence.output.text.has_content();
    sequence.output.marker_due = in_answer && !params.calls.answer.empty() && params.calls.open.token == kNoToken;
    if (sequence.output.marker_due) return;
    sequence.output.script.start(params.calls.prefixes);
    sequence.output.script_grammars = &sequence.request.call_grammars.prefixes;
  } else if (before.in_reasoning && !before.scripted && (sequence.output.call_due || sequence.output.format_due) &&
             token == params.reasoning.close.token) {
    const std::vector<TokenId>& closing = params.reasoning.close_sequence;
    const auto marker = std::find(closing.begin(), closing.end(), token);
    if (marker != closing.end())
      sequence.output.script.start({&closing, 1}, static_cast<size_t>(marker - closing.begin()) + 1);
  }
}

}  // namespace monolith
