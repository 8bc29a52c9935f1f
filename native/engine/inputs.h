// What positions of a prompt are made of where they are no tokens: embedding spans, rows of vectors that something else
// has computed, like those of an image.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/content_hash.h"

namespace monolith {

struct RopePosition;   // backend/kv_cache.h
struct PreparedPiece;  // vision/vision.h

struct InputSpan {
  int first = 0;  // position of its first row; the prompt has placeholder tokens there, which are not embedded
  int n_rows = 0;
  ContentHash hash = {};
  // [n_rows][input width]; whoever keeps embeddings may share them. Null: the engine's tower computes them from the piece
  // before the request is admitted (images/image_stage.h).
  std::shared_ptr<const std::vector<float>> rows = nullptr;
  std::shared_ptr<const PreparedPiece> piece = nullptr;
  bool bidirectional = false;  // its rows see one another; else each sees what stands before it
  // Of models with rotary positions of three numbers: what each row adds to the count of these that stands at the span's
  // beginning, and by how much that moves on; null and 0: row by row, in all three alike.
  std::shared_ptr<const std::vector<RopePosition>> rope_offsets = nullptr;
  int n_rope_positions = 0;
  int rope_saved = 0;  // by how much the count lies behind the position at its end: count_rope_positions()

  int end() const { return first + n_rows; }
};

// Fills in each span's rope_saved. In order.
inline void count_rope_positions(std::span<InputSpan> spans) {
  int saved = 0;
  for (InputSpan& span : spans) {
    if (span.n_rope_positions > 0) saved += span.n_rows - span.n_rope_positions;
    span.rope_saved = saved;
  }
}

// Of spans in order the first that ends behind `position`; null: none.
inline const InputSpan* span_from(std::span<const InputSpan> spans, int position) {
  const auto at = std::ranges::partition_point(spans, [&](const InputSpan& span) { return span.end() <= position; });
  return at == spans.end() ? nullptr : &*at;
}

// The bidirectional span that a cut before `position` would divide; null: none.
inline const InputSpan* span_across(std::span<const InputSpan> spans, int position) {
  const InputSpan* span = span_from(spans, position);
  return span && span->bidirectional && span->first < position ? span : nullptr;
}

}  // namespace monolith
