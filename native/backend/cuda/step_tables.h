// The inputs of a step in device memory, and the host code that uploads them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/work.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/attention/device_segment.h"
#include "backend/cuda/recurrence/slot_chains.h"

namespace monolith::cuda {

// One list of segments: the input of RoPE, attention and the KV cache writes.
struct RowList {
  const DeviceSegment* segments = nullptr;  // Device memory.
  const int32_t* segment_of_row = nullptr;  // Device memory, shape [n_rows].
  const int32_t* pages = nullptr;  // Device memory: the page tables of all segments, and the attention work lists.
  const AttentionHeader* work = nullptr;  // Device memory.
  int n_segments = 0;
  int n_rows = 0;
  // What the attention work lists contain. In captured steps, there are no tiles. `has_splits` is true if any list of
  // the step has tokens whose context is split over several warps.
  bool has_items = false, has_splits = false;
  int n_tiles = 0;
};

// Owned and used by the engine thread. Only reserve() allocates.
class StepTables {
 public:
  explicit StepTables(Runtime& runtime) : runtime_(runtime) {}
  // Sets the number of KV heads over which attention work is divided. The default is 1.
  void set_kv_heads(int n) { n_kv_heads_ = n; }

  static size_t bytes_for(int max_rows, int max_context);
  Status reserve(int max_rows, int max_context);

  // Builds and uploads the tables of `input`, padded to `padded_rows` tokens. Padding tokens have token id 0 and
  // position 0 in page `spare_page`, and each forms its own sequence. Throws std::runtime_error if the page tables do
  // not fit.
  void send(const StepInput& input, int padded_rows, int32_t spare_page);

  // Returns whether the most recently sent step has tokens whose context is split over several warps.
  bool has_splits() const { return has_splits_; }
  const int32_t* tokens() const { return tokens_; }  // Device memory.
  // Returns the device copy of a list that was sent with the step, looked up by the list's host address; null if the
  // list was not sent.
  const RowList* find(std::span<const Segment> segments) const;
  const int32_t* find_tokens(const int32_t* host) const { return host == host_tokens_ ? tokens_ : nullptr; }
  const int32_t* find_logit_rows(const int32_t* host) const { return host == host_logit_rows_ ? logit_rows_ : nullptr; }

  // Uploads a list that was not sent with the step. Waits for the device.
  RowList send_list(std::span<const Segment> segments);
  // Uploads an array of row numbers or token ids. Waits for the device only if the step's buffer for such arrays is
  // full. Throws std::runtime_error if `n` exceeds the maximum for one operation.
  const int32_t* send_numbers(const int32_t* host, int n);

 private:
  struct Sent {
    const Segment* host = nullptr;
    size_t n = 0;
    RowList list;
  };
  // A page table that has already been placed in the upload.
  struct Table {
    const int32_t* host;
    int32_t first;
    size_t n;
  };
  struct Cursor;
  size_t put(Cursor& cursor, const void* from, size_t bytes);
  void put_work(Cursor& cursor, std::span<const DeviceSegment> segments, AttentionHeader& header, RowList& list);
  RowList put_list(Cursor& cursor, std::span<const Segment> segments, int padded_rows, int32_t spare_page);

  Runtime& runtime_;
  int max_rows_ = 0;
  int32_t* staging_ = nullptr;        // Pinned host memory.
  int32_t* numbers_ = nullptr;        // Device memory.
  int32_t* extra_staging_ = nullptr;  // Pinned host memory for lists and arrays that were not sent with the step.
  int32_t* extra_ = nullptr;
  const int32_t* tokens_ = nullptr;
  const int32_t* logit_rows_ = nullptr;
  const int32_t* host_tokens_ = nullptr;
  const int32_t* host_logit_rows_ = nullptr;
  std::array<Sent, kMaxSegmentLists> sent_{};
  size_t n_sent_ = 0, n_numbers_ = 0;
  bool has_splits_ = false;
  int max_context_ = 0;
  int n_kv_heads_ = 1;
  AttentionPlanner planner_;
  SlotChains chains_;
  std::vector<Table> tables_, extra_tables_;
};

}  // namespace monolith::cuda
