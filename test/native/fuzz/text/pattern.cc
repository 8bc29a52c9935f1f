// Fuzz target: any regular expression from a schema or a request is either rejected within the time limit and with a
// reason, or compiled to a grammar.
#include "fuzz/text_mutator.h"
#include "fuzz/text/grammar_walk.h"

FUZZ_TARGET(pattern) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kRegex;
  options.text = text;
  monolith::fuzzing::walk_grammar(std::move(options), choices);
}

FUZZ_MUTATOR(pattern) {
  static constexpr std::string_view kWords[] = {"*",
                                                "+",
                                                "?",
                                                "*?",
                                                "+?",
                                                "{2}",
                                                "{2,}",
                                                "{0,3}",
                                                "{,4}",
                                                "{1000}",
                                                "{0}",
                                                "|",
                                                "(",
                                                ")",
                                                "(?:",
                                                "(?=",
                                                "(?!",
                                                "(?<=",
                                                "(?<!",
                                                "(?<n>",
                                                "\\k<n>",
                                                "\\1",
                                                "(?i)",
                                                "(?i:",
                                                "^",
                                                "$",
                                                "\\b",
                                                "\\B",
                                                "\\A",
                                                "\\z",
                                                ".",
                                                "\\d",
                                                "\\D",
                                                "\\w",
                                                "\\W",
                                                "\\s",
                                                "\\S",
                                                "\\p{L}",
                                                "\\P{Lu}",
                                                "\\p{Script=Greek}",
                                                "\\u0041",
                                                "\\u{1F600}",
                                                "\\x41",
                                                "\\cA",
                                                "\\n",
                                                "\\/",
                                                "[a-z]",
                                                "[^\"\\\\]",
                                                "[\\d_-]",
                                                "[]",
                                                "[^]",
                                                "[z-a]",
                                                "[[:alpha:]]",
                                                "[a&&b]",
                                                "é",
                                                "\xF0\x9F\x98\x80",
                                                "\"",
                                                "\n",
                                                "a",
                                                "0",
                                                " "};
  static monolith::fuzzing::TextMutator text(kWords);
  return monolith::fuzzing::mutate_halves(input, text, chance);
}
