#include "engine/loop/event_writer.h"

#include <bit>
#include <cstring>

namespace monolith {

// Records are written in host byte order, so the host must be little-endian.
static_assert(std::endian::native == std::endian::little);

namespace {

constexpr size_t kHeaderBytes = 12;

size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

size_t entry_size(const TokenLogprobs& entry) { return (3 + 2 * static_cast<size_t>(entry.n_top)) * sizeof(uint32_t); }

}  // namespace

template <typename T>
void EventWriter::put(T value) {
  std::memcpy(at_, &value, sizeof value);
  at_ += sizeof value;
}

void EventWriter::put_bytes(std::string_view bytes) {
  if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
  at_ += padded(bytes.size());  // The padding bytes are already zero, because begin() clears the record.
}

void EventWriter::begin(EventKind kind, uint8_t section, uint8_t flags, size_t size) {
  const size_t start = out_.size();
  out_.resize(start + kHeaderBytes + size);
  at_ = out_.data() + start;
  put(static_cast<uint32_t>(kHeaderBytes + size));
  put(request_);
  put(static_cast<uint8_t>(kind));
  put(static_cast<uint8_t>(choice_));
  put(section);
  put(flags);
}

void EventWriter::started(uint32_t prompt_tokens, uint32_t cached_tokens, float queue_ms, float encoder_ms) {
  begin(EventKind::kStarted, 0, 0, 4 * sizeof(uint32_t));
  put(prompt_tokens);
  put(cached_tokens);
  put(queue_ms);
  put(encoder_ms);
}

void EventWriter::piece(Section section, std::string_view text, int n_tokens, std::span<const TokenLogprobs> logprobs) {
  size_t size = 2 * sizeof(uint32_t) + padded(text.size());
  if (!logprobs.empty()) size += sizeof(uint32_t);
  for (const TokenLogprobs& entry : logprobs) size += entry_size(entry);
  begin(EventKind::kText, static_cast<uint8_t>(section), logprobs.empty() ? 0 : 1, size);
  put(static_cast<uint32_t>(n_tokens));
  put(static_cast<uint32_t>(text.size()));
  put_bytes(text);
  if (logprobs.empty()) return;
  put(static_cast<uint32_t>(logprobs.size()));
  for (const TokenLogprobs& entry : logprobs) put_entry(entry);
}

void EventWriter::put_entry(const TokenLogprobs& entry) {
  put(entry.token);
  put(entry.logprob);
  put(static_cast<uint32_t>(entry.n_top));
  for (int i = 0; i < entry.n_top; ++i) {
    put(entry.top[i].token);
    put(entry.top[i].logprob);
  }
}

void EventWriter::prompt(int first, std::span<const TokenLogprobs* const> logprobs) {
  size_t size = 2 * sizeof(uint32_t);
  for (const TokenLogprobs* entry : logprobs) size += entry_size(*entry);
  begin(EventKind::kPrompt, 0, 0, size);
  put(static_cast<uint32_t>(first));
  put(static_cast<uint32_t>(logprobs.size()));
  for (const TokenLogprobs* entry : logprobs) put_entry(*entry);
}

void EventWriter::token(TokenId token) {
  begin(EventKind::kTokens, 0, 0, 2 * sizeof(uint32_t));
  put(uint32_t{1});
  put(token);
}

void EventWriter::vector(std::span<const float> values) {
  begin(EventKind::kVector, 0, 0, sizeof(uint32_t) + values.size_bytes());
  put(static_cast<uint32_t>(values.size()));
  std::memcpy(at_, values.data(), values.size_bytes());
}

void EventWriter::finished(FinishReason reason, uint32_t completion_tokens, uint32_t reasoning_tokens,
                           int32_t stop_index, float prefill_ms, float decode_ms, uint32_t predicted_tokens) {
  begin(EventKind::kFinished, static_cast<uint8_t>(reason), 0, 6 * sizeof(uint32_t));
  put(completion_tokens);
  put(reasoning_tokens);
  put(stop_index);
  put(prefill_ms);
  put(decode_ms);
  put(predicted_tokens);
}

void EventWriter::failed(FailureCode code, std::string_view message) {
  begin(EventKind::kFailed, static_cast<uint8_t>(code), 0, sizeof(uint32_t) + padded(message.size()));
  put(static_cast<uint32_t>(message.size()));
  put_bytes(message);
}

}  // namespace monolith
