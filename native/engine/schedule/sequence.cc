#include "engine/schedule/sequence.h"

#include <algorithm>

namespace monolith {
namespace {

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

GenerationRequest with_rope_positions(GenerationRequest params) {
  count_rope_positions(params.spans);
  return params;
}

}  // namespace

Sequence::Sequence(Request& owner, int choice_index)
    : request(owner),
      choice(choice_index),
      n_prompt(static_cast<int>(owner.params.prompt.size())),
      n_scored(choice_index == 0 && owner.params.sampling.prompt_logprobs >= 0 ? 0 : n_prompt),
      output(owner.format) {
  tokens = owner.params.prompt;
}

void Sequence::allocate() {
  if (kv.pages.capacity() > 0) return;
  const GenerationRequest& params = request.params;
  const auto n_pages = static_cast<size_t>(pages_for(request.max_length));
  PageTable table(n_pages, static_cast<size_t>(std::max(1, request.layout.full)));
  PageTable window_table(n_pages, static_cast<size_t>(request.layout.windowed));
  PenaltyCounts counted;
  if (PenaltyCounts::needed(params.sampling)) {
    // Only the repetition penalty also applies to prompt tokens.
    const bool counts_prompt = params.sampling.repetition_penalty != 1.0f;
    const std::vector<TokenId> prompt = counts_prompt ? prompt_tokens(params) : std::vector<TokenId>();
    counted = PenaltyCounts(prompt, request.max_length - n_prompt, request.n_vocab);
  }
  tokens.reserve(static_cast<size_t>(request.max_length));
  kv.pages = std::move(table);
  kv.window_pages = std::move(window_table);
  counts = std::move(counted);
}

const PageId* Sequence::table(int number) const {
  const int full = request.layout.full;
  return number < full ? kv.pages.row(static_cast<size_t>(number))
                       : kv.window_pages.row(static_cast<size_t>(number - full));
}

uint64_t Sequence::order() const { return request.arrival * kMaxChoices + static_cast<uint64_t>(choice); }

Request::Request(RequestId request_id, std::shared_ptr<Channel> events, GenerationRequest generation, int vocabulary,
                 int max_context, const KvLayout& kv_layout)
    : id(request_id),
      channel(std::move(events)),
      params(with_rope_positions(std::move(generation))),
      format(params),
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
