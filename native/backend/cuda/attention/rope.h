// Rotary position embedding, and the writes of keys and values into their pages.
#pragma once

#include <array>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Cosines and sines of a step's rows, for each set of angles a model has: worked out by the first layer of a step that
// uses the set. Engine thread; reserve() and the first use of a set allocate or wait.
class RopeTables {
 public:
  explicit RopeTables(Runtime& runtime) : runtime_(runtime) {}
  static size_t bytes_for(int max_rows, int max_head_dim);
  Status reserve(int max_rows, int max_head_dim);
  // A new step: what the tables hold is of the last one.
  void begin_step();
  // [rows][n_dims / 2] pairs of cosine and sine, times the magnitude.
  const float* prepare(const RopeParams& rope, const RowList& rows);
  // The set's inverse frequencies on the device, for rows that turn by other positions than their own; null: nothing rotates.
  const float* frequencies(const RopeParams& rope);

 private:
  static constexpr int kSets = 4;
  struct Set {
    const float* host = nullptr;    // its inverse frequencies, which name it
    const uint8_t* axes = nullptr;  // RopeParams::axes, likewise
    int n_dims = 0;
    float magnitude = 1;
    const DeviceSegment* ready_for = nullptr;  // the list whose rows are in `factors`; null: none
    float* frequencies = nullptr;              // device: of each pair, then its axis as a number of 32 bits
    float* factors = nullptr;                  // device
  };
  Set& find(const RopeParams& rope);

  Runtime& runtime_;
  int max_rows_ = 0, max_head_dim_ = 0;
  std::array<Set, kSets> sets_{};
  int next_ = 0;
  float* staging_ = nullptr;
};

// kQuads: a warp per head, where every length is a multiple of four; kPlain: number by number. The same bits.
enum class RopeForm : uint8_t { kPlain, kQuads };
RopeForm rope_form(int head_dim, int n_dims, int64_t q_stride, int64_t k_stride, int64_t v_stride);

// Backend::rms_norm_heads of queries and keys before they rotate, where RopeForm is kQuads. Null: none.
struct HeadNorms {
  const float* q = nullptr;  // weights
  const float* k = nullptr;
  float eps = 0;
  bool operator==(const HeadNorms&) const = default;
};

// Backend::rope_and_store. Pointers are device memory.
struct RopeCall {
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

// `factors` of prepare(), null: nothing rotates.
void rope_and_store(Runtime& runtime, const RopeParams& rope, const float* factors, const RopeCall& call);

}  // namespace monolith::cuda
