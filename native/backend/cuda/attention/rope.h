// Rotary position embedding, and the writes of keys and values into KV pages.
#pragma once

#include <array>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Tables of cosines and sines for the tokens of a step, one table per set of RoPE parameters of the model. The first
// layer of a step that uses a set computes its table. Used by the engine thread. Only reserve() and the first use of a
// set may allocate memory or wait.
class RopeTables {
 public:
  explicit RopeTables(Runtime& runtime) : runtime_(runtime) {}
  static size_t bytes_for(int max_rows, int max_head_dim);
  Status reserve(int max_rows, int max_head_dim);
  // Starts a new step, which invalidates the tables of the previous step.
  void begin_step();
  // Returns pairs of cosine and sine, multiplied by the magnitude, in an array of shape [rows][n_dims / 2].
  const float* prepare(const RopeParams& rope, const RowList& rows);
  // Returns the frequencies of `rope` in device memory. Used for rows that are rotated by a position other than their
  // own; null if there is no rotation.
  const float* frequencies(const RopeParams& rope);

 private:
  static constexpr int kSets = 4;
  struct Set {
    const float* host = nullptr;    // The inverse frequencies in host memory. The address identifies the set.
    const uint8_t* axes = nullptr;  // RopeParams::axes; also identifies the set.
    int n_dims = 0;
    float magnitude = 1;
    const DeviceSegment* ready_for = nullptr;  // The list whose tokens `factors` was computed for; null if none.
    // Device memory: the frequency of each pair, followed by the 32-bit axis number of each pair.
    float* frequencies = nullptr;
    float* factors = nullptr;  // Device memory.
  };
  Set& find(const RopeParams& rope);

  Runtime& runtime_;
  int max_rows_ = 0, max_head_dim_ = 0;
  std::array<Set, kSets> sets_{};
  int next_ = 0;
  float* staging_ = nullptr;
};

// kQuads uses one warp per head and requires all sizes to be multiples of four. kPlain works value by value. Both
// produce the same bits.
enum class RopeForm : uint8_t { kPlain, kQuads };
RopeForm rope_form(int head_dim, int n_dims, int64_t q_stride, int64_t k_stride, int64_t v_stride);

// Norms as in Backend::rms_norm_heads, which the RoPE kernel applies to queries and keys before the rotation. Requires
// RopeForm::kQuads. Null means no norm.
struct HeadNorms {
  const float* q = nullptr;  // Norm weights.
  const float* k = nullptr;
  float eps = 0;
  bool operator==(const HeadNorms&) const = default;
};

// Parameters of Backend::rope_and_store. Pointers point to device memory.
struct RopeLaunch {
  const RowList* rows;
  float* q;
  int64_t q_stride;
  int n_heads;
  float* k;
  int64_t k_stride;
  const float* v;
  int64_t v_stride;
  KvView cache;
  KvType type;
  HeadNorms norms = {};
};

// `factors` comes from RopeTables::prepare(); null means no rotation.
void rope_and_store(Runtime& runtime, const RopeParams& rope, const float* factors, const RopeLaunch& call);

}  // namespace monolith::cuda
