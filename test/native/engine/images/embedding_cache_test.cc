// Tests the image embedding cache: for each organization separately, it keeps the most recently used entries that fit.
#include "engine/images/embedding_cache.h"

#include "check.h"
#include "engine/allocation_hook.h"

namespace monolith {
namespace {

EmbeddingCache::Rows rows_of(size_t n) { return std::make_shared<const std::vector<float>>(n, 1.0f); }

ContentHash hash_of(uint64_t content) { return {content, content}; }

TEST(embedding_cache_keeps_the_most_recently_used_within_its_limit) {
  EmbeddingCache cache(100 * sizeof(float));
  for (uint64_t content = 1; content <= 4; ++content) cache.insert(1, hash_of(content), rows_of(25));
  CHECK_EQ(cache.size(), size_t{4});  // Exactly the limit.
  CHECK_EQ(cache.bytes(), 100 * sizeof(float));
  const EmbeddingCache::Rows first = cache.find(1, hash_of(1));
  REQUIRE(first != nullptr);
  // The new entry needs the space of two entries. 2 and 3 are evicted, because 1 was used more recently.
  cache.insert(1, hash_of(5), rows_of(26));
  CHECK(cache.find(1, hash_of(2)) == nullptr && cache.find(1, hash_of(3)) == nullptr);
  CHECK(cache.find(1, hash_of(1)) == first && cache.find(1, hash_of(4)) != nullptr &&
        cache.find(1, hash_of(5)) != nullptr);
  CHECK_EQ(cache.bytes(), (25 + 25 + 26) * sizeof(float));

  cache.insert(1, hash_of(6), rows_of(101));  // An entry larger than the whole cache evicts nothing.
  CHECK_EQ(cache.size(), size_t{3});
  cache.insert(1, hash_of(6), rows_of(100));
  CHECK_EQ(cache.size(), size_t{1});
  CHECK_EQ(first->size(), size_t{25});  // Rows remain valid while someone holds a reference.
}

TEST(embedding_cache_counts_equal_rows_once_and_separates_organizations) {
  EmbeddingCache cache(1000 * sizeof(float));
  const EmbeddingCache::Rows rows = rows_of(10);
  cache.insert(1, hash_of(1), rows);
  cache.insert(1, hash_of(1), rows_of(10));
  CHECK(cache.find(1, hash_of(1)) == rows);
  CHECK_EQ(cache.bytes(), 10 * sizeof(float));
  CHECK(cache.find(2, hash_of(1)) == nullptr);
  cache.insert(2, hash_of(1), rows);
  CHECK_EQ(cache.size(), size_t{2});
}

// Repeats the test so that each allocation fails once.
TEST(embedding_cache_keeps_nothing_of_an_insertion_that_runs_out_of_memory) {
  int n = 0;
  for (bool fails = true; fails; ++n) {
    EmbeddingCache cache(100 * sizeof(float));
    const EmbeddingCache::Rows rows = rows_of(60);
    testing::until_failure = n;
    try {
      cache.insert(1, hash_of(1), rows);
    } catch (const std::bad_alloc&) {
      CHECK(cache.find(1, hash_of(1)) == nullptr);
    }
    fails = testing::until_failure < 0;
    testing::until_failure = -1;
    CHECK_EQ(cache.size(), fails ? size_t{0} : size_t{1});
    cache.insert(1, hash_of(1), rows);
    CHECK(cache.find(1, hash_of(1)) == rows);
    cache.insert(1, hash_of(2), rows_of(60));  // Evicts the first one.
    CHECK_EQ(cache.size(), size_t{1});
    CHECK_EQ(cache.bytes(), 60 * sizeof(float));
  }
  CHECK(n > 1);
}

TEST(embedding_cache_of_size_zero_keeps_nothing) {
  EmbeddingCache cache(0);
  cache.insert(1, hash_of(1), rows_of(1));
  CHECK_EQ(cache.size(), size_t{0});
}

}  // namespace
}  // namespace monolith
