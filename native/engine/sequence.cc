#include "engine/sequence.h"

#include <algorithm>

namespace monolith {
namespace {

// Alternatives in the order that scripts want.
GenerationRequest prepared(GenerationRequest params) {
  std::sort(params.calls.prefixes.begin(), params.calls.prefixes.end());
  std::sort(params.calls.required.begin(), params.calls.required.end());
  return params;
}

}  // namespace

Sequence::Sequence(Request& owner, int choice_index)
    : request(owner),
      choice(choice_index),
      n_prompt(static_cast<int>(owner.params.prompt.size())),
      text(owner.params.reasoning, owner.params.calls, owner.params.stop, owner.wants_logprobs()),
      call_due(!owner.params.calls.required.empty()) {
  tokens.reserve(static_cast<size_t>(owner.max_length));
  tokens = owner.params.prompt;
  pages.reserve(static_cast<size_t>((owner.max_length + kPageTokens - 1) / kPageTokens));
  if (PenaltyCounts::needed(owner.params.sampling))
    counts = PenaltyCounts(owner.params.prompt, owner.max_length - n_prompt, owner.n_vocab);
}

uint64_t Sequence::order() const { return request.arrival * kMaxChoices + static_cast<uint64_t>(choice); }

Request::Request(RequestId request_id, std::shared_ptr<Channel> events, GenerationRequest generation,
                 int vocabulary, int max_context)
    : id(request_id),
      channel(std::move(events)),
      params(prepared(std::move(generation))),
      max_length(static_cast<int>(std::min<int64_t>(static_cast<int64_t>(params.prompt.size()) + params.max_tokens,
                                                    max_context))),
      n_vocab(vocabulary),
      submitted_at(Clock::now()),
      live_choices(params.n) {
  choices.reserve(static_cast<size_t>(params.n));
  choices.push_back(std::make_unique<Sequence>(*this, 0));
}

}  // namespace monolith
