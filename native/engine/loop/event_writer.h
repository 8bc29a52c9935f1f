// Appends the event records of one request and choice to a byte buffer (format: events.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/events.h"
#include "engine/request.h"
#include "engine/output/output_parser.h"

namespace monolith {

class EventWriter final : public DeltaSink {
 public:
  EventWriter(std::vector<std::byte>& out, uint32_t request, int choice)
      : out_(out), request_(request), choice_(choice) {}

  void started(uint32_t prompt_tokens, uint32_t cached_tokens, float queue_ms, float encoder_ms);
  void piece(Section section, std::string_view text, int n_tokens, std::span<const TokenLogprobs> logprobs) override;
  // Log-probabilities of the prompt tokens, starting at position `first`.
  void prompt(int first, std::span<const TokenLogprobs* const> logprobs);
  void token(TokenId token) override;
  void vector(std::span<const float> values);
  void finished(FinishReason reason, uint32_t completion_tokens, uint32_t reasoning_tokens, int32_t stop_index,
                float prefill_ms, float decode_ms, uint32_t predicted_tokens);
  void failed(FailureCode code, std::string_view message);

 private:
  // Starts a record. `size`: number of bytes after the header.
  void begin(EventKind kind, uint8_t section, uint8_t flags, size_t size);
  void put_bytes(std::string_view bytes);  // Writes the bytes and pads them to a multiple of 4.
  void put_entry(const TokenLogprobs& entry);
  template <typename T>
  void put(T value);

  std::vector<std::byte>& out_;
  uint32_t request_;
  int choice_;
  std::byte* at_ = nullptr;  // Write position in the current record.
};

}  // namespace monolith
