// What a caller asks of the engine, and the limits each field obeys. Built on a caller's thread,
// moved into the engine at submission, immutable afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/inputs.h"
#include "text/tokenizer/token.h"

namespace monolith {

namespace grammar {
class Grammar;
}

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopBytes = 1024;  // 256 characters of up to 4 bytes
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxBanned = 16;
inline constexpr int kMaxRepeats = 1000;
inline constexpr int kMaxCallPrefixes = 128;
inline constexpr int kMaxCallPrefixBytes = 1024;

struct SamplingParams {
  float temperature = 1.0f;  // 0 = greedy
  int top_k = 0;             // 0 = off
  float top_p = 1.0f;        // 0 keeps one token
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;  // over prompt and output
  float frequency_penalty = 0.0f;   // over output
  float presence_penalty = 0.0f;    // over output
  uint64_t seed = 0;
  uint32_t stream = 0;  // of the seed's random numbers; choice i draws from stream + i
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> banned;  // never chosen, whatever the bias
  int top_logprobs = -1;        // -1: none wanted; 0 .. 20
  int prompt_logprobs = -1;     // the same of the prompt's tokens, see EventKind::kPrompt
};
// Order: logit_bias, banned → penalties → constraint → temperature → top_k → top_p → min_p → draw. Reported
// logprobs are those of the distribution after bias and penalties, before all that follows; a prompt's those of the
// model's own distribution.

// A delimiter between reasoning and answer. If the vocabulary has it as one token only that token
// counts; otherwise its spelling in the generated text does.
struct Marker {
  std::string text;  // empty: no such marker
  TokenId token = kNoToken;
};

// Line breaks right behind either marker, and right before the close marker, are left out of the text; stop
// strings are looked for in what remains.
struct ReasoningParams {
  Marker open, close;          // both empty: everything is content
  bool starts_inside = false;  // the prompt's tail has opened the section already
  bool continued = false;      // and holds some of its text: no line breaks are left out at the beginning
  int budget = -1;             // tokens; when used up the engine writes `close_sequence`. -1 = unlimited
  std::vector<TokenId> close_sequence;
};

// A grammar of the engine's own vocabulary.
using GrammarRef = std::shared_ptr<grammar::Grammar>;

// Tool calls within the content: from the open marker up to and including the close marker the text goes
// to Section::kCall, as the tokens spell it. Stop strings do not apply there.
struct CallParams {
  Marker open, close;     // open empty: no section is told apart; close empty: up to the end of the turn
  bool at_start = false;  // the open marker counts only as the first thing of the content
  // Token sequences, in any order; none empty, at most kMaxCallPrefixes of each.
  std::vector<std::vector<TokenId>> prefixes;  // one of these follows an open marker that is a token; none: anything
  std::vector<std::vector<TokenId>> required;  // the content begins with one of these; none: with anything
  // What a call begins with where a grammar leaves nothing else but its own text: the open marker and a prefix.
  // None: its marker's token, if it has one.
  std::vector<std::vector<TokenId>> starts;
  // By prefix, or none at all: what follows it, up to and including the close marker. Null: anything. `required`
  // and `starts` are then as many as `prefixes`, or none, and each has that of its place; with a marker that is
  // no token there need be no `prefixes`.
  std::vector<GrammarRef> grammars;
  // Of a section that holds several calls, each ended by its grammar: what another begins with, entry i by the grammar of
  // i modulo their number, and what ends the section, close marker included. Without an end a grammar ends it.
  std::vector<std::vector<TokenId>> next;
  std::vector<TokenId> end;
  // Where content has a header that begins as calls do: the header behind the open marker, and with it. Content follows, and
  // the section ends with it. Empty: it has none.
  std::vector<TokenId> answer, answer_start;
  bool ends_itself = false;  // without a close marker: a grammar ends the section, and not the turn
};

// Tokens of markers that are not sampled, by what the sequence's text is in; each list has those of SamplingParams::banned
// too. None: no list holds, and SamplingParams::banned does. text/marker_bans.h makes them.
struct MarkerBans {
  std::vector<TokenId> undecided, reasoning, content, call;
  bool any() const { return !content.empty(); }
};

// The kind of output of a sequence: it decides which rows want logits, and where the sequence ends.
enum class OutputKind : uint8_t {
  kTokens,    // sampled: the logits of the prompt's last position, then of each new one; until something ends them
  kLogprobs,  // of the prompt's tokens: the logits of every position but the last; with the prompt
  kVector,    // the last hidden rows, pooled; with the prompt. Not yet
  kNothing,   // no logits; with the prompt, whose pages stay in the prefix cache
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // 1 .. max_context-1 tokens
  OutputKind output = OutputKind::kTokens;
  std::vector<InputSpan> spans;  // in the order of their positions, none over another
  uint64_t organization = 0;     // namespace of the prefix cache and unit of fairness
  int n = 1;                     // choices over one shared prompt
  // per choice; clamped to the room the context leaves; >= 1, or 0 if no tokens are wanted
  int max_tokens = 0;
  SamplingParams sampling;
  ReasoningParams reasoning;
  CallParams calls;
  MarkerBans marker_bans;
  // The answer ends where one run of tokens stands so often in a row, see text/repetition_guard.h. 0: it may repeat itself.
  int max_repeats = 0;
  GrammarRef format;  // the content is one of its texts, or begins with a call; null: anything
  // What stands before the format's text, where that has a header as calls have: the engine writes it, or the beginning of
  // a call, when the content begins; where they part, the model chooses. Empty: the content begins with the format.
  std::vector<TokenId> format_head;
  std::vector<std::string> stop;     // applied to content only; the match is not returned
  std::vector<TokenId> stop_tokens;  // in addition to the model's end-of-generation tokens
  bool ignore_eos = false;           // benchmarks: end-of-generation tokens do not end it
  // So many tokens come before one that ends the generation may: these are not sampled, and stop strings not looked for. A
  // grammar outranks it.
  int min_tokens = 0;
  MarkerBans early_bans;       // what holds until then: make_early_bans()
  bool return_tokens = false;  // with EventKind::kTokens
  bool use_prefix_cache = true;
  // From the submission, or when the last piece of its images was seen, to the first step that computes something of it,
  // however long it has had a place by then; longer → failed with kQueueTimeout. 0 = for ever.
  uint32_t queue_wait_ms = 30'000;
  uint32_t generation_ms = 3'600'000;  // wall time from that step on; then ends as length; 0 = for ever
};

enum class FinishReason : uint8_t {
  kEndOfTurn = 0,  // an end-of-generation or stop token
  kStopString = 1,
  kMaxTokens = 2,  // the request's cap; or no tokens are wanted
  kContextFull = 3,
  kTimeLimit = 4,   // generation_ms, or an orderly drain
  kRepetition = 5,  // max_repeats
};

enum class FailureCode : uint8_t {
  kQueueTimeout = 1,  // queue_wait_ms passed before the first step
  kEngineError = 2,   // the step failed (non-finite logits, backend error), or a grammar outgrew its limits
  kShutdown = 3,      // the engine was closed
};

}  // namespace monolith
