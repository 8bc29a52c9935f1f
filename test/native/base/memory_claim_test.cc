#include "base/memory_claim.h"

#include "check.h"

using namespace monolith;

TEST(memory_claims_add_up_and_are_released) {
  const uint64_t before = MemoryClaim::all();
  {
    MemoryClaim a(100), b;
    b.set(50);
    CHECK_EQ(MemoryClaim::all(), before + 150);
    a.set(30);
    CHECK_EQ(MemoryClaim::all(), before + 80);
    CHECK_EQ(a.bytes(), 30u);
  }
  CHECK_EQ(MemoryClaim::all(), before);
}
