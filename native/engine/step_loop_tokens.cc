// The part of StepLoop from a row of logits to a token of a sequence: what may come next, what was chosen,
// and what follows from it.
#include <algorithm>

#include "engine/step_loop.h"

namespace monolith {
namespace {

// The beginning of the call that is due.
void write_call(Sequence& sequence) {
  sequence.call_due = false;
  sequence.script.start(sequence.request.params.calls.required);
}

}  // namespace

// Logits of a sequence's last token: its next token, and at the end of the prompt that of every choice.
void StepLoop::take_row(Sequence& sequence, const float* logits) {
  Request& request = sequence.request;
  const auto n = static_cast<size_t>(request.params.n);
  if (sequence.choice == 0 && request.choices.size() < n) {
    // All forks take their pages before any choice can end and give them back.
    while (request.choices.size() < n) {
      auto fork = std::make_unique<Sequence>(request, static_cast<int>(request.choices.size()));
      scheduler_.fork(sequence, *fork);
      request.choices.push_back(std::move(fork));
    }
    for (const auto& choice : request.choices)
      if (choice->state != SequenceState::kEnded) take_token(*choice, logits);
    return;
  }
  take_token(sequence, logits);
}

void StepLoop::take_token(Sequence& sequence, const float* logits) {
  Request& request = sequence.request;
  if (sequence.generated() == 0 && request.finishing[static_cast<size_t>(sequence.choice)])
    return finish(sequence, FinishReason::kEndOfTurn);
  const SamplingParams& sampling = request.params.sampling;
  EventWriter writer(records_of(request), request.id, sequence.choice);
  TokenLogprobs* logprobs = request.wants_logprobs() ? &logprobs_ : nullptr;
  const auto sample = [&] {
    sequence.script.next(allowed_);
    return sampler_.sample(logits, sampling, sequence.counts, sampling.seed + static_cast<uint64_t>(sequence.choice),
                           static_cast<uint64_t>(sequence.generated()), {allowed_}, logprobs);
  };
  direct(sequence, writer);
  TokenId token = sample();
  if (token != kNoToken && redirect(sequence, token, writer)) token = sample();
  if (token == kNoToken) {
    fail(request, FailureCode::kEngineError, "the model computed values that are not finite numbers");
    return;
  }
  if (sequence.generated() == 0) sequence.first_token_at = Clock::now();
  sequence.tokens.push_back(token);
  if (!sequence.counts.empty()) sequence.counts.add_generated(token);
  EngineCounters::add(counters_.decode_tokens, 1);

  const bool scripted = sequence.script.active();
  if (!scripted && ends_generation(request, token)) return finish(sequence, FinishReason::kEndOfTurn);
  const bool was_in_reasoning = sequence.text.in_reasoning(), was_in_call = sequence.text.in_call();
  const int stop = push_text(sequence, token, logprobs, writer);
  if (scripted) {
    sequence.script.advance(token);
    // Whether or not what closes the reasoning spells the marker.
    if (was_in_reasoning && !sequence.script.active()) sequence.text.close_reasoning(writer);
  }
  if (stop >= 0) return finish(sequence, FinishReason::kStopString, stop);
  if (sequence.generated() >= request.params.max_tokens) return finish(sequence, FinishReason::kMaxTokens);
  if (sequence.length() >= max_context_) return finish(sequence, FinishReason::kContextFull);
  follow(sequence, token, was_in_reasoning && !scripted, was_in_call);
}

// Before a token is sampled: the engine writes the end of the reasoning when the budget is used up, and the
// call that is due when the content begins.
void StepLoop::direct(Sequence& sequence, EventWriter& writer) const {
  if (sequence.script.active()) return;
  const GenerationRequest& params = sequence.request.params;
  const TextStage& text = sequence.text;
  if (params.reasoning.budget >= 0 && text.in_reasoning() && text.reasoning_tokens() >= params.reasoning.budget)
    close_reasoning(sequence, writer);
  if (sequence.call_due && text.in_content() && !sequence.script.active()) write_call(sequence);
}

// True if the engine must write something else than this sampled token, because a call is due: where the
// content would begin without it, or the turn end.
bool StepLoop::redirect(Sequence& sequence, TokenId token, EventWriter& writer) const {
  if (!sequence.call_due || sequence.script.active()) return false;
  if (!ends_generation(sequence.request, token) && !sequence.text.would_begin_content(token, rendered(token)))
    return false;
  if (sequence.text.in_reasoning()) close_reasoning(sequence, writer);
  if (!sequence.script.active()) write_call(sequence);
  return true;
}

void StepLoop::close_reasoning(Sequence& sequence, EventWriter& writer) const {
  const std::vector<TokenId>& closing = sequence.request.params.reasoning.close_sequence;
  if (closing.empty()) {
    sequence.text.close_reasoning(writer);
  } else {
    sequence.script.start({&closing, 1});
  }
}

// After a token: an open marker is followed by one of the prefixes; a call that is due after the reasoning,
// by what the model's own close marker is followed by when the engine writes it.
void StepLoop::follow(Sequence& sequence, TokenId token, bool was_in_reasoning, bool was_in_call) const {
  if (sequence.script.active()) return;
  const GenerationRequest& params = sequence.request.params;
  if (token == params.calls.open.token && sequence.text.in_call() && !was_in_call) {
    sequence.script.start(params.calls.prefixes);
  } else if (was_in_reasoning && sequence.call_due && token == params.reasoning.close.token) {
    const std::vector<TokenId>& closing = params.reasoning.close_sequence;
    const auto marker = std::find(closing.begin(), closing.end(), token);
    if (marker != closing.end())
      sequence.script.start({&closing, 1}, static_cast<size_t>(marker - closing.begin()) + 1);
  }
}

bool StepLoop::ends_generation(const Request& request, TokenId token) const {
  const std::vector<TokenId>& stops = request.params.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return true;
  return !request.params.ignore_eos && tokenizer_.is_end_of_generation(token);
}

int StepLoop::push_text(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, EventWriter& writer) const {
  if (tokenizer_.kind(token) == TokenKind::kControl)
    return sequence.text.push_control(token, tokenizer_.bytes(token), logprobs, writer);
  return sequence.text.push(token, rendered(token), logprobs, writer);
}

// Control tokens, placeholders and the unknown token have no text.
std::string_view StepLoop::rendered(TokenId token) const {
  switch (tokenizer_.kind(token)) {
    case TokenKind::kNormal:
    case TokenKind::kUserDefined:
    case TokenKind::kByte: return tokenizer_.bytes(token);
    default: return {};
  }
}

}  // namespace monolith
