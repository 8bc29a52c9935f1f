#include "backend/cuda/attention/work.h"

#include <algorithm>
#include <bit>

namespace monolith::cuda {
namespace {

int chunks_of(int position) { return position / kChunkPositions + 1; }
int groups_of(int chunks) { return (chunks + kGroupChunks - 1) / kGroupChunks; }
// Returns the length class of a context, by which work items are sorted. Contexts whose lengths lie between the same
// two powers of two are in the same class.
int length_class(int chunks) { return std::bit_width(static_cast<unsigned>(chunks)); }
constexpr int kClasses = 33;
// At most one tile per row, plus one. A single token with bidirectional attention may be a segment of its own.
constexpr size_t most_tiles(size_t rows) { return rows + 1; }
bool in_tiles(const DeviceSegment& segment) { return segment.n_tokens > kFewTokens || segment.sees_ahead(); }

}  // namespace

RowSplit split_for(int chunks, int64_t limit, int free_slots) {
  if (chunks <= limit) return RowSplit::kWhole;
  if (std::min(chunks, kGroupChunks) > limit && chunks <= free_slots) return RowSplit::kChunks;
  const int groups = groups_of(chunks);
  return groups > 1 && groups <= free_slots ? RowSplit::kGroups : RowSplit::kWhole;
}

size_t AttentionPlanner::most_numbers(int max_rows) {
  const auto rows = static_cast<size_t>(max_rows), slots = static_cast<size_t>(kMaxSlots);
  return ((rows + slots) * sizeof(AttentionItem) + slots * sizeof(AttentionSplit) +
          most_tiles(rows) * sizeof(AttentionTile)) /
         sizeof(int32_t);
}

void AttentionPlanner::reserve(int max_rows) {
  const auto rows = static_cast<size_t>(max_rows), slots = static_cast<size_t>(kMaxSlots);
  items_.reserve(rows + slots);
  splits_.reserve(slots);
  tiles_.reserve(most_tiles(rows));
}

void AttentionPlanner::add_row(int row, const DeviceSegment& segment, int64_t limit) {
  const int position = segment.first_position + row - segment.first_row, chunks = chunks_of(position);
  const RowSplit split = split_for(chunks, limit, kMaxSlots - slots_);
  if (split == RowSplit::kWhole) {
    items_.push_back({row, position, segment.first_page, 0, chunks, -1});
    return;
  }
  const int length = split == RowSplit::kGroups ? kGroupChunks : 1;
  splits_.push_back({row, position, slots_, split == RowSplit::kGroups});
  for (int at = 0; at < chunks; at += length)
    items_.push_back({row, position, segment.first_page, at, std::min(at + length, chunks), slots_++});
}

void AttentionPlanner::plan(std::span<const DeviceSegment> segments, int units, int workers) {
  items_.clear();
  splits_.clear();
  tiles_.clear();
  slots_ = 0;
  int64_t chunks = 0;
  int of_class[kClasses] = {};  // Segments per length class.
  for (size_t i = 0; i < segments.size(); ++i) {
    const DeviceSegment& segment = segments[i];
    if (in_tiles(segment)) {
      for (int at = 0; at < segment.n_tokens; at += kTileTokens) tiles_.push_back({static_cast<int32_t>(i), at});
      continue;
    }
    const int longest = chunks_of(segment.first_position + segment.n_tokens - 1);
    chunks += int64_t{longest} * segment.n_tokens;
    ++of_class[length_class(longest)];
  }
  // The limit is 1.5 times the work that each worker gets if the work is divided equally.
  const int64_t limit = std::max<int64_t>(1, 3 * chunks * units / (2 * int64_t{std::max(workers, 1)}));
  for (int length = kClasses - 1; length > 0; --length) {
    if (of_class[length] == 0) continue;
    for (const DeviceSegment& segment : segments) {
      if (in_tiles(segment)) continue;
      if (length_class(chunks_of(segment.first_position + segment.n_tokens - 1)) != length) continue;
      for (int row = 0; row < segment.n_tokens; ++row) add_row(segment.first_row + row, segment, limit);
    }
  }
  const auto last_position = [&](const AttentionTile& tile) {
    const DeviceSegment& segment = segments[static_cast<size_t>(tile.segment)];
    return segment.last_seen(segment.first_position + std::min(tile.first_token + kTileTokens, segment.n_tokens) - 1);
  };
  std::ranges::sort(tiles_, [&](const AttentionTile& a, const AttentionTile& b) {
    const int of_a = last_position(a), of_b = last_position(b);
    return of_a != of_b ? of_a > of_b : a.segment < b.segment;
  });
}

}  // namespace monolith::cuda
