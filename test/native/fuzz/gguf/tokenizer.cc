// Fuzz target: for any GGUF vocabulary and any text, either the vocabulary is rejected with a reason, or the text
// becomes token IDs in the vocabulary. The input is the GGUF file, a separator and the text.
#include "fuzz/gguf_mutator.h"
#include "fuzz/target.h"
#include "text/tokenizer/fuzz_one.h"

FUZZ_TARGET(tokenizer) {
  monolith::fuzzing::insist(monolith::testing::tokenize_anything(input, &monolith::fuzzing::n_reached()),
                            "text becomes token IDs of the vocabulary, or the file is rejected with a message");
}

FUZZ_MUTATOR(tokenizer) {
  static monolith::fuzzing::GgufMutator gguf;
  return monolith::fuzzing::mutate_halves(input, gguf, chance);
}
