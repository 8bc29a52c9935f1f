// Page pool and prefix cache against a plain map from whole prefixes to pages.
#include "engine/prefix_cache.h"

#include <algorithm>
#include <map>
#include <random>

#include "check.h"

namespace monolith {
namespace {

constexpr int kPage = kPageTokens;

std::vector<TokenId> page_of(int value) {
  std::vector<TokenId> tokens(kPage, 0);
  tokens.back() = value;
  return tokens;
}

TEST(page_pool_counts_every_state) {
  PagePool pool(3);
  const PageId a = pool.allocate(), b = pool.allocate();
  pool.set_indexed(a);
  pool.share(a);
  CHECK_EQ(pool.release(a), 1);
  CHECK_EQ(pool.release(a), 0);
  CHECK_EQ(pool.cached(), 1);
  CHECK_EQ(pool.release(b), 0);
  CHECK_EQ(pool.free(), 2);
  CHECK(pool.consistent());
  pool.share(a);   // cached pages come back to life
  CHECK_EQ(pool.cached(), 0);
  CHECK_EQ(pool.referenced(), 1);
  pool.release(a);
  pool.evict(a);
  CHECK_EQ(pool.free(), 3);
  CHECK(pool.consistent());
  for (int i = 0; i < 3; ++i) CHECK(pool.allocate() != kNoPage);
  CHECK_EQ(pool.allocate(), kNoPage);
}

TEST(prefix_cache_finds_by_organization_parent_and_tokens) {
  PrefixCache cache(8, 1);
  const auto one = page_of(1), two = page_of(2);
  const PageId a = cache.insert(7, kNoPage, one.data(), cache.allocate());
  const PageId b = cache.insert(7, a, two.data(), cache.allocate());
  CHECK_EQ(cache.find(7, kNoPage, one.data()), a);
  CHECK_EQ(cache.find(7, a, two.data()), b);
  CHECK_EQ(cache.find(8, kNoPage, one.data()), kNoPage);     // another organization
  CHECK_EQ(cache.find(7, kNoPage, two.data()), kNoPage);     // another place
  CHECK_EQ(cache.find(7, b, two.data()), kNoPage);
  CHECK(cache.consistent());
}

TEST(prefix_cache_collisions_never_share) {
  PrefixCache cache(64, 1, 0);   // every hash is 0
  std::vector<PageId> roots, children;
  for (int i = 0; i < 16; ++i) roots.push_back(cache.insert(i % 2, kNoPage, page_of(i / 2).data(), cache.allocate()));
  for (int i = 0; i < 16; ++i)
    children.push_back(cache.insert(i % 2, roots[static_cast<size_t>(i)], page_of(0).data(), cache.allocate()));
  for (int i = 0; i < 16; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK_EQ(cache.find(i % 2, kNoPage, page_of(i / 2).data()), roots[at]);
    CHECK_EQ(cache.find(i % 2, roots[at], page_of(0).data()), children[at]);
    CHECK_EQ(cache.find(1 - i % 2, roots[at], page_of(0).data()), kNoPage);
  }
  CHECK(cache.consistent());
}

TEST(prefix_cache_swaps_a_duplicate_for_the_page_already_there) {
  PrefixCache cache(4, 1);
  const auto tokens = page_of(5);
  const PageId first = cache.insert(1, kNoPage, tokens.data(), cache.allocate());
  const PageId mine = cache.allocate();
  CHECK_EQ(cache.insert(1, kNoPage, tokens.data(), mine), first);
  CHECK_EQ(cache.pool().references(first), 2);
  CHECK_EQ(cache.pool().references(mine), 0);
  CHECK_EQ(cache.pool().free(), 3);
  CHECK(cache.consistent());
}

TEST(prefix_cache_evicts_leaves_least_recently_used_first) {
  PrefixCache cache(4, 1);
  std::vector<PageId> chain;
  PageId parent = kNoPage;
  for (int i = 0; i < 3; ++i) {
    parent = cache.insert(1, parent, page_of(i).data(), cache.allocate());
    chain.push_back(parent);
  }
  const std::vector<PageId> expected(chain.rbegin(), chain.rend());   // deepest first
  const PageId other = cache.insert(1, kNoPage, page_of(9).data(), cache.allocate());
  cache.release_all(chain);
  cache.release(other);   // newest
  CHECK_EQ(cache.available(), 4);
  for (const PageId page : expected) CHECK_EQ(cache.allocate(), page);
  CHECK_EQ(cache.allocate(), other);
  CHECK_EQ(cache.allocate(), kNoPage);
  CHECK(cache.consistent());
}

// Random prompts come and go; a map of what should be cached must never contradict what is found, and
// every page stays obtainable.
void random_sequences(uint64_t hash_mask) {
  std::mt19937 random(42);
  PrefixCache cache(24, 3, hash_mask);
  std::map<std::pair<uint64_t, std::vector<TokenId>>, PageId> known;   // may be evicted at any time
  struct Holder {
    std::vector<PageId> pages;
  };
  std::vector<Holder> holders;
  for (int round = 0; round < 3000; ++round) {
    if (holders.size() >= 4 || (!holders.empty() && random() % 3 == 0)) {
      const size_t at = random() % holders.size();
      cache.release_all(holders[at].pages);
      holders.erase(holders.begin() + static_cast<ptrdiff_t>(at));
    } else {
      const uint64_t organization = random() % 2;
      std::vector<TokenId> prefix;
      Holder holder;
      PageId parent = kNoPage;
      for (size_t n = 1 + random() % 5; n > 0; --n) {
        const auto tokens = page_of(static_cast<int>(random() % 2));
        prefix.insert(prefix.end(), tokens.begin(), tokens.end());
        const PageId found = cache.find(organization, parent, tokens.data());
        if (found != kNoPage) {
          const auto expected = known.find({organization, prefix});
          REQUIRE(expected != known.end());
          REQUIRE(expected->second == found);
          cache.share(found);
          parent = found;
        } else {
          const PageId page = cache.allocate();
          if (page == kNoPage) break;
          std::erase_if(known, [&](const auto& entry) { return entry.second == page; });
          parent = cache.insert(organization, parent, tokens.data(), page);
          REQUIRE(parent == page);
          known[{organization, prefix}] = page;
        }
        holder.pages.push_back(parent);
      }
      holders.push_back(holder);
    }
    REQUIRE(cache.consistent());
  }
  for (Holder& holder : holders) cache.release_all(holder.pages);
  CHECK_EQ(cache.available(), 24);
  for (int i = 0; i < 24; ++i) REQUIRE(cache.allocate() != kNoPage);
  CHECK(cache.consistent());
}

TEST(prefix_cache_random) { random_sequences(~uint64_t{0}); }
TEST(prefix_cache_random_with_collisions) { random_sequences(1); }

}  // namespace
}  // namespace monolith
