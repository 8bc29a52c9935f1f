// Which segments of a step may be carried on side by side. Segments that use one slot of recurrent state, of which one
// writes it, are a chain: one block of threads takes them in the step's order. All others share no slot that is written.
//
// Owned by the step's tables and used by the engine's thread. Only reserve() allocates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/attention/device_segment.h"
#include "backend/kv_cache.h"

namespace monolith::cuda {

class SlotChains {
 public:
  void reserve(int max_rows);  // no step has more segments
  // Fills the slots and chains of `to`, the device's copies of `segments`.
  void link(std::span<const Segment> segments, std::span<DeviceSegment> to);

 private:
  // Who has used a slot in this step.
  struct Use {
    uint32_t step = 0;  // another one's: nobody
    int32_t slot = 0;
    int32_t last = 0;  // segment
    bool written = false;
    bool shared = false;  // segments of several chains have read it
  };
  Use* use_of(int32_t slot);  // null: nobody has used it
  Use& take_use(int32_t slot);

  std::vector<Use> uses_;             // by a hash of the slot, a power of two of them
  std::vector<int32_t> chain_, end_;  // of a segment: its chain's first; of that: its chain's last
  uint32_t step_ = 0;
};

}  // namespace monolith::cuda
