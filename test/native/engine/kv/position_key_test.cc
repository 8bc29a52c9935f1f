// Tests the keys that represent positions in the prefix cache.
#include "engine/kv/position_key.h"

#include <set>

#include "check.h"
#include "engine/kv/prefix_cache.h"

namespace monolith {
namespace {

constexpr TokenId kPlaceholder = 7;
constexpr uint64_t kSeed = 99;

InputSpan span_of(int first, int n_rows, ContentHash hash, bool bidirectional = false) {
  return {.first = first, .n_rows = n_rows, .hash = hash, .rows = {}, .bidirectional = bidirectional};
}

TEST(position_keys_of_tokens_are_their_ids) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < 2 * kPageTokens; ++token) tokens.push_back(token * 3);
  const PageKeys keys = page_keys(tokens, {}, kPageTokens, kSeed);
  for (size_t i = 0; i < keys.size(); ++i) CHECK_EQ(keys[i], static_cast<PositionKey>(tokens[kPageTokens + i]));
}

TEST(position_keys_of_rows_depend_on_content_row_and_seed) {
  std::set<PositionKey> seen;
  for (const uint64_t seed : {kSeed, kSeed + 1})
    for (const ContentHash hash : {ContentHash{1, 2}, ContentHash{2, 1}, ContentHash{1, 3}, ContentHash{0, 2}})
      for (int row = 0; row < 100; ++row) CHECK(seen.insert(row_key(span_of(0, 100, hash), row, seed)).second);
  for (const PositionKey key : seen) CHECK(key > 0xFFFFFFFFu);  // Never equal to a token id.
  // The key does not depend on the position of the span. It depends on the length of the span only if the span is
  // bidirectional.
  const auto key = [](const InputSpan& span) { return row_key(span, 3, kSeed); };
  CHECK_EQ(key(span_of(5, 10, {1, 2})), key(span_of(80, 20, {1, 2})));
  CHECK_EQ(key(span_of(5, 10, {1, 2}, true)), key(span_of(80, 10, {1, 2}, true)));
  CHECK(key(span_of(5, 10, {1, 2}, true)) != key(span_of(5, 20, {1, 2}, true)));
}

TEST(position_keys_of_a_page_mix_tokens_and_spans) {
  const std::vector<TokenId> tokens(4 * kPageTokens, kPlaceholder);
  // One span ends in page 1, one lies within page 1, and one starts in page 1, covers page 2 and continues in page 3.
  const std::vector<InputSpan> spans = {span_of(10, 8, {1, 1}), span_of(20, 3, {2, 2}), span_of(30, 20, {3, 3})};
  std::vector<PositionKey> expected(tokens.size(), kPlaceholder);
  for (const InputSpan& span : spans)
    for (int row = 0; row < span.n_rows; ++row)
      expected[static_cast<size_t>(span.first + row)] = row_key(span, row, kSeed);
  for (int first = 0; first < 4 * kPageTokens; first += kPageTokens) {
    const PageKeys keys = page_keys(tokens, spans, first, kSeed);
    CHECK(std::equal(keys.begin(), keys.end(), expected.begin() + first));
  }
}

TEST(prefix_cache_distinguishes_images_with_equal_placeholders) {
  PrefixCache cache({.n_pages = 8, .seed = kSeed});
  const std::vector<TokenId> tokens(kPageTokens, kPlaceholder);
  const auto keys = [&](ContentHash hash) {
    const std::vector<InputSpan> spans = {span_of(4, 6, hash)};
    return page_keys(tokens, spans, 0, cache.seed());
  };
  const NodeId node = cache.insert(1, kNoNode, keys({5, 6}), cache.allocate());
  CHECK(cache.find(1, kNoNode, keys({5, 6})) == node);
  CHECK(cache.find(1, kNoNode, keys({5, 7})) == kNoNode);
  CHECK(cache.find(1, kNoNode, keys({4, 6})) == kNoNode);
  CHECK(cache.find(1, kNoNode, page_keys(tokens, {}, 0, cache.seed())) == kNoNode);
  CHECK(cache.find(2, kNoNode, keys({5, 6})) == kNoNode);
  CHECK(cache.consistent());
}

TEST(bidirectional_spans_are_split_only_at_their_borders) {
  const std::vector<InputSpan> spans = {span_of(4, 3, {1, 1}, true), span_of(7, 5, {2, 2}, true),
                                        span_of(20, 5, {3, 3})};
  for (int position = 0; position < 30; ++position) {
    const InputSpan* across = span_across(spans, position);
    const int expected = position == 5 || position == 6 ? 0 : position > 7 && position < 12 ? 1 : -1;
    CHECK_EQ(across ? static_cast<int>(across - spans.data()) : -1, expected);
  }
}

}  // namespace
}  // namespace monolith
