#include "engine/event_writer.h"

#include <array>
#include <bit>
#include <cstring>

namespace monolith {

// Records are copied as the processor stores them.
static_assert(std::endian::native == std::endian::little);

// At once: each growth of the buffer costs more than the bytes do.
template <typename... T>
void EventWriter::put(T... values) {
  std::array<std::byte, (sizeof values + ...)> packed;
  std::byte* at = packed.data();
  ((std::memcpy(at, &values, sizeof values), at += sizeof values), ...);
  out_.insert(out_.end(), packed.begin(), packed.end());
}

void EventWriter::put_bytes(std::string_view bytes) {
  const size_t at = out_.size();
  out_.resize(at + (bytes.size() + 3) / 4 * 4);   // resize() zeroes the padding
  if (!bytes.empty()) std::memcpy(out_.data() + at, bytes.data(), bytes.size());
}

template <typename... T>
void EventWriter::begin(EventKind kind, uint8_t section, uint8_t flags, T... fields) {
  start_ = out_.size();
  put(uint32_t{0}, request_, static_cast<uint8_t>(kind), static_cast<uint8_t>(choice_), section, flags, fields...);
}

void EventWriter::end() {
  const auto size = static_cast<uint32_t>(out_.size() - start_);
  std::memcpy(out_.data() + start_, &size, sizeof size);
}

void EventWriter::started(uint32_t prompt_tokens, uint32_t cached_tokens, float queue_ms) {
  begin(EventKind::kStarted, 0, 0, prompt_tokens, cached_tokens, queue_ms);
  end();
}

void EventWriter::piece(Section section, std::string_view text, int n_tokens,
                        std::span<const TokenLogprobs> logprobs) {
  begin(EventKind::kText, static_cast<uint8_t>(section), logprobs.empty() ? 0 : 1, static_cast<uint32_t>(n_tokens),
        static_cast<uint32_t>(text.size()));
  put_bytes(text);
  if (!logprobs.empty()) {
    put(static_cast<uint32_t>(logprobs.size()));
    for (const TokenLogprobs& entry : logprobs) {
      put(entry.token, entry.logprob, static_cast<uint32_t>(entry.n_top));
      for (int i = 0; i < entry.n_top; ++i) put(entry.top[i].token, entry.top[i].logprob);
    }
  }
  end();
}

void EventWriter::finished(FinishReason reason, uint32_t completion_tokens, uint32_t reasoning_tokens,
                           int32_t stop_index, float prefill_ms, float decode_ms) {
  begin(EventKind::kFinished, static_cast<uint8_t>(reason), 0, completion_tokens, reasoning_tokens, stop_index, prefill_ms,
        decode_ms);
  end();
}

void EventWriter::failed(FailureCode code, std::string_view message) {
  begin(EventKind::kFailed, static_cast<uint8_t>(code), 0, static_cast<uint32_t>(message.size()));
  put_bytes(message);
  end();
}

}  // namespace monolith
