// Fuzz target: any bytes are either rejected as JSON, or parsed to a document. Writing and parsing the document again
// produces an equal document.
#include "base/json/document.h"
#include "fuzz/json_mutator.h"
#include "fuzz/target.h"

using monolith::fuzzing::insist;
using monolith::json::Document;
using monolith::json::Id;

FUZZ_TARGET(json) {
  Document document;
  Id root;
  std::string error;
  if (!document.parse(monolith::fuzzing::text_of(input), root, error)) return monolith::fuzzing::check_message(error);
  for (Id id = 0; id < document.size(); ++id)
    if (document.is(id, Document::Kind::kNumber)) {
      volatile double number = document.number(id);
      (void)number;
    }
  insist(document.equal(root, root) || document.size() > 0, "a value equals itself");
  const std::string written = document.write(root);
  Document again;
  Id other;
  insist(again.parse(written, other, error, 8 * Document::kMaxBytes), "a written document is JSON", error);
  insist(again.write(other) == written, "a document is equal after it is written and parsed again", written);
  ++monolith::fuzzing::n_reached();
}

FUZZ_MUTATOR(json) {
  static constexpr std::string_view kMembers[] = {"\"a\": %", "\"\": %"}, kWraps[] = {"[%]", "[%, %]", "{\"a\": %}"};
  static monolith::fuzzing::JsonMutator json(kMembers, kWraps);
  return json(input, chance);
}
