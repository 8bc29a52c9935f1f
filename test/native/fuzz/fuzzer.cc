// libFuzzer's entry: the one target that is linked into this executable.
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monolith::fuzzing::run(monolith::fuzzing::targets().front(), {data, size});
  return 0;
}
