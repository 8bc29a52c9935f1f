#include "engine/sequence.h"

#include <algorithm>

#include "engine/adapters/adapter_set.h"

namespace monolith {
namespace {

// Returns the prompt's tokens without the placeholders of embedding spans.
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

static_assert(kMaxChoices <= ScheduledSequence::kOrderStride);

Sequence::Sequence(Request& owner, int choice_index)
    : ScheduledSequence(owner, choice_index, owner.out_of_memory), output(owner.format) {
  const GenerationRequest& params = owner.params;
  organization = params.organization;
  background = params.background;
  n_choices = params.n;
  generates = params.output == OutputKind::kTokens;
  // A vector depends on the hidden states of all prompt tokens. The prefix cache does not store hidden states.
  uses_cache = params.use_prefix_cache && params.output != OutputKind::kVector;
  spans = params.spans;
  if (params.adapter_use) adapter_hash = params.adapter_use->hash();
  tokens = params.prompt;
  n_prompt = static_cast<int>(params.prompt.size());
  n_scored = choice_index == 0 && params.sampling.prompt_logprobs >= 0 ? 0 : n_prompt;
}

bool Sequence::can_start() const { return request.inputs_ready && !request.channel->full(); }

bool Sequence::is_blocked() const { return output.is_blocked() || request.channel->full(); }

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
  if (!params.prediction.empty()) prediction.emplace(params.prediction);
  tokens.reserve(static_cast<size_t>(request.max_length));
  kv.allocate(n_pages, request.layout);
  counts = std::move(counted);
}

const PageId* Sequence::table(int number) const { return kv.table(number, request.layout); }

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
