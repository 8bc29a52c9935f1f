#include "engine/output/output_format.h"

#include <algorithm>
#include <utility>

namespace monolith {
namespace {

using Then = Tag::Then;

// Builds the tags of tool calls: each of `beginnings` is followed by its own grammar. If there is not a grammar for
// each beginning, all calls are unconstrained.
std::vector<Tag> call_tags(const std::vector<std::vector<TokenId>>& beginnings,
                           const std::vector<GrammarRef>& grammars) {
  std::vector<Tag> tags;
  tags.reserve(beginnings.size());
  for (size_t i = 0; i < beginnings.size(); ++i)
    tags.push_back({beginnings[i], Then::kCall, grammars.size() == beginnings.size() ? grammars[i] : nullptr});
  return tags;
}

// Adds a tag that takes precedence over a call with the same tokens.
std::vector<Tag> with_first(Tag tag, std::vector<Tag> tags) {
  tags.insert(tags.begin(), std::move(tag));
  return tags;
}

// Returns the token sequences that can start an optional tool call. If `calls` lists no sequences, only the open
// marker's token can.
std::vector<std::vector<TokenId>> starts_of(const CallParams& calls) {
  if (calls.starts.empty() && calls.open.token != kNoToken) return {{calls.open.token}};
  return calls.starts;
}

TagSet make_prefixes(const CallParams& calls) {
  std::vector<Tag> tags = call_tags(calls.prefixes, calls.grammars);
  if (tags.empty() || calls.answer.empty()) return TagSet(std::move(tags));
  return TagSet(with_first({calls.answer, Then::kAnswer, nullptr}, std::move(tags)));
}

TagSet make_starts(const CallParams& calls) {
  const std::vector<std::vector<TokenId>> starts = starts_of(calls);
  const bool has_answer = !calls.answer.empty();
  // If the open marker's token is the only possible start of a call, a prefix follows the marker, and the grammar
  // applies only after that prefix.
  const bool is_marker_only = starts.size() + has_answer == 1 && calls.open.token != kNoToken;
  std::vector<Tag> tags = call_tags(starts, is_marker_only ? std::vector<GrammarRef>{} : calls.grammars);
  return TagSet(has_answer ? with_first({calls.answer_start, Then::kAnswer, nullptr}, std::move(tags))
                           : std::move(tags));
}

TagSet make_heads(const GenerationRequest& params) {
  if (params.format == nullptr || params.format_head.empty()) return {};
  const std::vector<std::vector<TokenId>> starts = starts_of(params.calls);
  std::vector<GrammarRef> grammars = params.calls.grammars;
  grammars.resize(starts.size());
  return TagSet(with_first({params.format_head, Then::kFormat, params.format}, call_tags(starts, grammars)));
}

TagSet make_next(const CallParams& calls) {
  if (calls.end.empty()) return {};
  std::vector<Tag> tags = {{calls.end, Then::kCallsEnd, nullptr}};
  for (size_t i = 0; i < calls.next.size(); ++i)
    tags.push_back({calls.next[i], Then::kCall, calls.grammars[i % calls.grammars.size()]});
  return TagSet(std::move(tags));
}

TagSet make_reasoning_end(const std::vector<TokenId>& tokens) {
  return tokens.empty() ? TagSet() : TagSet({{tokens, Then::kReasoningEnd, nullptr}});
}

}  // namespace

OutputFormat::OutputFormat(const GenerationRequest& generation)
    : params(generation),
      reasoning_end(make_reasoning_end(generation.reasoning.close_sequence)),
      prefixes(make_prefixes(generation.calls)),
      required(call_tags(generation.calls.required, generation.calls.grammars)),
      starts(make_starts(generation.calls)),
      next(make_next(generation.calls)),
      heads(make_heads(generation)) {}

bool OutputFormat::ends(const Tokenizer& tokenizer, TokenId token) const {
  const std::vector<TokenId>& stops = params.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return true;
  return !params.ignore_eos && tokenizer.is_end_of_generation(token);
}

bool OutputFormat::is_marker(TokenId token) const {
  return token == params.reasoning.open.token || token == params.reasoning.close.token ||
         token == params.calls.open.token || token == params.calls.close.token;
}

}  // namespace monolith
