// The output format that a request allows: the tags of the sections, the grammar that follows each tag, and the tokens
// that end an output. Built once at submission, shared by the request's sequences, immutable. Safe to use from any
// thread.
#pragma once

#include "engine/output/tag_set.h"
#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

struct OutputFormat {
  // `generation` must outlive the OutputFormat.
  explicit OutputFormat(const GenerationRequest& generation);

  // Whether this token ends the turn where the output is unconstrained.
  bool ends(const Tokenizer& tokenizer, TokenId token) const;
  // Whether this token may change the section, so that a different list of bans applies after it.
  bool is_marker(TokenId token) const;
  bool wants_logprobs() const { return params.sampling.top_logprobs >= 0; }
  // Returns the token bans that apply to the next token after `generated` tokens have been generated.
  const SectionBans& bans(int generated) const {
    return generated < params.min_tokens ? params.bans.early : params.bans.always;
  }

  const GenerationRequest& params;
  TagSet reasoning_end;  // The forced end of the reasoning.
  TagSet prefixes;       // After an open marker: a tool call's name or the header of the content.
  TagSet required;       // Beginnings of the required tool call.
  TagSet starts;         // Where a grammar allows a tool call: its beginning or the header of the content.
  TagSet next;           // Between tool calls: the beginning of a further call or the end of the section.
  TagSet heads;          // For an output format with a header: the header or the beginning of a tool call.
};

}  // namespace monolith
