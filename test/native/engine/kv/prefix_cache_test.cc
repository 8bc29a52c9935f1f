// Tests the page pool, and compares the prefix cache with a plain map from whole prefixes to pages.
#include "engine/kv/prefix_cache.h"

#include <algorithm>
#include <map>
#include <random>

#include "check.h"

namespace monolith {
namespace {

constexpr int kPage = kPageTokens;

PageKeys page_of(int value) {
  PageKeys keys{};
  keys.back() = static_cast<PositionKey>(value);
  return keys;
}

void release_all(PrefixCache& cache, std::vector<PageId>& pages) {
  PageTable table(pages.size(), 1), no_windows;
  for (const PageId page : pages) table.push_back(page, cache.pool());
  cache.release_all(table, no_windows);
  pages.clear();
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
  pool.share(a);  // Cached pages become referenced again.
  CHECK_EQ(pool.cached(), 0);
  CHECK_EQ(pool.referenced(), 1);
  pool.release(a);
  pool.evict(a);
  CHECK_EQ(pool.free(), 3);
  CHECK(pool.consistent());
  for (int i = 0; i < 3; ++i) CHECK(pool.allocate() != kNoPage);
  CHECK_EQ(pool.allocate(), kNoPage);
}

// A page that was never used occupies no physical memory, so used pages are reused first.
TEST(page_pool_reuses_touched_pages_first) {
  PagePool pool(1'000);
  CHECK_EQ(pool.touched(), 0);
  CHECK_EQ(pool.free(), 1'000);
  const PageId a = pool.allocate(), b = pool.allocate(2);
  CHECK_EQ(a, 0);
  CHECK_EQ(pool.touched(), 3);
  pool.release(b);
  CHECK(pool.allocate() < 3 && pool.allocate() < 3);
  CHECK_EQ(pool.touched(), 3);
  CHECK_EQ(pool.allocate(), 3);
  CHECK_EQ(pool.free(), 996);
  CHECK(pool.consistent());
}

TEST(page_pool_allocates_page_groups) {
  PagePool pool(7);
  const PageId three = pool.allocate(3), two = pool.allocate(2);
  CHECK_EQ(pool.allocate(3), kNoPage);  // Two pages are left.
  CHECK_EQ(pool.free(), 2);
  int n = 0;
  for (PageId page = three; page != kNoPage; page = pool.next(page)) ++n;
  CHECK_EQ(n, 3);
  pool.set_indexed(three);
  CHECK_EQ(pool.release(three), 0);
  CHECK_EQ(pool.cached(), 3);
  CHECK_EQ(pool.release(two), 0);
  CHECK_EQ(pool.free(), 4);
  CHECK(pool.consistent());
  pool.share(three);
  CHECK_EQ(pool.referenced(), 3);
  pool.release(three);
  pool.evict(three);
  CHECK_EQ(pool.free(), 7);
  CHECK(pool.consistent());
  CHECK(pool.allocate(7) != kNoPage);
}

TEST(prefix_cache_finds_by_organization_parent_and_keys) {
  PrefixCache cache(8, 1);
  const auto one = page_of(1), two = page_of(2);
  const PageId a = cache.insert(7, kNoPage, one, cache.allocate());
  const PageId b = cache.insert(7, a, two, cache.allocate());
  CHECK_EQ(cache.find(7, kNoPage, one), a);
  CHECK_EQ(cache.find(7, a, two), b);
  CHECK_EQ(cache.find(8, kNoPage, one), kNoPage);  // Another organization.
  CHECK_EQ(cache.find(7, kNoPage, two), kNoPage);  // Another parent.
  CHECK_EQ(cache.find(7, b, two), kNoPage);
  CHECK(cache.consistent());
}

TEST(prefix_cache_collisions_never_share) {
  PrefixCache cache(64, 1, 0);  // Every hash is 0.
  std::vector<PageId> roots, children;
  for (int i = 0; i < 16; ++i) roots.push_back(cache.insert(i % 2, kNoPage, page_of(i / 2), cache.allocate()));
  for (int i = 0; i < 16; ++i)
    children.push_back(cache.insert(i % 2, roots[static_cast<size_t>(i)], page_of(0), cache.allocate()));
  for (int i = 0; i < 16; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK_EQ(cache.find(i % 2, kNoPage, page_of(i / 2)), roots[at]);
    CHECK_EQ(cache.find(i % 2, roots[at], page_of(0)), children[at]);
    CHECK_EQ(cache.find(1 - i % 2, roots[at], page_of(0)), kNoPage);
  }
  CHECK(cache.consistent());
}

TEST(prefix_cache_replaces_a_duplicate_by_the_cached_page) {
  PrefixCache cache(4, 1);
  const auto tokens = page_of(5);
  const PageId first = cache.insert(1, kNoPage, tokens, cache.allocate());
  const PageId mine = cache.allocate();
  CHECK_EQ(cache.insert(1, kNoPage, tokens, mine), first);
  CHECK_EQ(cache.pool().ref_count(first), 2);
  CHECK_EQ(cache.pool().ref_count(mine), 0);
  CHECK_EQ(cache.pool().free(), 3);
  CHECK(cache.consistent());
}

TEST(prefix_cache_evicts_leaves_least_recently_used_first) {
  PrefixCache cache(4, 1);
  std::vector<PageId> chain;
  PageId parent = kNoPage;
  for (int i = 0; i < 3; ++i) {
    parent = cache.insert(1, parent, page_of(i), cache.allocate());
    chain.push_back(parent);
  }
  const std::vector<PageId> expected(chain.rbegin(), chain.rend());  // Deepest page first.
  const PageId other = cache.insert(1, kNoPage, page_of(9), cache.allocate());
  release_all(cache, chain);
  cache.release(other);  // The newest page.
  CHECK_EQ(cache.available(), 4);
  for (const PageId page : expected) CHECK_EQ(cache.allocate(), page);
  CHECK_EQ(cache.allocate(), other);
  CHECK_EQ(cache.allocate(), kNoPage);
  CHECK(cache.consistent());
}

// Random prompts start and end. Lookups must never contradict a map of the pages that should be cached, and it must
// always be possible to allocate every page.
void random_sequences(uint64_t hash_mask) {
  std::mt19937 random(42);
  PrefixCache cache(24, 3, hash_mask);
  std::map<std::pair<uint64_t, std::vector<PositionKey>>, PageId> known;  // Entries may be evicted at any time.
  struct Holder {
    std::vector<PageId> pages;
  };
  std::vector<Holder> holders;
  for (int round = 0; round < 3000; ++round) {
    if (holders.size() >= 4 || (!holders.empty() && random() % 3 == 0)) {
      const size_t at = random() % holders.size();
      release_all(cache, holders[at].pages);
      holders.erase(holders.begin() + static_cast<ptrdiff_t>(at));
    } else {
      const uint64_t organization = random() % 2;
      std::vector<PositionKey> prefix;
      Holder holder;
      PageId parent = kNoPage;
      for (size_t n = 1 + random() % 5; n > 0; --n) {
        const auto tokens = page_of(static_cast<int>(random() % 2));
        prefix.insert(prefix.end(), tokens.begin(), tokens.end());
        const PageId found = cache.find(organization, parent, tokens);
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
          parent = cache.insert(organization, parent, tokens, page);
          REQUIRE(parent == page);
          known[{organization, prefix}] = page;
        }
        holder.pages.push_back(parent);
      }
      holders.push_back(holder);
    }
    REQUIRE(cache.consistent());
  }
  for (Holder& holder : holders) release_all(cache, holder.pages);
  CHECK_EQ(cache.available(), 24);
  for (int i = 0; i < 24; ++i) REQUIRE(cache.allocate() != kNoPage);
  CHECK(cache.consistent());
}

// Each full page takes two pool pages and each window page three. Both kinds are evicted to make room, starting with
// the least recently used.
TEST(prefix_cache_evicts_window_pages_separately_without_leaks) {
  const KvLayout layout{.full = 2, .windowed = 3, .window = 40};
  PrefixCache cache(20, 1, ~uint64_t{0}, layout);
  const auto add = [&](PageId parent, int value, PageTable& pages, PageTable& windows) {
    const PageId page = cache.insert(1, parent, page_of(value), cache.allocate());
    pages.push_back(page, cache.pool());
    windows.push_back(cache.insert_window(page, cache.allocate_window()), cache.pool());
    return page;
  };
  PageTable pages(4, 2), windows(4, 3);
  const PageId a = add(kNoPage, 1, pages, windows), b = add(a, 2, pages, windows), c = add(b, 3, pages, windows);
  CHECK_EQ(cache.available(), 5);
  CHECK(cache.has_room(1, 1) && cache.has_room(2, 0) && !cache.has_room(2, 1));
  // The first page's window page is no longer needed, but can be found until its space is needed.
  cache.release_window(windows[0]);
  windows.set(0, kNoPage, cache.pool());
  CHECK_EQ(cache.available(), 8);
  CHECK(cache.window_of(a) != kNoPage);
  const PageId x = cache.allocate_window(), y = cache.allocate_window();
  REQUIRE(x != kNoPage && y != kNoPage);
  CHECK_EQ(cache.window_of(a), kNoPage);
  CHECK(cache.window_of(b) != kNoPage);
  CHECK_EQ(cache.allocate_window(), kNoPage);
  CHECK(cache.consistent());
  // A window page that is computed again is dropped if the node still has one; otherwise, it is kept.
  CHECK_EQ(cache.insert_window(b, x), cache.window_of(b));
  CHECK_EQ(cache.pool().ref_count(cache.window_of(b)), 2);
  cache.release_window(cache.window_of(b));
  CHECK_EQ(cache.insert_window(a, y), y);
  windows.set(0, y, cache.pool());
  // The deepest page is evicted first, immediately after its window page.
  cache.release_all(pages, windows);
  CHECK_EQ(cache.available(), 20);
  CHECK(cache.consistent());
  for (int i = 0; i < 4; ++i) REQUIRE(cache.allocate() != kNoPage);
  CHECK_EQ(cache.find(1, b, page_of(3)), c);
  CHECK_EQ(cache.window_of(c), kNoPage);
  REQUIRE(cache.allocate() != kNoPage);
  CHECK_EQ(cache.find(1, b, page_of(3)), kNoPage);
  CHECK_EQ(cache.find(1, a, page_of(2)), b);
  CHECK(cache.window_of(b) != kNoPage);
  CHECK(cache.consistent());
}

TEST(prefix_cache_evicts_window_pages_first) {
  PrefixCache cache(8, 1, ~uint64_t{0}, {.full = 1, .windowed = 1, .window = 40});
  PageTable pages(4, 1), windows(4, 1);
  PageId parent = kNoPage;
  for (int i = 0; i < 4; ++i) {
    parent = cache.insert(1, parent, page_of(i), cache.allocate());
    pages.push_back(parent, cache.pool());
    windows.push_back(cache.insert_window(parent, cache.allocate_window()), cache.pool());
  }
  const std::vector<PageId> nodes(pages.begin(), pages.end());
  for (const size_t i : {size_t{2}, size_t{0}, size_t{1}}) {
    cache.release_window(windows[i], i == 1);
    windows.set(i, kNoPage, cache.pool());
  }
  CHECK(cache.consistent());
  for (const size_t gone : {size_t{1}, size_t{2}, size_t{0}}) {
    CHECK(cache.window_of(nodes[gone]) != kNoPage);
    CHECK(cache.allocate() != kNoPage);
    CHECK_EQ(cache.window_of(nodes[gone]), kNoPage);
  }
  CHECK_EQ(cache.allocate(), kNoPage);
  cache.release_all(pages, windows);
  CHECK(cache.consistent());
}

// If all layers have a sliding window, cache nodes take no pages from the pool.
TEST(prefix_cache_has_node_ids_for_nodes_without_pages) {
  const KvLayout layout{.full = 0, .windowed = 1, .window = 16};
  CHECK_EQ(PrefixCache::names_for(layout, 4, 160), 10 * 3);
  PrefixCache cache(4, 1, ~uint64_t{0}, layout, 6);
  PageTable pages(6, 1), windows(6, 1);
  PageId parent = kNoPage;
  for (int i = 0; i < 6; ++i) {
    REQUIRE(cache.has_room(1, 1));
    parent = cache.insert(1, parent, page_of(i), cache.allocate());
    pages.push_back(parent, cache.pool());
    windows.push_back(cache.insert_window(parent, cache.allocate_window()), cache.pool());
    if (i == 0) continue;
    const auto before = static_cast<size_t>(i) - 1;
    cache.release_window(windows[before]);
    windows.set(before, kNoPage, cache.pool());
  }
  CHECK_EQ(cache.available(), 3);
  CHECK(!cache.has_room(1, 0) && cache.has_room(0, 3));
  CHECK_EQ(cache.allocate(), kNoPage);
  CHECK_EQ(cache.window_of(pages[0]), kNoPage);  // There are four pages, and these were the least recently used.
  CHECK_EQ(cache.window_of(pages[1]), kNoPage);
  CHECK(cache.window_of(pages[2]) != kNoPage);
  cache.release_all(pages, windows);
  CHECK_EQ(cache.available(), 4);
  CHECK(cache.allocate() != kNoPage);
  CHECK(cache.consistent());
}

// The consistency check of an idle engine finds a page that no sequence owns (a leak) and a page with one reference too
// many (which may hold another sequence's data).
TEST(the_consistency_check_finds_leaked_and_overcounted_pages) {
  for (const KvLayout& layout :
       {KvLayout{.full = 1, .windowed = 1, .window = 16}, KvLayout{.full = 0, .windowed = 1, .window = 16}}) {
    PrefixCache cache(6, 1, ~uint64_t{0}, layout, 6);
    PageTable pages(4, 1), windows(4, 1), other(4, 1);
    const PageTable* const all[] = {&pages, &other};
    const PageTable* const all_windows[] = {&windows};
    const auto consistent = [&] { return cache.consistent(all, all_windows); };
    CHECK(consistent());
    const PageId page = cache.allocate();
    CHECK(!consistent());
    pages.push_back(page, cache.pool());
    CHECK(consistent());
    const PageId window = cache.allocate_window();
    CHECK(!consistent());
    windows.push_back(window, cache.pool());
    CHECK(consistent());
    other.push_back(page, cache.pool());
    CHECK(!consistent());
    cache.share(page);
    CHECK(consistent());
    windows.set(0, kNoPage, cache.pool());
    CHECK(!consistent());
  }
}

// Node IDs take memory too. There are as many as the window pages can use, up to a million, and always enough for one
// context.
TEST(prefix_cache_has_enough_node_ids_for_all_window_pages) {
  const KvLayout windows{.full = 0, .windowed = 2, .window = 33};
  CHECK_EQ(PrefixCache::names_for({}, 1000, 4096), 0);
  CHECK_EQ(PrefixCache::names_for(windows, 1000, 32), 2 * (1000 / 4 + 1));
  CHECK_EQ(PrefixCache::names_for(windows, 1000, 4096), 256 * (1000 / 6 + 1));
  CHECK_EQ(PrefixCache::names_for(windows, 1'000'000, 4096), 1 << 20);
  CHECK_EQ(PrefixCache::names_for(windows, 1'000'000, 1 << 25), 1 << 21);
}

TEST(prefix_cache_random) { random_sequences(~uint64_t{0}); }
TEST(prefix_cache_random_with_collisions) { random_sequences(1); }

}  // namespace
}  // namespace monolith
