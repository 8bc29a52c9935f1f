// Fuzz target: any bytes are either rejected with an error or parsed as a GGUF file. In a parsed file, every value and
// tensor can be read.
#include "formats/gguf/gguf.h"
#include "formats/gguf/touch.h"
#include "fuzz/gguf_mutator.h"
#include "fuzz/target.h"

FUZZ_TARGET(gguf) {
  const auto bytes = std::as_bytes(input);
  const auto file = monolith::GgufFile::parse(bytes);
  if (!file) return monolith::fuzzing::check_refusal(file.error());
  volatile uint64_t sum = monolith::testing::touch_everything(**file, bytes);
  (void)sum;
  ++monolith::fuzzing::n_reached();
}

FUZZ_MUTATOR(gguf) {
  static monolith::fuzzing::GgufMutator gguf;
  return gguf(input, chance);
}
