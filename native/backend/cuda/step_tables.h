// A step's inputs in device memory, and the host's part of moving them there.
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

// One list of segments: what rope, attention and the cache's writes work on.
struct RowList {
  const DeviceSegment* segments = nullptr;  // device
  const int32_t* segment_of_row = nullptr;  // device: [n_rows]
  const int32_t* pages = nullptr;           // device: tables of all segments, and the lists of attention's work
  const AttentionHeader* work = nullptr;    // device
  int n_segments = 0;
  int n_rows = 0;
  // Of attention's work; recorded steps have no tiles. has_splits: some list of the step has rows that are split.
  bool has_items = false, has_splits = false;
  int n_tiles = 0;
};

// Owned and used by the engine's thread. Only reserve() allocates.
class StepTables {
 public:
  explicit StepTables(Runtime& runtime) : runtime_(runtime) {}
  // What attention's work is shared out for; 1 until it is said.
  void set_kv_heads(int n) { n_kv_heads_ = n; }

  static size_t bytes_for(int max_rows, int max_context);
  Status reserve(int max_rows, int max_context);

  // Fills and sends the tables of `input` with rows up to `padded_rows`: those beyond its own are token 0 at position 0
  // of page `spare_page`, sequences of their own. Throws std::runtime_error if the page tables do not fit.
  void send(const StepInput& input, int padded_rows, int32_t spare_page);

  // Whether attention of the step that was sent last splits rows in any of its lists.
  bool has_splits() const { return has_splits_; }
  const int32_t* tokens() const { return tokens_; }  // device
  // The device's copy of a list that was sent, known by its address; null: it was not.
  const RowList* find(std::span<const Segment> segments) const;
  const int32_t* find_tokens(const int32_t* host) const { return host == host_tokens_ ? tokens_ : nullptr; }
  const int32_t* find_logit_rows(const int32_t* host) const { return host == host_logit_rows_ ? logit_rows_ : nullptr; }

  // A list that was not sent with the step, sent now. Waits for the device.
  RowList send_list(std::span<const Segment> segments);
  // As much for an array of row numbers or tokens, without waiting as long as there is room beside those sent before in
  // this step. Throws std::runtime_error if there are more of them than operations may name.
  const int32_t* send_numbers(const int32_t* host, int n);

 private:
  struct Sent {
    const Segment* host = nullptr;
    size_t n = 0;
    RowList list;
  };
  // A page table that is on its way already.
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
  int32_t* staging_ = nullptr;        // pinned
  int32_t* numbers_ = nullptr;        // device
  int32_t* extra_staging_ = nullptr;  // for what was not sent with the step
  int32_t* extra_ = nullptr;
  const int32_t* tokens_ = nullptr;
  const int32_t* logit_rows_ = nullptr;
  const int32_t* host_tokens_ = nullptr;
  const int32_t* host_logit_rows_ = nullptr;
  std::array<Sent, kMostSegmentLists> sent_{};
  size_t n_sent_ = 0, n_numbers_ = 0;
  bool has_splits_ = false;
  int max_context_ = 0;
  int n_kv_heads_ = 1;
  AttentionPlanner planner_;
  SlotChains chains_;
  std::vector<Table> tables_, extra_tables_;
};

}  // namespace monolith::cuda
