// The attention work of one step, as lists for the attention kernels. The host builds the lists together with the
// step's tables, and kernels read them from device memory. A captured CUDA graph therefore keeps its launches while
// contexts grow. Used by the engine thread.
//
// How a sequence is divided, and why results do not depend on it: positions form chunks of 128, and chunks form groups
// of 16, both counted from position 0. The result of a chunk consists of its largest score, its sum of weights and its
// weighted sum of values. Chunks are merged into their group in ascending order, and groups into the row in ascending
// order. The order of operations therefore does not depend on which warp computes a chunk, or on the rest of the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/attention/device_segment.h"

namespace monolith::cuda {

inline constexpr int kChunkPositions = 128;
inline constexpr int kGroupChunks = 16;

// Segments of at most kFewTokens tokens are computed token by token, with the query heads of one KV head together.
// Longer segments, and segments with bidirectional attention, are computed in tiles of tokens that share the data they
// read.
inline constexpr int kFewTokens = 16;
inline constexpr int kTileTokens = 128;

// Maximum number of partial results in one step, from tokens that several workers compute.
inline constexpr int kMaxSlots = 1024;

// A work item: chunks [first_chunk, end_chunk) of one token's context. The kernel skips chunks that lie outside the
// token's attention window.
struct AttentionItem {
  int32_t row;
  int32_t position;
  int32_t first_page;  // Start of the token's page table, as in DeviceSegment.
  int32_t first_chunk;
  int32_t end_chunk;
  int32_t slot;  // Destination of the partial result; -1 if the item covers the whole context.
};

// A token whose partial results must be merged: slot first_slot + i holds chunk i, or group i with `by_group`.
struct AttentionSplit {
  int32_t row;
  int32_t position;
  int32_t first_slot;
  int32_t by_group;
};

// Up to kTileTokens tokens of a segment.
struct AttentionTile {
  int32_t segment;
  int32_t first_token;
};

// Offsets of a step's lists, in 32-bit entries from the start of the step's page tables, and the lists' lengths.
struct AttentionHeader {
  int32_t items = 0, n_items = 0;
  int32_t splits = 0, n_splits = 0;
  int32_t tiles = 0, n_tiles = 0;
};

enum class RowSplit : uint8_t { kWhole, kGroups, kChunks };
// Decides how a context of `chunks` chunks is split so that, if possible, no worker gets more than `limit` chunks.
RowSplit split_for(int chunks, int64_t limit, int free_slots);

class AttentionPlanner {
 public:
  // Returns the maximum size of a step's lists, in 32-bit entries.
  static size_t most_numbers(int max_rows);
  void reserve(int max_rows);
  // Builds the lists. Each pair of token and chunk counts as `units` units of equal work (one per KV head). The work is
  // divided among `workers` workers of the device. The longest work items come first.
  void plan(std::span<const DeviceSegment> segments, int units, int workers);
  std::span<const AttentionItem> items() const { return items_; }
  std::span<const AttentionSplit> splits() const { return splits_; }
  std::span<const AttentionTile> tiles() const { return tiles_; }

 private:
  void add_row(int row, const DeviceSegment& segment, int64_t limit);
  std::vector<AttentionItem> items_;
  std::vector<AttentionSplit> splits_;
  std::vector<AttentionTile> tiles_;
  int slots_ = 0;  // Slots used so far.
};

}  // namespace monolith::cuda
