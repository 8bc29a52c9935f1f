// The backend's role at the beginning and end of a step. No function here allocates memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kv_cache.h"
#include "backend/row_count.h"

namespace monolith {

// The data to which the operations of one step refer. All spans are in host memory and must not change until end_step()
// has returned.
struct StepInput {
  const void* model;                    // Identifies the model of the step; part of the key of a CUDA graph.
  std::span<const int32_t> tokens;      // One token per row.
  std::span<const int32_t> logit_rows;  // Rows of `tokens` whose logits are computed, ascending.
  std::span<const std::span<const Segment>> segment_lists;  // Every segment list that the operations refer to.
  int max_rows;                                             // Capacity of the model's buffers, in rows.
  // Whether the step may be captured in a CUDA graph, because its operations depend only on this input and the model.
  bool recordable = true;

  // All tokens of the step.
  RowCount rows() const { return {static_cast<int>(tokens.size()), true}; }
};
inline constexpr size_t kMaxSegmentLists = 16;

class StepControl {
 public:
  // Returns true if the backend has captured a step of this kind and will replay it in end_step(). The caller then does
  // not call the operations. A device backend copies everything in `input` to the device before the first operation.
  // Operations may refer to segments or rows outside `input`, but each of them costs a separate copy.
  virtual bool begin_step(const StepInput& input) = 0;
  virtual void end_step() = 0;  // After it returns, read_floats() returns the final results.
  // Whether end_step() and begin_sample() return before the device has finished. The engine uses that time for host
  // work. Operations of the next step may be submitted at any time, because the device executes them in order.
  virtual bool is_asynchronous() const { return false; }
  // Waits until all submitted work is done. Throws std::runtime_error if the device has failed.
  virtual void wait() {}

 protected:
  ~StepControl() = default;
};

}  // namespace monolith
