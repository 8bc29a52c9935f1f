#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "backend/kv_cache.h"
#include "engine/sampling/logit_processors.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {
namespace {

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

Status check_range(const char* field, float value, float least, float most) {
  if (value >= least && value <= most) return {};  // The comparison is false for NaN, so NaN is rejected.
  const auto shown = [](float number) {
    std::string text = std::to_string(number);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text;
  };
  return invalid(std::string(field) + " must be from " + shown(least) + " to " + shown(most));
}

Status check_tokens(const char* field, const std::vector<TokenId>& tokens, int n_vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < n_vocab) continue;
    return invalid(std::string(field) + "[" + std::to_string(i) + "] is token " + std::to_string(tokens[i]) +
                   ", outside the vocabulary of " + std::to_string(n_vocab));
  }
  return {};
}

Status check_sampling(const SamplingParams& params, int n_vocab) {
  struct Range {
    const char* field;
    float value, least, most;
  };
  for (const Range& range :
       {Range{"temperature", params.temperature, 0, kMaxTemperature}, Range{"top_p", params.top_p, 0, 1},
        Range{"min_p", params.min_p, 0, 1},
        Range{"repetition_penalty", params.repetition_penalty, kMinRepetitionPenalty, kMaxRepetitionPenalty},
        Range{"frequency_penalty", params.frequency_penalty, -kMaxPenalty, kMaxPenalty},
        Range{"presence_penalty", params.presence_penalty, -kMaxPenalty, kMaxPenalty}}) {
    if (Status status = check_range(range.field, range.value, range.least, range.most); !status) return status;
  }
  if (params.top_k < 0) return invalid("top_k must be at least 0 (0 = off)");
  if (params.top_logprobs < -1 || params.top_logprobs > kMaxTopLogprobs)
    return invalid("top_logprobs must be from -1 (none) to " + std::to_string(kMaxTopLogprobs));
  if (params.prompt_logprobs < -1 || params.prompt_logprobs > kMaxTopLogprobs)
    return invalid("prompt_logprobs must be from -1 (none) to " + std::to_string(kMaxTopLogprobs));
  if (params.logit_bias.size() > static_cast<size_t>(kMaxLogitBias))
    return invalid("logit_bias has more than " + std::to_string(kMaxLogitBias) + " entries");
  std::set<TokenId> banned;
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= n_vocab)
      return invalid("logit_bias has token " + std::to_string(token) + ", outside the vocabulary of " +
                     std::to_string(n_vocab));
    if (Status status = check_range("logit_bias", bias, -kMaxBias, kMaxBias); !status) return status;
    if (bias <= kBanBias) banned.insert(token);
  }
  if (params.banned.size() > static_cast<size_t>(kMaxBanned))
    return invalid("banned has more than " + std::to_string(kMaxBanned) + " tokens");
  if (Status status = check_tokens("banned", params.banned, n_vocab); !status) return status;
  banned.insert(params.banned.begin(), params.banned.end());
  if (banned.size() >= static_cast<size_t>(n_vocab)) return invalid("logit_bias bans the whole vocabulary");
  return {};
}

Status check_stops(const GenerationRequest& request, int n_vocab) {
  if (request.stop.size() > static_cast<size_t>(kMaxStopStrings))
    return invalid("stop has more than " + std::to_string(kMaxStopStrings) + " strings");
  for (size_t i = 0; i < request.stop.size(); ++i) {
    const std::string& stop = request.stop[i];
    const std::string name = "stop[" + std::to_string(i) + "]";
    if (stop.empty() || stop.size() > static_cast<size_t>(kMaxStopBytes))
      return invalid(name + " must have 1 to " + std::to_string(kMaxStopBytes) + " bytes");
    // Text is emitted up to the start of a stop string, so a stop string must start at a character boundary.
    if ((static_cast<unsigned char>(stop[0]) & 0xC0) == 0x80) return invalid(name + " is not UTF-8");
  }
  if (request.stop_tokens.size() > static_cast<size_t>(kMaxStopTokens))
    return invalid("stop_tokens has more than " + std::to_string(kMaxStopTokens) + " entries");
  return check_tokens("stop_tokens", request.stop_tokens, n_vocab);
}

Status check_marker(const std::string& name, const Marker& marker, int n_vocab) {
  if (marker.text.size() > static_cast<size_t>(kMaxMarkerBytes))
    return invalid(name + " is longer than " + std::to_string(kMaxMarkerBytes) + " bytes");
  if (marker.token < kNoToken || marker.token >= n_vocab) return invalid(name + " has a token outside the vocabulary");
  return {};
}

Status check_reasoning(const ReasoningParams& reasoning, int n_vocab) {
  if (Status status = check_marker("reasoning.open", reasoning.open, n_vocab); !status) return status;
  if (Status status = check_marker("reasoning.close", reasoning.close, n_vocab); !status) return status;
  if (reasoning.budget < -1) return invalid("reasoning.budget must be at least -1 (-1 = unlimited)");
  if (reasoning.close_sequence.size() > static_cast<size_t>(kMaxCloseTokens))
    return invalid("reasoning.close_sequence has more than " + std::to_string(kMaxCloseTokens) + " tokens");
  return check_tokens("reasoning.close_sequence", reasoning.close_sequence, n_vocab);
}

// Text is cut at the start and at the end of a marker, so both must be character boundaries.
bool whole_characters(const std::string& text) {
  Utf8Stream utf8;
  std::string whole;
  utf8.push(text, whole);
  return utf8.pending() == 0 && whole == text;
}

Status check_alternatives(const std::string& name, const std::vector<std::vector<TokenId>>& alternatives, int n_vocab) {
  if (alternatives.size() > static_cast<size_t>(kMaxCallPrefixes))
    return invalid(name + " has more than " + std::to_string(kMaxCallPrefixes) + " alternatives");
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const std::string entry = name + "[" + std::to_string(i) + "]";
    if (alternatives[i].empty() || alternatives[i].size() > static_cast<size_t>(kMaxCallTokens))
      return invalid(entry + " must have 1 to " + std::to_string(kMaxCallTokens) + " tokens");
    if (Status status = check_tokens(entry.c_str(), alternatives[i], n_vocab); !status) return status;
  }
  return {};
}

Status check_calls(const CallParams& calls, int n_vocab) {
  if (Status status = check_marker("calls.open", calls.open, n_vocab); !status) return status;
  if (Status status = check_marker("calls.close", calls.close, n_vocab); !status) return status;
  if (!whole_characters(calls.open.text)) return invalid("calls.open is not UTF-8");
  if (!whole_characters(calls.close.text)) return invalid("calls.close is not UTF-8");
  if (Status status = check_alternatives("calls.prefixes", calls.prefixes, n_vocab); !status) return status;
  if (Status status = check_alternatives("calls.required", calls.required, n_vocab); !status) return status;
  if (Status status = check_alternatives("calls.starts", calls.starts, n_vocab); !status) return status;
  if (Status status = check_alternatives("calls.next", calls.next, n_vocab); !status) return status;
  for (const auto& [name, tokens] :
       {std::pair{"calls.answer", &calls.answer}, {"calls.answer_start", &calls.answer_start}}) {
    if (tokens->size() > static_cast<size_t>(kMaxCallTokens))
      return invalid(std::string(name) + " has more than " + std::to_string(kMaxCallTokens) + " tokens");
    if (Status status = check_tokens(name, *tokens, n_vocab); !status) return status;
  }
  if (calls.answer.empty() != calls.answer_start.empty())
    return invalid("calls.answer and calls.answer_start require each other");
  if (calls.end.size() > static_cast<size_t>(kMaxCallTokens))
    return invalid("calls.end has more than " + std::to_string(kMaxCallTokens) + " tokens");
  if (Status status = check_tokens("calls.end", calls.end, n_vocab); !status) return status;
  if (!calls.next.empty() && calls.end.empty()) return invalid("calls.next requires calls.end");
  if (!calls.end.empty() && calls.grammars.empty()) return invalid("calls.end requires calls.grammars");
  if (calls.grammars.empty()) return {};
  for (const auto* alternatives : {&calls.prefixes, &calls.required, &calls.starts})
    if (!alternatives->empty() && alternatives->size() != calls.grammars.size())
      return invalid("calls.grammars must have one entry for each prefix");
  if (calls.prefixes.empty() && calls.starts.empty())
    return invalid("calls.grammars requires calls.prefixes or calls.starts");
  return {};
}

Status check_output(const GenerationRequest& request, const RequestBounds& bounds) {
  switch (request.output) {
    case OutputKind::kTokens:
      if (request.max_tokens < 1) return invalid("max_tokens must be at least 1");
      return {};
    case OutputKind::kNothing:
      if (request.max_tokens != 0) return invalid("max_tokens must be 0 if no output is requested");
      return {};
    case OutputKind::kLogprobs:
      if (request.max_tokens != 0)
        return invalid("max_tokens must be 0 if only the prompt's log-probabilities are requested");
      if (request.sampling.prompt_logprobs < 0)
        return invalid("prompt_logprobs must be at least 0 if only the prompt's log-probabilities are requested");
      return {};
    case OutputKind::kVector:
      if (!bounds.has_pooling)
        return Error{ErrorCode::kUnsupported, "output: this model does not compute embeddings or scores"};
      if (request.max_tokens != 0) return invalid("max_tokens must be 0 if a vector is requested");
      if (request.n != 1) return invalid("n must be 1 if a vector is requested");
      return {};
  }
  return invalid("output is not a known kind of output");
}

// Every rotary offset must be less than the number of positions by which the span advances, so that all positions stay
// within the context.
Status check_rope_offsets(const InputSpan& span, const std::string& name, const RequestBounds& bounds) {
  if (!span.rope_offsets && span.n_rope_positions == 0) return {};
  if (!bounds.uses_mrope)
    return Error{ErrorCode::kUnsupported, name + " has M-RoPE positions, but this model does not use M-RoPE"};
  if (!span.rope_offsets || span.rope_offsets->size() != static_cast<size_t>(span.n_rows))
    return invalid(name + " has " + std::to_string(span.rope_offsets ? span.rope_offsets->size() : 0) +
                   " rotary positions, expected one for each of its " + std::to_string(span.n_rows) + " rows");
  if (span.n_rope_positions < 1 || span.n_rope_positions > span.n_rows)
    return invalid(name + " advances the rotary position by " + std::to_string(span.n_rope_positions) +
                   ", expected 1 to " + std::to_string(span.n_rows));
  const auto within = [&](const RopePosition& offset) {
    const auto [least, most] = std::minmax({offset.time, offset.height, offset.width});
    return least >= 0 && most < span.n_rope_positions;
  };
  const auto at = std::ranges::find_if_not(*span.rope_offsets, within) - span.rope_offsets->begin();
  if (at == span.n_rows) return {};
  return invalid(name + " has a rotary position at row " + std::to_string(at) + " outside the range 0 to " +
                 std::to_string(span.n_rope_positions - 1));
}

Status check_spans(const GenerationRequest& request, const RequestBounds& bounds) {
  if (request.spans.empty()) return {};
  int64_t end = 0;
  for (size_t i = 0; i < request.spans.size(); ++i) {
    const InputSpan& span = request.spans[i];
    const std::string name = "spans[" + std::to_string(i) + "]";
    const int64_t length = static_cast<int64_t>(request.prompt.size());
    if (span.n_rows < 1 || span.first < 0 || int64_t{span.first} + span.n_rows > length)
      return invalid(name + " has " + std::to_string(span.n_rows) + " rows from position " +
                     std::to_string(span.first) + "; the prompt has " + std::to_string(length) + " positions");
    if (span.first < end)
      return invalid(name + " starts at position " + std::to_string(span.first) +
                     ", before the end of the previous span");
    if (!span.rows && span.piece && !bounds.has_vision)
      return Error{ErrorCode::kUnsupported, name + " is an image, but this model has no vision encoder"};
    if (!span.rows && span.piece) {
      // The number of rows is not checked here, because the vision encoder determines it.
    } else if (!span.rows ||
               span.rows->size() != static_cast<size_t>(span.n_rows) * static_cast<size_t>(bounds.input_width))
      return invalid(name + " has " + std::to_string(span.rows ? span.rows->size() : 0) + " values, expected " +
                     std::to_string(span.n_rows) + " rows of " + std::to_string(bounds.input_width));
    if (Status status = check_rope_offsets(span, name, bounds); !status) return status;
    if (span.bidirectional && span.n_rows > bounds.most_bidirectional_rows)
      return invalid(name + " has " + std::to_string(span.n_rows) +
                     " rows with bidirectional attention; one step computes at most " +
                     std::to_string(bounds.most_bidirectional_rows));
    end = span.end();
  }
  return {};
}

}  // namespace

Status check_request(const GenerationRequest& request, const RequestBounds& bounds) {
  const auto [n_vocab, max_context] = std::pair(bounds.n_vocab, bounds.max_context);
  if (request.prompt.empty()) return invalid("prompt must have at least one token");
  // Every output kind except kVector leaves the last position of the context free for a generated token.
  const auto longest = static_cast<size_t>(request.output == OutputKind::kVector ? max_context : max_context - 1);
  if (request.prompt.size() > longest)
    return Error{ErrorCode::kTooLong, "prompt has " + std::to_string(request.prompt.size()) +
                                          " tokens; this model takes at most " + std::to_string(longest)};
  if (Status status = check_tokens("prompt", request.prompt, n_vocab); !status) return status;
  if (Status status = check_spans(request, bounds); !status) return status;
  if (request.n < 1 || request.n > kMaxChoices) return invalid("n must be from 1 to " + std::to_string(kMaxChoices));
  if (Status status = check_output(request, bounds); !status) return status;
  if (request.prediction.size() > static_cast<size_t>(max_context))
    return invalid("prediction has " + std::to_string(request.prediction.size()) +
                   " tokens; this model takes at most " + std::to_string(max_context));
  if (Status status = check_tokens("prediction", request.prediction, n_vocab); !status) return status;
  if (Status status = check_sampling(request.sampling, n_vocab); !status) return status;
  if (Status status = check_stops(request, n_vocab); !status) return status;
  if (Status status = check_reasoning(request.reasoning, n_vocab); !status) return status;
  if (!request.spans.empty() && request.sampling.prompt_logprobs >= 0)
    return Error{ErrorCode::kUnsupported, "prompt_logprobs are not supported for prompts with images or embeddings"};
  if (request.min_tokens < 0 || request.min_tokens > std::max(request.max_tokens, 0))
    return invalid("min_tokens must be from 0 to max_tokens, which is " + std::to_string(request.max_tokens));
  if (request.max_repeats < 0 || request.max_repeats > kMaxRepeats)
    return invalid("max_repeats must be from 0 (off) to " + std::to_string(kMaxRepeats));
  if (request.format_head.size() > static_cast<size_t>(kMaxCallTokens))
    return invalid("format_head has more than " + std::to_string(kMaxCallTokens) + " tokens");
  if (Status status = check_tokens("format_head", request.format_head, n_vocab); !status) return status;
  return check_calls(request.calls, n_vocab);
}

}  // namespace monolith
