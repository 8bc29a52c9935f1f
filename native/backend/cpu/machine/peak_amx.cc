// See peak.h. A tile multiplication can start every 16 cycles and takes 52 cycles, so four independent sums hide the
// latency.
#if defined(__AMX_INT8__)

#include "backend/cpu/machine/amx-inl.h"
#include "backend/cpu/machine/peak.h"

namespace monolith {
namespace {

void integer8(long count) {
  AmxUnit::configure(16, 64, 16);
  for (; count > 0; --count) {
    AmxUnit::dot<0, 4, 6>();
    AmxUnit::dot<1, 4, 6>();
    AmxUnit::dot<2, 4, 6>();
    AmxUnit::dot<3, 4, 6>();
  }
  AmxUnit::release();
}

}  // namespace

constinit const TilePeak kAmxPeak = {integer8, 4 * 16 * 16 * 64 * 2};

}  // namespace monolith

#endif
