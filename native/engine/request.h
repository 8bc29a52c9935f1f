// Parameters of a generation request and their limits. Built on the caller's thread, moved into the engine at
// submission, and immutable afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/adapter_info.h"
#include "engine/inputs.h"
#include "base/token_id.h"

namespace monolith {

namespace grammar {
class Grammar;
}
class AdapterUse;

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopBytes = 1024;  // Enough for 256 characters of up to 4 bytes.
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxBanned = 16;
inline constexpr int kMaxRepeats = 1000;
inline constexpr int kMaxCallPrefixes = 4096;
inline constexpr int kMaxCallPrefixBytes = 1024;
inline constexpr int kMaxRetainBytes = 256;

struct SamplingParams {
  float temperature = 1.0f;  // Sampling temperature; 0 = greedy.
  int top_k = 0;             // Keeps the k most likely tokens; 0 = off.
  float top_p = 1.0f;        // Nucleus sampling; 0 keeps only the most likely token.
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;  // Applies to tokens of the prompt and the output.
  float frequency_penalty = 0.0f;   // Applies to tokens of the output only.
  float presence_penalty = 0.0f;    // Applies to tokens of the output only.
  uint64_t seed = 0;
  uint32_t stream = 0;  // Stream of the seed's random numbers; choice i uses stream + i.
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> banned;  // Tokens that are never sampled, regardless of logit_bias.
  int top_logprobs = -1;        // Alternatives reported per generated token: 0 .. 20; -1 = no logprobs.
  int prompt_logprobs = -1;     // Alternatives reported per prompt token (EventKind::kPrompt): 0 .. 20; -1 = none.
};
// Sampling order: logit_bias, banned → penalties → grammar mask → temperature → top_k → top_p → min_p → draw. Reported
// logprobs come from the distribution after the grammar mask, before the later stages. Prompt logprobs come from the
// unmodified distribution.

// Ranges of the parameters: wider than any API allows, but narrow enough that no logit can overflow.
inline constexpr double kMaxTemperature = 100;
inline constexpr double kMinRepetitionPenalty = 0.01, kMaxRepetitionPenalty = 100;
inline constexpr double kMaxPenalty = 100;  // Limit for the absolute values of frequency and presence penalties.
inline constexpr double kMaxBias = 1000;    // Limit for the absolute value.

// A delimiter between reasoning and content. If the marker is a single token of the vocabulary, only that token is
// recognized; otherwise, the marker's text is recognized in the output.
struct Marker {
  std::string text;  // Empty = no such marker.
  TokenId token = kNoToken;
};

// Line breaks directly after either marker, and directly before the close marker, are dropped from the text. Stop
// strings are matched on the remaining text.
struct ReasoningParams {
  Marker open, close;          // Both empty: all text is content.
  bool starts_inside = false;  // The prompt ends inside the reasoning section.
  // The prompt already contains part of the reasoning text, so no line breaks are dropped at the start.
  bool continued = false;
  int budget = -1;  // Maximum reasoning tokens; then the engine appends `close_sequence`. -1 = unlimited.
  std::vector<TokenId> close_sequence;
};

// A grammar compiled for the engine's own vocabulary.
using GrammarRef = std::shared_ptr<grammar::Grammar>;

// Tool calls within the content. The text from the open marker up to and including the close marker is emitted as
// Section::kCall, exactly as generated. Stop strings do not apply to it.
struct CallParams {
  // If `open` is empty, tool calls are not recognized. If `close` is empty, a call extends to the end of the turn.
  Marker open, close;
  bool at_start = false;  // The open marker is recognized only at the start of the content.
  // The following lists of token sequences may be in any order. A list has at most kMaxCallPrefixes entries, all of
  // which are non-empty.

  // After an open marker that is a token, one of these must follow. If empty, anything may follow.
  std::vector<std::vector<TokenId>> prefixes;
  std::vector<std::vector<TokenId>> required;  // The content must begin with one of these; empty = no restriction.
  // Beginnings of a call (open marker and prefix) that are allowed where a grammar otherwise permits only its own text.
  // If empty, only the marker's token is allowed, provided that the marker is a single token.
  std::vector<std::vector<TokenId>> starts;
  // Grammar after each prefix, up to and including the close marker; null = unconstrained. The list is either empty, or
  // has as many entries as `prefixes`, `required` and `starts`, in the same order. `prefixes` may be empty if the
  // marker is not a token.
  std::vector<GrammarRef> grammars;
  // For a section with several calls, each ended by its grammar. `next`: beginnings of a further call; entry i uses the
  // grammar at index i modulo the number of grammars. `end`: the tokens that end the section, including the close
  // marker. If `end` is empty, the first call's grammar ends the section.
  std::vector<std::vector<TokenId>> next;
  std::vector<TokenId> end;
  // For formats in which the content has a header that starts like a call. `answer`: the header after the open marker.
  // `answer_start`: the header including the open marker. Content follows the header. Empty = no such header.
  std::vector<TokenId> answer, answer_start;
  bool ends_itself = false;  // For calls without a close marker: the grammar ends the call section but not the turn.
};

// Tokens that must not be sampled, depending on the section of the sequence's text. Each list also includes
// SamplingParams::banned. If all lists are empty, only SamplingParams::banned applies.
struct SectionBans {
  std::vector<TokenId> undecided, reasoning, content, call;
  bool any() const { return !content.empty(); }
};

// `early` applies instead of `always` until min_tokens is reached. It also bans all tokens that end the generation.
// Built by output/section_bans.h.
struct OutputBans {
  SectionBans always, early;
};

// Kind of output. It determines which tokens need logits and when a sequence ends.
enum class OutputKind : uint8_t {
  kTokens,  // Generated tokens. Needs the logits of the last prompt position and of each new token.
  // Log-probabilities of the prompt's tokens. Needs the logits of every prompt position except the last. The sequence
  // ends with the prompt.
  kLogprobs,
  kVector,   // Embedding or scores of the prompt (PoolingHead). The request ends with the prefill.
  kNothing,  // No output: only fills the prefix cache with the prompt's pages.
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // The prompt: 1 .. max_context - 1 tokens.
  OutputKind output = OutputKind::kTokens;
  bool background = false;         // If true, the request yields to all requests that are not background requests.
  std::vector<InputSpan> spans;    // Embedding spans in order of position, without overlap.
  AdapterId adapter = kNoAdapter;  // The LoRA adapter that the request uses.
  uint64_t organization = 0;       // Namespace of the prefix cache and unit of fair scheduling.
  int n = 1;                       // Number of choices, which share the prompt.
  // Maximum generated tokens per choice, clamped to the remaining context. At least 1 for requests that generate
  // tokens, otherwise 0.
  int max_tokens = 0;
  SamplingParams sampling;
  ReasoningParams reasoning;
  CallParams calls;
  // If true, the marker tokens of reasoning and tool calls are banned in sections where they cannot occur, such as the
  // marker that closes the reasoning in content (output/section_bans.h).
  bool markers_in_place = false;
  // Generation stops when the same token sequence has occurred this many times in a row (output/repetition_guard.h).
  // 0 = off.
  int max_repeats = 0;
  GrammarRef format;  // The content must match this grammar or begin with a tool call; null = unconstrained.
  // Header before the text of `format`, for formats in which headers start like calls. When the content begins, the
  // engine forces the header or the beginning of a call; at the first token where the two differ, the model chooses.
  // Empty = no header.
  std::vector<TokenId> format_head;
  std::vector<std::string> stop;     // Stop strings, matched in content only; the match is not part of the output.
  std::vector<TokenId> stop_tokens;  // Tokens that end the output, in addition to the model's end-of-generation tokens.
  bool ignore_eos = false;           // End-of-generation tokens do not end the sequence; for benchmarks.
  // Minimum number of generated tokens. Before that, end-of-generation tokens are not sampled and stop strings are not
  // matched. A grammar takes precedence.
  int min_tokens = 0;
  OutputBans bans;  // Built at submission; not set by the caller.
  // Reference to the adapter whose id is `adapter`, held until the request is destroyed. Engine::submit() sets it.
  std::shared_ptr<AdapterUse> adapter_use;
  // Text that the output probably repeats, as tokens: a source of draft tokens (speculation/predicted_text.h). At most
  // as many tokens as the context length.
  std::vector<TokenId> prediction;
  bool return_tokens = false;  // Whether to emit token ids too (EventKind::kTokens).
  bool use_prefix_cache = true;
  // Label under which the pages of the finished or cancelled sequences are exported to the storage tier
  // (tiers/page_exporter.h), at most kMaxRetainBytes bytes. If empty, the pages are not exported.
  std::string retain;
  // Maximum queue wait in ms: from submission, or from the encoding of the last image, to the first step that computes
  // part of the request. The request then fails with kQueueTimeout. 0 = no limit.
  uint32_t queue_wait_ms = 30'000;
  // Maximum wall-clock time in ms from the first step of the request. The request then ends with kTimeLimit. 0 = no
  // limit.
  uint32_t generation_ms = 3'600'000;
};

enum class FinishReason : uint8_t {
  kEndOfTurn = 0,  // An end-of-generation token or stop token.
  kStopString = 1,
  kMaxTokens = 2,  // max_tokens was reached, or no tokens were requested.
  kContextFull = 3,
  kTimeLimit = 4,   // generation_ms has passed, or the engine was drained.
  kRepetition = 5,  // max_repeats was reached.
};

enum class FailureCode : uint8_t {
  kQueueTimeout = 1,  // queue_wait_ms passed before the first step.
  kEngineError = 2,   // The step failed (non-finite logits, backend error), or a grammar exceeded its limits.
  kShutdown = 3,      // The engine was closed.
};

}  // namespace monolith
