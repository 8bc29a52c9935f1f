// What may come next in a sequence's output. TokenDirector and Constraints change it as tokens are generated.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/output/output_parser.h"
#include "engine/output/repetition_guard.h"
#include "engine/output/token_script.h"
#include "engine/request.h"
#include "text/grammar/grammar.h"

namespace monolith {

// State of the grammar that currently constrains a sequence.
struct GrammarMatcher {
  const GrammarRef* grammar = nullptr;  // Null: no grammar is active.
  grammar::Grammar::Position position;
  size_t first = 0;  // Index in the sequence's tokens of the first token that the grammar has read.
  bool active() const { return grammar != nullptr; }
};

// The grammars of a request's tool calls, in the same order as the alternatives of the corresponding forced sequences.
// Empty: no grammars.
struct CallGrammars {
  std::vector<GrammarRef> prefixes, required, starts, next;
  size_t end = SIZE_MAX;  // Index in `next` of the alternative that ends the tool-call section.
  // Indices in `prefixes` and `starts` of the alternative that is the header of the content and not a tool call.
  size_t prefix_answer = SIZE_MAX, start_answer = SIZE_MAX;
  // For an output format with a header. `heads`: the token sequences with which the content may begin, that is, tool
  // calls or the header. `format_head`: index of the header. `headed`: the grammar that follows each of them.
  std::vector<std::vector<TokenId>> heads;
  size_t format_head = SIZE_MAX;
  std::vector<GrammarRef> headed;
};

struct OutputState {
  explicit OutputState(const GenerationRequest& params)
      : text(params.reasoning, params.calls, params.stop, params.sampling.top_logprobs >= 0, params.min_tokens),
        repetition(params.max_repeats),
        call_due(!params.calls.required.empty()),
        format_due(params.format != nullptr && !call_due) {}

  OutputParser text;
  RepetitionGuard repetition;
  // Forced tokens being appended: the end of the reasoning section, or the beginning of a tool call.
  TokenScript script;
  // Grammar that follows each alternative of `script`; null: unconstrained.
  const std::vector<GrammarRef>* script_grammars = nullptr;
  GrammarMatcher matcher;
  // True while a worker thread computes the mask of allowed tokens. The sequence is not scheduled until the mask is
  // ready.
  bool mask_pending = false;
  // If set, the pending result is the grammar's state after this token, not the mask.
  TokenId pending_token = kNoToken;
  bool call_due;    // True if the content has not started and must start with a tool call.
  bool format_due;  // True if the content has not started and must start with the output format or a tool call.
  bool named_content = false;  // True once a content header was generated that starts with the marker of tool calls.
  // True directly after an open marker in the content. The next token shows whether the marker begins a header or is
  // plain text.
  bool marker_due = false;
  // Grammar of the tool call that has just ended. The turn ends or another call follows.
  const GrammarRef* after_call = nullptr;
  int spaces_after_call = 0;  // White-space tokens since the end of that tool call.
  // generated() of the sequence when the last check found no forced next token, so that only the sampler decides; -1:
  // not checked.
  int open_at = -1;
};

}  // namespace monolith
