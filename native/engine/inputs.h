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

struct InputSpan {
  int first = 0;    // position of its first row; the prompt has placeholder tokens there, which are not embedded
  int n_rows = 0;
  ContentHash hash;
  std::shared_ptr<const std::vector<float>> rows;   // [n_rows][n_embd]; whoever keeps embeddings may share them
  bool bidirectional = false;   // its rows see one another; else each sees what stands before it

  int end() const { return first + n_rows; }
};

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
