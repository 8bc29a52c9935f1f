// The content of a run of positions in a form that is the same in every process: the token ids and, for the rows of
// embedding spans, the 128-bit hash of the span's content. Storage tiers derive their keys from it, because the prefix
// cache's own keys are seeded at random.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "engine/inputs.h"

namespace monolith {

struct PageText {
  std::vector<TokenId> tokens;
  // The spans have no embeddings, only position, length, hash and attention kind. A span may extend beyond the last
  // token.
  std::vector<InputSpan> spans;
  ContentHash adapter = {};  // Hash of the LoRA adapter that the pages are computed with; 0 = no adapter.

  // The first `n_tokens` positions. Throws std::bad_alloc.
  static PageText of(std::span<const TokenId> tokens, std::span<const InputSpan> spans, int n_tokens,
                     const ContentHash& adapter = {}) {
    PageText text;
    text.adapter = adapter;
    text.tokens.assign(tokens.begin(), tokens.begin() + n_tokens);
    for (const InputSpan& span : spans) {
      if (span.first >= n_tokens) break;
      text.spans.push_back(
          {.first = span.first, .n_rows = span.n_rows, .hash = span.hash, .bidirectional = span.bidirectional});
    }
    return text;
  }
};

}  // namespace monolith
