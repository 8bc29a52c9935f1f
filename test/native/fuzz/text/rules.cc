// Any text of rules (GBNF): refused with a reason and in time, or a grammar.
#include "fuzz/text/grammar_walk.h"

FUZZ_TARGET(rules) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kRules;
  options.text = text;
  monolith::fuzzing::walk_grammar(std::move(options), choices);
}
