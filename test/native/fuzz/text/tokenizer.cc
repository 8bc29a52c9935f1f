// Any vocabulary of a GGUF file and any text: refused with a reason, or the text becomes ids of the vocabulary. The input is
// the file's image, a mark, and the text.
#include "fuzz/gguf_mutator.h"
#include "fuzz/target.h"
#include "text/tokenizer/fuzz_one.h"

FUZZ_TARGET(tokenizer) {
  monolith::fuzzing::insist(monolith::testing::tokenize_anything(input, &monolith::fuzzing::n_reached()),
                            "text becomes ids of the vocabulary, or the file is refused in words");
}

FUZZ_MUTATOR(tokenizer) {
  static monolith::fuzzing::GgufMutator gguf;
  return monolith::fuzzing::mutate_halves(input, gguf, chance);
}
