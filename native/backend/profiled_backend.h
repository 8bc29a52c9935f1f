// A backend that hands every operation on to another one and notes how long it took and what it had to move
// and compute: what the engine bench sets against the machine's rooflines. An engine that is not profiled has
// no such object, and pays nothing.
//
// Threads: the backend as any other (backend.h). StepProfile::read() may be called from any thread at any time;
// the figures of one operation may then be a call apart.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace monolith {

// Sums over all calls of one operation so far.
struct OpFigures {
  std::string name;  // "attention"; products with their shape, "matmul 2048 x 2560"
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
  uint64_t bytes = 0;       // that must come from memory at least once: weights, keys and values
  uint64_t operations = 0;  // multiplications and additions of its products; 0 for what only moves data
};

class StepProfile {
 public:
  std::vector<OpFigures> read() const;  // operations that were called, in the order of their first call

 private:
  friend class ProfiledBackend;
  enum class Op : uint8_t {
    kNone,
    kEmbed,
    kRmsNorm,
    kRmsNormHeads,
    kLayerNorm,
    kAddBias,
    kMatmul,
    kRopeAndStore,
    kAttention,
    kGated,
    kGateHeads,
    kScaleColumns,
    kAddWeighted,
    kMatchLength,
    kKeepOutliers,
    kCopyRows,
    kActivate,
    kScale,
    kSoftCap,
    kAddRows,
    kMixture,
    kGatherRows,
    kCopyPage,
    kReadFloats,
    kSample,
    kConvolve,
    kDeltaRule,
    kStateSpace,
    kRmsNormGroups,
    kRotate,
    kXielu,
    kChoosePositions,
    kPoolBlocks,
    kStoreBlocks,
    kMixStreams,
  };
  static constexpr size_t kSlots = 32;
  struct Slot {
    std::atomic<Op> op{Op::kNone};  // written once, after inputs and outputs
    std::atomic<int64_t> inputs{0}, outputs{0};
    std::atomic<uint64_t> calls{0}, nanoseconds{0}, bytes{0}, operations{0};
  };

  // The engine thread only. The last slot takes whatever comes after kSlots different ones.
  Slot& slot(Op op, int64_t inputs, int64_t outputs);

  std::array<Slot, kSlots> slots_;
};

// `profile` gets the figures. Matrices and caches are `inner`'s own.
std::unique_ptr<Backend> make_profiled_backend(std::unique_ptr<Backend> inner, std::shared_ptr<StepProfile> profile);

}  // namespace monolith
