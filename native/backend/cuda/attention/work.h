// What attention computes in one step, as lists that its kernels walk: made on the host with the step's tables, read
// from device memory, so that a recorded step keeps its launches while contexts grow. Engine thread.
//
// How a sequence is cut, and why results do not depend on it: positions are taken in chunks of 128 and these in groups
// of 16, both counted from position 0. A chunk's result is its largest score, its sum of weights and its weighted sum
// of values; chunks are added in ascending order to their group, groups in ascending order to the row. Whoever computes
// a chunk, and beside which rows, the same operations are done in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/attention/device_segment.h"

namespace monolith::cuda {

inline constexpr int kChunkPositions = 128;
inline constexpr int kGroupChunks = 16;

// Segments of so many tokens are computed row by row, each row's query heads of one KV head together; longer ones, and
// those whose rows see beyond themselves, in tiles of tokens that share what they read.
inline constexpr int kFewTokens = 16;
inline constexpr int kTileTokens = 128;

// Partial results of rows that several workers compute, of one step.
inline constexpr int kMostSlots = 1024;

// Chunks [first_chunk, end_chunk) of one row. Those of a window that the row does not see are left out by the kernel.
struct AttentionItem {
  int32_t row;
  int32_t position;
  int32_t first_page;  // of the row's page table, as in DeviceSegment
  int32_t first_chunk;
  int32_t end_chunk;
  int32_t slot;  // where the partial result goes; -1: it is the whole row
};

// A row whose partial results are to be added up: slot first_slot + i holds chunk i, or group i.
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

// Where a step's lists lie, in numbers from the step's page tables on.
struct AttentionHeader {
  int32_t items = 0, n_items = 0;
  int32_t splits = 0, n_splits = 0;
  int32_t tiles = 0, n_tiles = 0;
};

enum class RowSplit : uint8_t { kWhole, kGroups, kChunks };
// How a row of `chunks` chunks is shared out so that no worker has more than `limit` of them, where that can be.
RowSplit split_for(int chunks, int64_t limit, int free_slots);

class AttentionPlanner {
 public:
  // Numbers (of 32 bits) that the lists of a step can take.
  static size_t most_numbers(int max_rows);
  void reserve(int max_rows);
  // `units` of equal work per row and chunk (KV heads), for `workers` of the device. Longest work first.
  void plan(std::span<const DeviceSegment> segments, int units, int workers);
  std::span<const AttentionItem> items() const { return items_; }
  std::span<const AttentionSplit> splits() const { return splits_; }
  std::span<const AttentionTile> tiles() const { return tiles_; }

 private:
  void add_row(int row, const DeviceSegment& segment, int64_t limit);
  std::vector<AttentionItem> items_;
  std::vector<AttentionSplit> splits_;
  std::vector<AttentionTile> tiles_;
  int slots_ = 0;  // used
};

}  // namespace monolith::cuda
