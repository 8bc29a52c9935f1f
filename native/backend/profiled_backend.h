// A backend that records how long each operation of another backend takes, its memory traffic and its arithmetic. The
// engine benchmark compares these numbers with the machine's rooflines. An engine without profiling does not use this
// class and has no overhead.
//
// Threads: the same rules as for any backend (backend.h). StepProfile::read() may be called by any thread at any time.
// The counters that it returns for one operation can differ by one call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/operation_kind.h"

namespace monolith {

// Totals over all calls of one operation so far.
struct OpFigures {
  std::string name;  // For example "attention". A matmul includes its shape: "matmul 2048 x 2560".
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
  uint64_t bytes = 0;       // Bytes that must be read from memory at least once: weights, keys and values.
  uint64_t operations = 0;  // Multiplications and additions of matrix products. 0 for operations that only move data.
};

class StepProfile {
 public:
  std::vector<OpFigures> read() const;  // Returns the operations that were called, in order of their first call.

 private:
  friend class ProfiledBackend;
  // Matrix products are counted by shape. Shapes beyond the first kMatmulShapes are counted together.
  static constexpr size_t kMatmulShapes = 32;
  // One slot per operation, except that matmul has one slot per shape and one for all further shapes.
  static constexpr size_t kSlots = kOperationKinds - 1 + kMatmulShapes + 1;
  static_assert(kOperationKinds < 255, "an empty slot has no operation");
  static constexpr auto kEmpty = static_cast<OperationKind>(255);
  struct Slot {
    std::atomic<OperationKind> op{kEmpty};  // Written once, after `inputs` and `outputs`.
    std::atomic<int64_t> inputs{0}, outputs{0};
    std::atomic<uint64_t> calls{0}, nanoseconds{0}, bytes{0}, operations{0};
  };

  // Called only by the engine thread.
  Slot& slot(OperationKind op, int64_t inputs, int64_t outputs);

  std::array<Slot, kSlots> slots_;
};

// Measurements are added to `profile`. Matrices and caches belong to `inner`.
std::unique_ptr<Backend> make_profiled_backend(std::unique_ptr<Backend> inner, std::shared_ptr<StepProfile> profile);

}  // namespace monolith
