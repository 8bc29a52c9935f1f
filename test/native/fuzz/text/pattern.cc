// Any regular expression, as schemas and requests have them: refused with a reason and in time, or a grammar.
#include "fuzz/text/grammar_walk.h"

FUZZ_TARGET(pattern) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kRegex;
  options.text = text;
  monolith::fuzzing::walk_grammar(std::move(options), choices);
}
