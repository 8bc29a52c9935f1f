#include "engine/sequence.h"

#include <algorithm>

namespace monolith {
namespace {

// Sorts the alternatives as forced sequences require, and returns the grammars in the same order.
std::vector<GrammarRef> sort_alternatives(std::vector<std::vector<TokenId>>& alternatives,
                                          const std::vector<GrammarRef>& grammars) {
  if (grammars.size() != alternatives.size()) {
    std::sort(alternatives.begin(), alternatives.end());
    return {};
  }
  std::vector<std::pair<std::vector<TokenId>, GrammarRef>> pairs;
  for (size_t i = 0; i < alternatives.size(); ++i) pairs.emplace_back(std::move(alternatives[i]), grammars[i]);
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<GrammarRef> sorted;
  for (size_t i = 0; i < pairs.size(); ++i) {
    alternatives[i] = std::move(pairs[i].first);
    sorted.push_back(std::move(pairs[i].second));
  }
  return sorted;
}

// The prompt positions that are tokens, that is, not embedding spans.
std::vector<TokenId> prompt_tokens(const GenerationRequest& params) {
  std::vector<TokenId> tokens;
  int from = 0;
  const auto take_to = [&](int end) {
    tokens.insert(tokens.end(), params.prompt.begin() + from, params.prompt.begin() + end);
  };
  for (const InputSpan& span : params.spans) {
    take_to(span.first);
    from = span.end();
  }
  take_to(static_cast<int>(params.prompt.size()));
  return tokens;
}

GenerationRequest prepared(GenerationRequest params, CallGrammars& call_grammars) {
  count_rope_positions(params.spans);
  CallParams& calls = params.calls;
  if (calls.starts.empty() && calls.open.token != kNoToken) calls.starts = {{calls.open.token}};
  if (params.format != nullptr && !params.format_head.empty()) {
    call_grammars.heads = calls.starts;
    std::vector<GrammarRef> grammars = calls.grammars;
    grammars.resize(calls.starts.size());
    call_grammars.heads.push_back(params.format_head);
    grammars.push_back(params.format);
    call_grammars.headed = sort_alternatives(call_grammars.heads, grammars);
    call_grammars.format_head =
        static_cast<size_t>(std::ranges::find(call_grammars.heads, params.format_head) - call_grammars.heads.begin());
  }
  std::vector<GrammarRef> optional = calls.grammars;  // Grammars for positions at which a tool call is optional.
  if (!calls.answer.empty()) {
    if (!optional.empty()) optional.push_back(nullptr);
    if (!calls.prefixes.empty()) calls.prefixes.push_back(calls.answer);
    calls.starts.push_back(calls.answer_start);
  }
  call_grammars.prefixes = sort_alternatives(calls.prefixes, optional);
  call_grammars.required = sort_alternatives(calls.required, calls.grammars);
  if (!calls.end.empty()) {
    std::vector<GrammarRef> grammars;
    for (size_t i = 0; i < calls.next.size(); ++i) grammars.push_back(calls.grammars[i % calls.grammars.size()]);
    calls.next.push_back(calls.end);
    grammars.push_back(nullptr);
    call_grammars.next = sort_alternatives(calls.next, grammars);
    call_grammars.end = static_cast<size_t>(std::ranges::find(calls.next, calls.end) - calls.next.begin());
  }
  if (calls.starts.size() > 1 || calls.open.token == kNoToken)
    call_grammars.starts = sort_alternatives(calls.starts, optional);
  if (!calls.answer.empty()) {
    call_grammars.prefix_answer =
        static_cast<size_t>(std::ranges::find(calls.prefixes, calls.answer) - calls.prefixes.begin());
    call_grammars.start_answer =
        static_cast<size_t>(std::ranges::find(calls.starts, calls.answer_start) - calls.starts.begin());
  }
  return params;
}

}  // namespace

static_assert(kMaxChoices <= ScheduledSequence::kOrderStride);

Sequence::Sequence(Request& owner, int choice_index)
    : ScheduledSequence(owner, choice_index, owner.out_of_memory), output(owner.params) {
  const GenerationRequest& params = owner.params;
  organization = params.organization;
  n_choices = params.n;
  generates = params.output == OutputKind::kTokens;
  uses_cache = params.use_prefix_cache;
  spans = params.spans;
  tokens = params.prompt;
  n_prompt = static_cast<int>(params.prompt.size());
  n_scored = choice_index == 0 && params.sampling.prompt_logprobs >= 0 ? 0 : n_prompt;
}

bool Sequence::can_start() const { return request.inputs_ready && !request.channel->full(); }

bool Sequence::is_blocked() const { return output.mask_pending || request.channel->full(); }

void Sequence::allocate() {
  if (kv.is_allocated()) return;
  const GenerationRequest& params = request.params;
  const auto n_pages = static_cast<size_t>(pages_for(request.max_length));
  PenaltyCounts counted;
  if (PenaltyCounts::needed(params.sampling)) {
    // Only the repetition penalty also applies to prompt tokens.
    const bool counts_prompt = params.sampling.repetition_penalty != 1.0f;
    const std::vector<TokenId> prompt = counts_prompt ? prompt_tokens(params) : std::vector<TokenId>();
    counted = PenaltyCounts(prompt, request.max_length - n_prompt, request.n_vocab);
  }
  tokens.reserve(static_cast<size_t>(request.max_length));
  kv.allocate(n_pages, request.layout);
  counts = std::move(counted);
}

const PageId* Sequence::table(int number) const { return kv.table(number, request.layout); }

Request::Request(RequestId request_id, std::shared_ptr<Channel> events, GenerationRequest generation, int vocabulary,
                 int max_context, const KvLayout& kv_layout)
    : id(request_id),
      channel(std::move(events)),
      params(prepared(std::move(generation), call_grammars)),
      max_length(static_cast<int>(
          std::min<int64_t>(static_cast<int64_t>(params.prompt.size()) + params.max_tokens, max_context))),
      n_vocab(vocabulary),
      layout(kv_layout),
      submitted_at(Clock::now()),
      waits_since(submitted_at),
      live_choices(params.n) {
  choices.reserve(static_cast<size_t>(params.n));
  choices.push_back(std::make_unique<Sequence>(*this, 0));
}

}  // namespace monolith
