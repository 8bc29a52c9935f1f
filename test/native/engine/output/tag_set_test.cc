// Walks structural tags: tests which tokens may come next at each position, and which tag is complete where.
#include "engine/output/tag_set.h"

#include "check.h"

namespace monolith {
namespace {

using Tokens = std::vector<TokenId>;

TagSet tag_set(const std::vector<Tokens>& alternatives) {
  std::vector<Tag> tags;
  for (const Tokens& tokens : alternatives) tags.push_back({tokens, Tag::Then::kCall, nullptr});
  return TagSet(std::move(tags));
}

Tokens next_of(const TagSet& tags, TagSet::Node node = TagSet::kStart) {
  const std::span<const TokenId> next = tags.next(node);
  return {next.begin(), next.end()};
}

TagSet::Node walk(const TagSet& tags, const Tokens& tokens) {
  TagSet::Node node = TagSet::kStart;
  for (const TokenId token : tokens) {
    CHECK(!tags.complete(node));
    node = tags.advance(node, token);
  }
  return node;
}

TEST(tag_set_reports_the_completed_tag) {
  const std::vector<Tokens> alternatives = {{7}, {1, 2, 4, 5}, {1, 6}, {1, 2, 3}};
  const TagSet tags = tag_set(alternatives);
  for (const Tokens& tokens : alternatives) {
    const Tag* const tag = tags.complete(walk(tags, tokens));
    REQUIRE(tag != nullptr);
    CHECK(tag->tokens == tokens);
  }
}

TEST(tag_set_narrows_to_the_matching_tags) {
  const TagSet tags = tag_set({{1, 2, 3}, {1, 2, 4, 5}, {1, 6}, {7}});
  CHECK(next_of(tags) == (Tokens{1, 7}));
  CHECK(next_of(tags, walk(tags, {1})) == (Tokens{2, 6}));
  CHECK(next_of(tags, walk(tags, {1, 2})) == (Tokens{3, 4}));
  CHECK(next_of(tags, walk(tags, {1, 2, 4})) == (Tokens{5}));
  CHECK(next_of(tags, walk(tags, {1, 2, 4, 5})).empty());
  CHECK(tags.starts_with(7) && !tags.starts_with(2));
  CHECK_EQ(tags.advance(TagSet::kStart, 6), TagSet::kNowhere);
  CHECK(!tags.complete(TagSet::kNowhere));
}

TEST(tag_set_ends_with_the_shortest_complete_tag) {
  const TagSet tags = tag_set({{1, 2}, {1}});
  const TagSet::Node node = walk(tags, {1});
  REQUIRE(tags.complete(node) != nullptr);
  CHECK(tags.complete(node)->tokens == Tokens{1});
  CHECK(next_of(tags, node).empty());
}

TEST(tag_set_prefers_the_first_of_equal_tags) {
  const TagSet tags({{{1, 2}, Tag::Then::kAnswer, nullptr}, {{1, 2}, Tag::Then::kCall, nullptr}});
  const Tag* const tag = tags.complete(walk(tags, {1, 2}));
  REQUIRE(tag != nullptr);
  CHECK(tag->then == Tag::Then::kAnswer);
}

TEST(tag_set_may_be_empty) {
  const TagSet tags;
  CHECK(tags.empty() && tags.next().empty() && !tags.starts_with(1) && !tags.complete(TagSet::kStart));
}

}  // namespace
}  // namespace monolith
