#include "backend/cuda/step_tables.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace monolith::cuda {
namespace {

// Maximum size of one step's page tables, in page numbers: enough for 128 million positions.
constexpr size_t kMaxPageNumbers = size_t{8} << 20;

struct Sizes {
  size_t fixed;  // Entries for tokens, logit rows, and each list's header, segments and token-to-segment map.
  size_t pages;  // Entries for page tables and attention work lists.
};

constexpr size_t kHeaderNumbers = sizeof(AttentionHeader) / sizeof(int32_t);
constexpr size_t kSegmentNumbers = sizeof(DeviceSegment) / sizeof(int32_t);
// Number of entries per token for segments that supply their own RoPE positions.
constexpr size_t kRopeNumbers = sizeof(RopePosition) / sizeof(int32_t);
// Every table starts at a multiple of 16 bytes.
constexpr size_t aligned(size_t numbers) { return (numbers + 3) / 4 * 4; }
// Number of entries of one list: header, segments, and the segment of each token.
constexpr size_t list_numbers(size_t n_segments, size_t n_rows) {
  return aligned(kHeaderNumbers) + aligned(n_segments * kSegmentNumbers) + aligned(n_rows);
}

size_t rows_of(std::span<const Segment> segments) {
  size_t rows = 0;
  for (const Segment& segment : segments)
    rows = std::max(rows, static_cast<size_t>(segment.first_row + segment.n_tokens));
  return rows;
}

// Number of workers (warps) per multiprocessor over which attention work is divided: enough to keep memory busy.
constexpr int kWorkersPerMultiprocessor = 4;

Sizes sizes_for(int max_rows, int max_context, size_t n_lists) {
  const auto rows = static_cast<size_t>(max_rows);
  const size_t per_row = (static_cast<size_t>(max_context) + kPageTokens - 1) / kPageTokens + 1;
  return {2 * aligned(rows) + n_lists * list_numbers(rows, rows),
          std::max(n_lists * per_row, std::min(n_lists * rows * per_row, kMaxPageNumbers)) +
              n_lists * (AttentionPlanner::most_numbers(max_rows) + kRopeNumbers * rows)};
}

// Size of the buffer for row numbers that are not part of the step's own tables (Operations::gather_rows). It limits
// the number of row numbers per operation and the total number in flight.
constexpr size_t kNumbersOfRow = 16, kMinNumbers = 256;
size_t extra_numbers(int max_rows) {
  return std::max(kNumbersOfRow * aligned(static_cast<size_t>(max_rows)), kMinNumbers);
}

size_t numbers_for(int max_rows, int max_context, size_t n_lists) {
  const Sizes sizes = sizes_for(max_rows, max_context, n_lists);
  return sizes.fixed + sizes.pages;
}

}  // namespace

struct StepTables::Cursor {
  int32_t* host;
  const int32_t* device;
  size_t at;  // Offset of the current list, in entries.
  size_t pages_begin;
  size_t n_pages = 0;  // Page-table entries used so far.
  size_t capacity;
  // The page tables that have been placed in the upload so far. The lists of a step mostly use the same page tables, in
  // the same order.
  std::vector<Table>& known;
  size_t next_known = 0;
};

size_t StepTables::bytes_for(int max_rows, int max_context) {
  return (numbers_for(max_rows, max_context, kMaxSegmentLists) + numbers_for(max_rows, max_context, 1) +
          extra_numbers(max_rows)) *
         sizeof(int32_t);
}

Status StepTables::reserve(int max_rows, int max_context) {
  if (max_rows <= max_rows_ && max_context <= max_context_) return {};
  max_rows_ = std::max(max_rows, max_rows_);
  max_context_ = std::max(max_context, max_context_);
  const auto take = [&](int32_t*& staging, int32_t*& device, size_t n_lists, size_t more) -> Status {
    const size_t bytes = (numbers_for(max_rows_, max_context_, n_lists) + more) * sizeof(int32_t);
    runtime_.free_pinned(staging);
    runtime_.free(device);
    staging = device = nullptr;
    auto pinned = runtime_.allocate_pinned(bytes);
    if (!pinned) return pinned.error();
    staging = static_cast<int32_t*>(*pinned);
    auto memory = runtime_.allocate(bytes);
    if (!memory) return memory.error();
    device = static_cast<int32_t*>(*memory);
    return {};
  };
  if (Status status = take(staging_, numbers_, kMaxSegmentLists, 0); !status) return status;
  if (Status status = take(extra_staging_, extra_, 1, extra_numbers(max_rows_)); !status) return status;
  tables_.reserve(static_cast<size_t>(max_rows_));
  planner_.reserve(max_rows_);
  chains_.reserve(max_rows_);
  return {};
}

// Appends data to the page table area and returns its offset from the start of that area, in entries.
size_t StepTables::put(Cursor& cursor, const void* from, size_t bytes) {
  const size_t n = bytes / sizeof(int32_t), first = cursor.n_pages;
  if (n > cursor.capacity - first)
    throw std::runtime_error("page tables of one step exceed the maximum of " + std::to_string(cursor.capacity) +
                             " entries");
  if (n > 0) std::memcpy(cursor.host + cursor.pages_begin + first, from, bytes);
  cursor.n_pages += n;
  return first;
}

void StepTables::put_work(Cursor& cursor, std::span<const DeviceSegment> segments, AttentionHeader& header,
                          RowList& list) {
  planner_.plan(segments, n_kv_heads_, runtime_.device().multiprocessors * kWorkersPerMultiprocessor);
  const auto put_all = [&](const auto& work, int32_t& at, int32_t& n) {
    n = static_cast<int32_t>(work.size());
    at = static_cast<int32_t>(put(cursor, work.data(), work.size_bytes()));
  };
  put_all(planner_.items(), header.items, header.n_items);
  put_all(planner_.splits(), header.splits, header.n_splits);
  put_all(planner_.tiles(), header.tiles, header.n_tiles);
  list.has_items = header.n_items > 0;
  list.has_splits = header.n_splits > 0;
  list.n_tiles = header.n_tiles;
}

RowList StepTables::put_list(Cursor& cursor, std::span<const Segment> segments, int padded_rows, int32_t spare_page) {
  const size_t own_at = cursor.at + aligned(kHeaderNumbers);
  const size_t of_row_at =
      own_at + aligned(std::max(segments.size(), static_cast<size_t>(padded_rows)) * kSegmentNumbers);
  auto* const header = reinterpret_cast<AttentionHeader*>(cursor.host + cursor.at);
  auto* const own = reinterpret_cast<DeviceSegment*>(cursor.host + own_at);
  int32_t* const of_row = cursor.host + of_row_at;
  RowList list;
  list.work = reinterpret_cast<const AttentionHeader*>(cursor.device + cursor.at);
  list.segments = reinterpret_cast<const DeviceSegment*>(cursor.device + own_at);
  list.segment_of_row = cursor.device + of_row_at;
  list.pages = cursor.device + cursor.pages_begin;
  const auto put_pages = [&](const int32_t* from, size_t n) {
    return static_cast<int32_t>(put(cursor, from, n * sizeof(int32_t)));
  };
  cursor.next_known = 0;
  for (const Segment& segment : segments) {
    const int positions = segment.seen_by(segment.first_position + segment.n_tokens - 1);
    const auto n = static_cast<size_t>(positions + kPageTokens - 1) / kPageTokens;
    size_t k = cursor.next_known;
    while (k < cursor.known.size() && (cursor.known[k].host != segment.pages || cursor.known[k].n < n)) ++k;
    int32_t first;
    if (k < cursor.known.size()) {
      first = cursor.known[k].first;
      cursor.next_known = k;
    } else {
      first = put_pages(segment.pages, n);
      if (cursor.known.size() < cursor.known.capacity()) cursor.known.push_back({segment.pages, first, n});
      cursor.next_known = cursor.known.size();
    }
    DeviceSegment& to = own[list.n_segments];
    to = {segment.first_row, segment.n_tokens, segment.first_position, first};
    to.seen_end = segment.seen_end;
    if (segment.rope_positions)
      to.rope_first = static_cast<int32_t>(
          put(cursor, segment.rope_positions, static_cast<size_t>(segment.n_tokens) * sizeof(RopePosition)));
    std::fill_n(of_row + segment.first_row, segment.n_tokens, list.n_segments);
    ++list.n_segments;
    list.n_rows = std::max(list.n_rows, segment.first_row + segment.n_tokens);
  }
  chains_.link(segments, {own, segments.size()});
  if (list.n_rows < padded_rows) {
    const int32_t first = put_pages(&spare_page, 1);
    for (; list.n_rows < padded_rows; ++list.n_rows) {
      of_row[list.n_rows] = list.n_segments;
      own[list.n_segments++] = {list.n_rows, 1, 0, first};
    }
  }
  put_work(cursor, {own, static_cast<size_t>(list.n_segments)}, *header, list);
  return list;
}

void StepTables::send(const StepInput& input, int padded_rows, int32_t spare_page) {
  const auto least = static_cast<size_t>(padded_rows);
  const size_t n_tokens = input.tokens.size(), token_places = std::max(n_tokens, least);
  const size_t logit_rows_at = aligned(token_places);
  host_tokens_ = input.tokens.data();
  host_logit_rows_ = input.logit_rows.data();
  tokens_ = numbers_;
  logit_rows_ = numbers_ + logit_rows_at;
  std::ranges::copy(input.tokens, staging_);
  std::fill(staging_ + n_tokens, staging_ + token_places, 0);
  std::ranges::copy(input.logit_rows, staging_ + logit_rows_at);
  tables_.clear();
  // A captured step must find every table at the address it had during the capture. Offsets therefore depend only on
  // the padded token count. All steps of a model have the same lists, and the same lists are empty in all of them.
  // Everything is uploaded in one copy.
  const auto slots_of = [&](std::span<const Segment> segments) {
    const size_t padding = segments.empty() ? 0 : least;
    return list_numbers(std::max(segments.size(), padding), std::max(rows_of(segments), padding));
  };
  const size_t lists_at = logit_rows_at + aligned(std::max(input.logit_rows.size(), least));
  Cursor cursor{.host = staging_,
                .device = numbers_,
                .at = lists_at,
                .pages_begin = lists_at,
                .capacity = sizes_for(max_rows_, max_context_, input.segment_lists.size()).pages,
                .known = tables_};
  for (const std::span<const Segment> segments : input.segment_lists) cursor.pages_begin += slots_of(segments);
  n_sent_ = n_numbers_ = 0;
  for (const std::span<const Segment> segments : input.segment_lists) {
    const int padding = segments.empty() ? 0 : padded_rows;
    sent_[n_sent_++] = {segments.data(), segments.size(), put_list(cursor, segments, padding, spare_page)};
    cursor.at += slots_of(segments);
  }
  const std::span<Sent> sent = std::span(sent_).first(n_sent_);
  has_splits_ = std::ranges::any_of(sent, [](const Sent& one) { return one.list.has_splits; });
  // All lists get the same flag, because a captured step is selected by a single flag for the whole step.
  for (Sent& one : sent) one.list.has_splits = has_splits_;
  runtime_.upload(numbers_, staging_, (cursor.pages_begin + cursor.n_pages) * sizeof(int32_t));
}

const RowList* StepTables::find(std::span<const Segment> segments) const {
  for (size_t i = 0; i < n_sent_; ++i)
    if (sent_[i].host == segments.data() && sent_[i].n == segments.size()) return &sent_[i].list;
  return nullptr;
}

RowList StepTables::send_list(std::span<const Segment> segments) {
  runtime_.synchronize();  // The upload of the previous list sent this way may still be running.
  extra_tables_.clear();
  const size_t at = extra_numbers(max_rows_);  // Lists start after the area used by send_numbers().
  Cursor cursor{.host = extra_staging_,
                .device = extra_,
                .at = at,
                .pages_begin = at + list_numbers(segments.size(), rows_of(segments)),
                .capacity = sizes_for(max_rows_, max_context_, 1).pages,
                .known = extra_tables_};
  const RowList list = put_list(cursor, segments, 0, 0);
  runtime_.upload(extra_ + at, extra_staging_ + at, (cursor.pages_begin - at + cursor.n_pages) * sizeof(int32_t));
  return list;
}

const int32_t* StepTables::send_numbers(const int32_t* host, int n) {
  const size_t count = aligned(static_cast<size_t>(n)), room = extra_numbers(max_rows_);
  if (count > room)
    throw std::runtime_error("an operation refers to " + std::to_string(n) + " rows, but the maximum is " +
                             std::to_string(room));
  // If the buffer is full, wait for the device before reusing it, because earlier arrays may still be in transfer or in
  // use.
  if (n_numbers_ + count > room) {
    runtime_.synchronize();
    n_numbers_ = 0;
  }
  const size_t at = n_numbers_;
  n_numbers_ += count;
  std::memcpy(extra_staging_ + at, host, static_cast<size_t>(n) * sizeof(int32_t));
  runtime_.upload(extra_ + at, extra_staging_ + at, static_cast<size_t>(n) * sizeof(int32_t));
  return extra_ + at;
}

}  // namespace monolith::cuda
