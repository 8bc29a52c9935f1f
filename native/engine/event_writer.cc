#include "engine/event_writer.h"

#include <bit>
#include <cstring>

namespace monolith {

// Records are copied as the processor stores them.
static_assert(std::endian::native == std::endian::little);

template <typename T>
void EventWriter::put(T value) {
  const size_t at = out_.size();
  out_.resize(at + sizeof value);
  std::memcpy(out_.data() + at, &value, sizeof value);
}

void EventWriter::put_bytes(std::string_view bytes) {
  const size_t at = out_.size();
  out_.resize(at + (bytes.size() + 3) / 4 * 4);   // resize() zeroes the padding
  if (!bytes.empty()) std::memcpy(out_.data() + at, bytes.data(), bytes.size());
}

void EventWriter::begin(EventKind kind, uint8_t section, uint8_t flags) {
  start_ = out_.size();
  put(uint32_t{0});
  put(request_);
  put(static_cast<uint8_t>(kind));
  put(static_cast<uint8_t>(choice_));
  put(section);
  put(flags);
}

void EventWriter::end() {
  const auto size = static_cast<uint32_t>(out_.size() - start_);
  std::memcpy(out_.data() + start_, &size, sizeof size);
}

void EventWriter::started(uint32_t prompt_tokens, uint32_t cached_tokens, float queue_ms) {
  begin(EventKind::kStarted, 0, 0);
  put(prompt_tokens);
  put(cached_tokens);
  put(queue_ms);
  end();
}

void EventWriter::piece(Section section, std::string_view text, int n_tokens,
                        std::span<const TokenLogprobs> logprobs) {
  begin(EventKind::kText, static_cast<uint8_t>(section), logprobs.empty() ? 0 : 1);
  put(static_cast<uint32_t>(n_tokens));
  put(static_cast<uint32_t>(text.size()));
  put_bytes(text);
  if (!logprobs.empty()) {
    put(static_cast<uint32_t>(logprobs.size()));
    for (const TokenLogprobs& entry : logprobs) {
      put(entry.token);
      put(entry.logprob);
      put(static_cast<uint32_t>(entry.n_top));
      for (int i = 0; i < entry.n_top; ++i) {
        put(entry.top[i].token);
        put(entry.top[i].logprob);
      }
    }
  }
  end();
}

void EventWriter::finished(FinishReason reason, uint32_t completion_tokens, uint32_t reasoning_tokens,
                           int32_t stop_index, float prefill_ms, float decode_ms) {
  begin(EventKind::kFinished, static_cast<uint8_t>(reason), 0);
  put(completion_tokens);
  put(reasoning_tokens);
  put(stop_index);
  put(prefill_ms);
  put(decode_ms);
  end();
}

void EventWriter::failed(FailureCode code, std::string_view message) {
  begin(EventKind::kFailed, static_cast<uint8_t>(code), 0);
  put(static_cast<uint32_t>(message.size()));
  put_bytes(message);
  end();
}

}  // namespace monolith
