// A grammar that currently constrains a sequence's output, and the position reached in that grammar. Engine thread
// only.
#pragma once

#include <cstddef>
#include <span>

#include "engine/request.h"
#include "text/grammar/grammar.h"

namespace monolith {

struct GrammarMatcher {
  const GrammarRef* grammar = nullptr;  // Null if no grammar is active.
  grammar::Grammar::Position position;
  size_t first = 0;  // Index in the sequence's tokens of the first token that the grammar has read.

  bool active() const { return grammar != nullptr; }
  // Returns the tokens that the grammar has read. They are the last entries of `tokens`, which contains all tokens of
  // the sequence.
  std::span<const TokenId> read(std::span<const TokenId> tokens) const { return tokens.subspan(first); }
};

}  // namespace monolith
