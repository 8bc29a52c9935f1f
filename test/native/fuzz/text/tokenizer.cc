// Any vocabulary of a GGUF file and any text: refused with a reason, or the text becomes ids of the vocabulary. The input is
// the file's image, a mark, and the text.
#include "fuzz/target.h"
#include "text/tokenizer/fuzz_one.h"

FUZZ_TARGET(tokenizer) { monolith::fuzzing::insist(monolith::testing::tokenize_anything(input), "text becomes ids of the vocabulary, or the file is refused in words"); }
