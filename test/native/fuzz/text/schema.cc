// Fuzz target: any JSON Schema is either rejected within the time limit and with a reason, or compiled to a grammar
// whose texts are JSON. The input is the schema, a separator and the choices for the walk.
#include "fuzz/json_mutator.h"
#include "fuzz/text/grammar_walk.h"
#include "fuzz/text/schema_words.h"

FUZZ_TARGET(schema) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kJsonSchema;
  options.text = text;
  monolith::fuzzing::walk_grammar(std::move(options), choices);
}

FUZZ_MUTATOR(schema) {
  static monolith::fuzzing::JsonMutator json(monolith::fuzzing::kSchemaMembers, monolith::fuzzing::kSchemaWraps);
  return monolith::fuzzing::mutate_halves(input, json, chance);
}
