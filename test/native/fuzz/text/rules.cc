// Fuzz target: any grammar rules (GBNF) are either rejected within the time limit and with a reason, or compiled to a
// grammar.
#include "fuzz/text_mutator.h"
#include "fuzz/text/grammar_walk.h"

FUZZ_TARGET(rules) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kRules;
  options.text = text;
  monolith::fuzzing::walk_grammar(std::move(options), choices);
}

FUZZ_MUTATOR(rules) {
  static constexpr std::string_view kWords[] = {" root ::= ",
                                                "\nroot ::= a\n",
                                                "\na ::= ",
                                                " a ",
                                                " b ",
                                                "\nb ::= root\n",
                                                " | ",
                                                "*",
                                                "+",
                                                "?",
                                                "{2}",
                                                "{2,}",
                                                "{0,3}",
                                                "{1000}",
                                                "{0}",
                                                "(",
                                                ")",
                                                "[a-z]",
                                                "[^a-z\\n]",
                                                "[\\x00-\\xFF]",
                                                "[\\u0041-\\U0001F600]",
                                                "\"a\"",
                                                "\"\\n\"",
                                                "\"\\\"\"",
                                                "\"\"",
                                                "\"\xC3\xA9\"",
                                                ".",
                                                "# c\n",
                                                "\n",
                                                "<[1]>",
                                                "!<[2]>",
                                                "<|end|>",
                                                "%ignore ",
                                                "/a+/",
                                                "start: ",
                                                "a: ",
                                                "&",
                                                "~",
                                                "..",
                                                "->",
                                                "-",
                                                "_"};
  static monolith::fuzzing::TextMutator text(kWords);
  return monolith::fuzzing::mutate_halves(input, text, chance);
}
