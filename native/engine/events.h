// Binary event stream that an engine writes to a channel: one byte buffer per wake-up with consecutive records.
// Little-endian; records are padded to 4 bytes. The reader is src/engine/events.ts.
//
//   record header, 12 bytes
//     u32 size       bytes of the whole record, including header and padding
//     u32 request    the id returned by submit()
//     u8  kind       EventKind
//     u8  choice     0 .. n-1
//     u8  section    kText: 0 content, 1 reasoning, 2 tool call; kFinished: FinishReason; kFailed: FailureCode
//     u8  flags      kText: bit 0 = logprobs follow
//
//   kStarted    u32 prompt_tokens, u32 cached_tokens, f32 queue_ms, f32 encoder_ms          once per request:
//               queue_ms excludes encoder_ms, the time in which the vision encoder computed the images
//   kText       u32 n_tokens  number of generated tokens whose text starts in this delta, including earlier tokens
//                             that were only dropped line breaks (0 if only held-back text is released)
//               u32 n_bytes   then that many bytes of whole UTF-8 characters, padded to 4
//               with logprobs: u32 n_entries, then per entry
//                 i32 token, f32 logprob, u32 n_top, then n_top times (i32 token, f32 logprob)
//               Line breaks at the start of the reasoning, and of content after reasoning, are dropped from
//               the text. A token that consists only of such line breaks has no logprobs entry but is counted.
//               The text of a tool call includes its markers. Only content has logprobs.
//   kFinished   u32 completion_tokens, u32 reasoning_tokens, i32 stop_index (which stop string, or -1),
//               f32 prefill_ms, f32 decode_ms,
//               u32 predicted_tokens  tokens of the prediction that the output repeats         once per choice
//   kFailed     u32 n_bytes, message bytes, padded                           once per request, ends it
//   kPrompt     u32 first     position of the first reported token, at least 1: the first token has no probability
//               u32 n_entries, then entries as in kText: consecutive prompt tokens from that position on. Only for
//               requests with prompt_logprobs: one record per step of the prefill, before any record of a choice
//   kTokens     u32 n_tokens, then an i32 each: the ids of all tokens generated since the last kTokens record,
//               including the token that ended the choice. Precedes the text that the tokens start. Only for requests
//               with return_tokens
//   kVector     u32 n_values, then an f32 each: the prompt's embedding, not normalized to unit length, or its scores.
//               Emitted once, before kFinished, and only for requests with output kVector
//
// The tokens of a choice arrive in order. No record of a request follows its last choice's kFinished or its kFailed.
// After cancel() has returned, drain_channel() returns no record of the request, even if it had finished before.
#pragma once

#include <cstdint>

namespace monolith {

enum class EventKind : uint8_t {
  kStarted = 1,
  kText = 2,
  kFinished = 3,
  kFailed = 4,
  kPrompt = 5,
  kTokens = 6,
  kVector = 7
};
enum class Section : uint8_t { kContent = 0, kReasoning = 1, kCall = 2 };

}  // namespace monolith
