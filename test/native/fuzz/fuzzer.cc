// The entry points that libFuzzer calls. They run the single fuzz target linked into this executable, and its mutator.
#include <cstring>

#include "fuzz/target.h"

using monolith::fuzzing::targets;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  monolith::fuzzing::run(targets().front(), {data, size});
  return 0;
}

// Uses the target's structure-aware mutator or, one time in four, libFuzzer's generic byte mutations.
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
