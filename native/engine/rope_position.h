// Rotary positions in sequences with embedding spans, for M-RoPE models. Pure functions; any thread.
#pragma once

#include "backend/kv_cache.h"
#include "engine/inputs.h"

namespace monolith {

// Rotary position of `position` in a sequence with these spans, which must be in ascending order.
inline RopePosition rope_position_at(std::span<const InputSpan> spans, int position) {
  const auto after = std::ranges::partition_point(spans, [&](const InputSpan& span) { return span.first <= position; });
  if (after == spans.begin()) return {position, position, position};
  const InputSpan& span = *(after - 1);
  if (position >= span.end() || !span.rope_offsets) {
    // A span without own offsets advances like text, so its mrope_delta also holds inside it.
    const int count = position - span.mrope_delta;
    return {count, count, count};
  }
  const int begin = span.first - (span.mrope_delta - (span.n_rows - span.n_rope_positions));
  const RopePosition& offset = (*span.rope_offsets)[static_cast<size_t>(position - span.first)];
  return {begin + offset.time, begin + offset.height, begin + offset.width};
}

}  // namespace monolith
