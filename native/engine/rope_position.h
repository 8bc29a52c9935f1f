// What a position of a sequence with embedding spans is turned by, where models have rotary positions of three numbers.
// Pure; any thread.
#pragma once

#include "backend/kv_cache.h"
#include "engine/inputs.h"

namespace monolith {

// What position `position` of a sequence with these spans is turned by.
inline RopePosition rope_position_at(std::span<const InputSpan> spans, int position) {
  const auto after = std::ranges::partition_point(spans, [&](const InputSpan& span) { return span.first <= position; });
  if (after == spans.begin()) return {position, position, position};
  const InputSpan& span = *(after - 1);
  if (position >= span.end() || !span.rope_offsets) {
    // Within a span without offsets of its own nothing is saved.
    const int count = position - span.rope_saved;
    return {count, count, count};
  }
  const int begin = span.first - (span.rope_saved - (span.n_rows - span.n_rope_positions));
  const RopePosition& offset = (*span.rope_offsets)[static_cast<size_t>(position - span.first)];
  return {begin + offset.time, begin + offset.height, begin + offset.width};
}

}  // namespace monolith
