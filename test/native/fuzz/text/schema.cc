// Any JSON Schema: refused with a reason and in time, or a grammar whose texts are JSON. The input is the schema, a mark, and the
// choices of the walk.
#include "fuzz/text/grammar_walk.h"

FUZZ_TARGET(schema) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kJsonSchema;
  options.text = text;
  monolith::fuzzing::walk_grammar(std::move(options), choices);
}
