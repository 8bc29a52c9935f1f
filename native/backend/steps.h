// A backend's role around the operations of one step. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kv_cache.h"

namespace monolith {

// What the operations of one step refer to. Host memory, the same until end_step().
struct StepInput {
  const void* model;                                        // whose step this is: recorded steps are told apart by it
  std::span<const int32_t> tokens;                          // one per row
  std::span<const int32_t> logit_rows;                      // rows of `tokens`, ascending
  std::span<const std::span<const Segment>> segment_lists;  // every list that the operations name
  int max_rows;                                             // that every buffer of the model has room for
  bool recordable = true;  // its operations depend on nothing but this and on the model
};
inline constexpr size_t kMostSegmentLists = 16;

class StepControl {
 public:
  // True: the backend has such a step recorded and computes it by itself in end_step(); the caller leaves its
  // operations out. A device's backend moves everything in `input` there before the first of them; operations may name other
  // segments or rows than these, which then cost a copy each.
  virtual bool begin_step(const StepInput& input) = 0;
  virtual void end_step() = 0;  // on return all results are visible to read_floats
  // Whether end_step() and begin_sample() return before the device has computed what was asked for: the engine then
  // uses that time for the host's part of the work. Operations of the next step may be asked for at any time: the
  // device does one after the other.
  virtual bool is_asynchronous() const { return false; }
  // Returns when all that was asked for is computed. Throws std::runtime_error if the device has failed.
  virtual void wait() {}

 protected:
  ~StepControl() = default;
};

}  // namespace monolith
