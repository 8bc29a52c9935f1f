// libFuzzer's entries: the one target that is linked into this executable, and what changes its inputs.
#include <cstring>

#include "fuzz/target.h"

using monolith::fuzzing::targets;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monolith::fuzzing::run(targets().front(), {data, size});
  return 0;
}

// By what the target knows of its inputs, and one time in four by libFuzzer's own changes, which know nothing.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  monolith::fuzzing::Chance chance(seed);
  const auto mutate = targets().front().mutate;
  if (mutate != nullptr && !chance.one_in(4)) {
    const auto changed = mutate(monolith::fuzzing::text_of({data, size}), chance);
    if (changed && changed->size() <= max_size) {
      std::memcpy(data, changed->data(), changed->size());
      return changed->size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
