// Fuzz target: any JSON Schema for a tool call's arguments, in each format that models use for arguments: between tags,
// in tags that repeat the name, with markers as quotation marks, as Python, and after an ID that the model chooses. The
// input is the schema, a separator, the format and the choices for the walk.
#include "fuzz/json_mutator.h"
#include "fuzz/text/grammar_walk.h"
#include "fuzz/text/schema_words.h"

using monolith::grammar::Spelling;

namespace {

Spelling spelling_of(uint8_t choice) {
  Spelling spelling;
  spelling.text_end = "\x01";
  if (choice & 8)
    spelling.kinds = {{"a", Spelling::Kind::kJson}, {"b", Spelling::Kind::kNullable}, {"", Spelling::Kind::kJson}};
  if (choice & 16) spelling.others = Spelling::Kind::kJson;
  switch (choice % 6) {
    case 0:
      spelling.name_open = "<p=";
      spelling.text_open = spelling.json_open = ">";
      spelling.value_close = spelling.text_end = "</p>";
      break;
    case 1:  // A format in which each kind of value has its own tags.
      spelling.name_open = "<k>";
      spelling.text_open = "</k><v s>";
      spelling.json_open = "</k><v>";
      spelling.value_close = "</v>";
      spelling.text_end = "</v";
      spelling.separator = "\n";
      break;
    case 2:
      spelling.name_open = "~<";
      spelling.text_open = spelling.json_open = ">";
      spelling.value_close = "~</";
      spelling.text_end = "~";
      spelling.item = "i";
      break;
    case 3:
      spelling.text_open = spelling.json_open = ":";
      spelling.separator = ",";
      spelling.string_mark = "'''";
      spelling.mark_text = choice & 64 ? "<|e" : "";
      spelling.nested = true;
      spelling.others = Spelling::Kind::kJson;
      break;
    case 4:
      spelling.text_open = spelling.json_open = "=";
      spelling.separator = ", ";
      spelling.python = true;
      spelling.others = Spelling::Kind::kJson;
      break;
    default:
      spelling.name_open = "\n";
      spelling.text_open = spelling.json_open = "\n";
      spelling.value_close = spelling.text_end = "<|end|>";  // A special token in the vocabulary.
  }
  return spelling;
}

}  // namespace

FUZZ_TARGET(arguments) {
  const auto [text, choices] = monolith::fuzzing::halves(input);
  // Arguments are always an object, regardless of the rest of the schema. The TypeScript code sends the schema in this
  // form.
  const size_t end = text.find_last_not_of(" \n\t\r");
  if (end == std::string_view::npos || text[end] != '}' || text.find_first_not_of(" \n\t\r{") > end) return;
  const auto choice = choices.empty() ? uint8_t{0} : static_cast<uint8_t>(choices[0]);
  monolith::grammar::GrammarOptions options;
  options.kind = monolith::grammar::GrammarOptions::Kind::kJsonSchema;
  options.text = std::string(text.substr(0, end)) + (text.find_first_not_of(" \n\t\r{") == end ? "" : ",") +
                 "\"type\":\"object\"}";
  options.spelling = spelling_of(choice);
  if (choice & 32)
    options.lead = {.letters = (choice & 64) != 0, .least = 1, .most = 9, .close = choice & 128 ? "<|end|>" : "["};
  monolith::fuzzing::walk_grammar(std::move(options), choices.substr(choices.empty() ? 0 : 1));
}

FUZZ_MUTATOR(arguments) {
  static monolith::fuzzing::JsonMutator json(monolith::fuzzing::kSchemaMembers, monolith::fuzzing::kSchemaWraps);
  return monolith::fuzzing::mutate_halves(input, json, chance);
}
