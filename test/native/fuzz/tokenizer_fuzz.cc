// Any file and any text: the file is refused with a reason, or the text becomes ids of its vocabulary.
// The input is a GGUF image, then, after the last byte 0xFF 0x00 0xFF, the text.
// libFuzzer: tokenizer_fuzz test/data/gguf/corpus. The tests run the same function over damaged images.
#include <cstddef>
#include <cstdint>
#include <span>

#include "text/tokenizer/fuzz_one.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!monolith::testing::tokenize_anything(std::span(data, size))) __builtin_trap();
  return 0;
}
