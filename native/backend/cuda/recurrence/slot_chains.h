// Determines which segments of a step can be processed in parallel. Segments that use the same slot of recurrent state,
// at least one of which writes it, form a chain. One thread block processes the segments of a chain in the step's
// order. Different chains never share a slot that is written.
//
// Owned by the step's tables and used by the engine thread. Only reserve() allocates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/attention/device_segment.h"
#include "backend/kv_cache.h"

namespace monolith::cuda {

class SlotChains {
 public:
  void reserve(int max_rows);  // `max_rows` is the maximum number of segments per step.
  // Sets the slots and chains in `to`, which will be uploaded as the device copies of `segments`.
  void link(std::span<const Segment> segments, std::span<DeviceSegment> to);

 private:
  // Tracks the use of a state slot in the current step.
  struct Use {
    uint32_t step = 0;  // If this is not the current step, the slot has not been used.
    int32_t slot = 0;
    int32_t last = 0;  // The last segment that used the slot.
    bool written = false;
    bool shared = false;  // True if segments of several chains have read the slot.
  };
  Use* use_of(int32_t slot);  // Returns null if the slot has not been used in this step.
  Use& take_use(int32_t slot);

  std::vector<Use> uses_;  // Hash table keyed by slot. Its size is a power of two.
  // chain_ contains, for each segment, the first segment of its chain. end_ contains the last segment of each chain,
  // indexed by the chain's first segment.
  std::vector<int32_t> chain_, end_;
  uint32_t step_ = 0;
};

}  // namespace monolith::cuda
