// Embedding spans: prompt positions that are not tokens but precomputed embedding vectors, for example of an image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/content_hash.h"

namespace monolith {

struct RopePosition;   // RopePosition is defined in backend/kv_cache.h.
struct PreparedPiece;  // PreparedPiece is defined in vision/vision.h.

struct InputSpan {
  // Position of the first row. At the span's positions, the prompt has placeholder tokens, whose token embeddings are
  // not used.
  int first = 0;
  int n_rows = 0;
  ContentHash hash = {};
  // Embeddings, shape [n_rows][input width]; may be shared with a cache. If null, the engine's vision encoder computes
  // them from `piece` before the request is admitted (images/image_stage.h).
  std::shared_ptr<const std::vector<float>> rows = nullptr;
  std::shared_ptr<const PreparedPiece> piece = nullptr;
  bool bidirectional = false;  // True: all rows of the span attend to each other. False: causal attention.
  // For M-RoPE models: each row's offsets from the rotary position at the start of the span. n_rope_positions is how
  // far the span advances the rotary position. With null offsets and n_rope_positions = 0, the span advances like text:
  // by one per row in all three dimensions.
  std::shared_ptr<const std::vector<RopePosition>> rope_offsets = nullptr;
  int n_rope_positions = 0;
  int mrope_delta = 0;  // Position minus rotary position at the end of the span; filled in by count_rope_positions().

  int end() const { return first + n_rows; }
};

// Fills in mrope_delta of each span. Spans must be in ascending order.
inline void count_rope_positions(std::span<InputSpan> spans) {
  int saved = 0;
  for (InputSpan& span : spans) {
    if (span.n_rope_positions > 0) saved += span.n_rows - span.n_rope_positions;
    span.mrope_delta = saved;
  }
}

// Returns the first span that ends after `position`, or null if there is none. Spans must be in ascending order.
inline const InputSpan* span_from(std::span<const InputSpan> spans, int position) {
  const auto at = std::ranges::partition_point(spans, [&](const InputSpan& span) { return span.end() <= position; });
  return at == spans.end() ? nullptr : &*at;
}

// Returns the bidirectional span that a cut before `position` would split, or null if there is none.
inline const InputSpan* span_across(std::span<const InputSpan> spans, int position) {
  const InputSpan* span = span_from(spans, position);
  return span && span->bidirectional && span->first < position ? span : nullptr;
}

}  // namespace monolith
