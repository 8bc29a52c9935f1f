// Any bytes at all are either an error or a file whose every value and tensor can be read.
// libFuzzer: gguf_fuzz test/data/gguf/corpus. The tests run the same function over that corpus.
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf/gguf.h"
#include "formats/gguf/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto file = monolith::GgufFile::parse(bytes)) {
    volatile uint64_t sum = monolith::testing::touch_everything(**file, bytes);
    (void)sum;
  } else if (file.error().message.empty() || file.error().message.size() > 1000) {
    __builtin_trap();   // every refusal says why, in a line
  }
  return 0;
}
