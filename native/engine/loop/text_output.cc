#include "engine/loop/text_output.h"

namespace monolith {

TextOutput::TextOutput(const Tokenizer& tokenizer, RequestLifecycle& requests, size_t most_later)
    : tokenizer_(tokenizer), requests_(requests) {
  waiting_.reserve(most_later);
  logprobs_.reserve(most_later);
}

void TextOutput::write_later(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs) {
  int32_t at = -1;
  if (logprobs) {
    at = static_cast<int32_t>(logprobs_.size());
    logprobs_.push_back(*logprobs);
  }
  waiting_.push_back({&sequence, token, at});
}

void TextOutput::write(const Waiting& waiting) {
  Sequence& sequence = *waiting.sequence;
  if (sequence.state == SequenceState::kEnded) return;
  requests_.guard(sequence.request, [&] {
    EventWriter writer(requests_.records_of(sequence.request), sequence.request.id, sequence.choice);
    const TokenLogprobs* const logprobs =
        waiting.logprobs < 0 ? nullptr : &logprobs_[static_cast<size_t>(waiting.logprobs)];
    const int stop = sequence.output.write(tokenizer_, waiting.token, logprobs, writer);
    if (stop >= 0) requests_.finish(sequence, FinishReason::kStopString, stop);
  });
}

void TextOutput::write_waiting_of(const Request& request) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (&waiting.sequence->request != &request) return false;
    write(waiting);
    return true;
  });
}

void TextOutput::write_waiting() {
  for (const Waiting& waiting : waiting_) write(waiting);
  drop_waiting();
}

void TextOutput::drop_waiting() {
  waiting_.clear();
  logprobs_.clear();
}

}  // namespace monolith
