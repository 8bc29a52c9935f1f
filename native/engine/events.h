// The packed event stream an engine writes to a channel: one byte buffer per wake-up, records back to
// back. Little-endian, records padded to 4 bytes. src/engine/events.ts reads exactly this.
//
//   record header, 12 bytes
//     u32 size       of the whole record, header and padding included
//     u32 request    the id submit() returned
//     u8  kind       EventKind
//     u8  choice     0 .. n-1
//     u8  section    0 content, 1 reasoning, 2 tool call (kText); FinishReason (kFinished); FailureCode (kFailed)
//     u8  flags      kText: bit 0 = logprobs follow
//
//   kStarted    u32 prompt_tokens, u32 cached_tokens, f32 queue_ms, f32 tower_ms          once per request:
//               how long it waited, and without that how long the vision tower computed its images
//   kText       u32 n_tokens  generated tokens whose text begins in this piece, or was line breaks left out
//                             before it (0 when only held-back text is let go)
//               u32 n_bytes   then that many bytes of whole UTF-8 characters, padded to 4
//               with logprobs: u32 n_entries, then per entry
//                 i32 token, f32 logprob, u32 n_top, then n_top times (i32 token, f32 logprob)
//               Line breaks at the beginning of the reasoning, and of content that follows it, are in no
//               piece. A token that was nothing else has no entry in n_entries, but counts like any other.
//               The spellings of a tool call's markers are part of its text; logprobs come with content only.
//   kFinished   u32 completion_tokens, u32 reasoning_tokens, i32 stop_index (which stop string, or -1),
//               f32 prefill_ms, f32 decode_ms                                once per choice
//   kFailed     u32 n_bytes, message bytes, padded                           once per request, ends it
//   kPrompt     u32 first     position of the first token that is told of; 1 or more, the first token has no probability
//               u32 n_entries, then entries as with kText: the prompt's tokens from there on, in order. A request that asks
//               for them gets all before its choices' first records, in as many records as steps have computed its prompt
//   kTokens     u32 n_tokens, i32 each: what was generated since the last of these, in order, whatever text it is and the
//               token that ended it included; before the text it begins. For requests that ask for them
//
// Tokens of a choice arrive in order. After the last choice's kFinished, or after kFailed, no record of that request
// follows. Once cancel() has returned, drain() gives no record of it either, even if it had ended before.
#pragma once

#include <cstdint>

namespace monolith {

enum class EventKind : uint8_t { kStarted = 1, kText = 2, kFinished = 3, kFailed = 4, kPrompt = 5, kTokens = 6 };
enum class Section : uint8_t { kContent = 0, kReasoning = 1, kCall = 2 };

}  // namespace monolith
