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

// Allocates a page for the next positions and adds a node for it.
NodeId add(PrefixCache& cache, uint64_t organization, NodeId parent, int value) {
  const PageId page = cache.layout().full > 0 ? cache.allocate() : kNoPage;
  return cache.insert(organization, parent, page_of(value), page);
}

// Adds a node with a window page to a sequence, and returns the node.
NodeId extend(PrefixCache& cache, KvState& kv, int value) {
  const NodeId node = add(cache, 1, kv.last_node(), value);
  kv.nodes.push_back(node);
  if (cache.layout().full > 0) kv.pages.push_back(cache.page_of(node), cache.pool());
  kv.window_pages.push_back(cache.insert_window(node, cache.allocate_window()), cache.pool());
  return node;
}

void release_window(PrefixCache& cache, KvState& kv, size_t index, bool first_to_leave = false) {
  cache.release_window(kv.window_pages[index], first_to_leave);
  kv.window_pages.set(index, kNoPage, cache.pool());
}

void release_all(PrefixCache& cache, std::vector<NodeId>& nodes) {
  KvState kv;
  kv.nodes.swap(nodes);
  kv.pages = PageTable(kv.nodes.size(), 1);
  for (const NodeId node : kv.nodes) kv.pages.push_back(cache.page_of(node), cache.pool());
  cache.release_all(kv);
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

// A page that has never been used takes no physical memory, so pages that have been used before are allocated first.
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
  PrefixCache cache({.n_pages = 8, .seed = 1});
  const auto one = page_of(1), two = page_of(2);
  const NodeId a = add(cache, 7, kNoNode, 1), b = add(cache, 7, a, 2);
  CHECK(cache.find(7, kNoNode, one) == a);
  CHECK(cache.find(7, a, two) == b);
  CHECK(cache.find(8, kNoNode, one) == kNoNode);  // Another organization.
  CHECK(cache.find(7, kNoNode, two) == kNoNode);  // Another parent.
  CHECK(cache.find(7, b, two) == kNoNode);
  CHECK(cache.consistent());
}

// A node's ID does not correspond to its page: nodes and pages are reused independently of each other.
TEST(prefix_cache_nodes_have_ids_of_their_own) {
  PrefixCache cache({.n_pages = 4, .seed = 1});
  const PageId first = cache.allocate(), second = cache.allocate();
  const NodeId node = cache.insert(1, kNoNode, page_of(1), second);
  CHECK(static_cast<int32_t>(node) == 0 && second == 1);
  CHECK_EQ(cache.page_of(node), second);
  CHECK_EQ(cache.pool().ref_count(second), 1);
  cache.share(node);  // A second sequence: the node still has one reference to its page.
  CHECK_EQ(cache.ref_count(node), 2);
  CHECK_EQ(cache.pool().ref_count(second), 1);
  cache.release(node);
  CHECK_EQ(cache.pool().cached(), 0);
  cache.release(node);
  CHECK_EQ(cache.pool().cached(), 1);
  cache.share(node);
  CHECK_EQ(cache.pool().cached(), 0);
  cache.release(first);
  CHECK(cache.consistent());
}

TEST(prefix_cache_collisions_never_share) {
  PrefixCache cache({.n_pages = 64, .seed = 1, .hash_mask = 0});  // Every hash is 0.
  std::vector<NodeId> roots, children;
  for (int i = 0; i < 16; ++i) roots.push_back(add(cache, i % 2, kNoNode, i / 2));
  for (int i = 0; i < 16; ++i) children.push_back(add(cache, i % 2, roots[static_cast<size_t>(i)], 0));
  for (int i = 0; i < 16; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK(cache.find(i % 2, kNoNode, page_of(i / 2)) == roots[at]);
    CHECK(cache.find(i % 2, roots[at], page_of(0)) == children[at]);
    CHECK(cache.find(1 - i % 2, roots[at], page_of(0)) == kNoNode);
  }
  CHECK(cache.consistent());
}

TEST(prefix_cache_replaces_a_duplicate_by_the_cached_page) {
  PrefixCache cache({.n_pages = 4, .seed = 1});
  const NodeId first = add(cache, 1, kNoNode, 5);
  const PageId mine = cache.allocate();
  CHECK(cache.insert(1, kNoNode, page_of(5), mine) == first);
  CHECK_EQ(cache.ref_count(first), 2);
  CHECK_EQ(cache.pool().ref_count(cache.page_of(first)), 1);
  CHECK_EQ(cache.pool().ref_count(mine), 0);
  CHECK_EQ(cache.pool().free(), 3);
  CHECK(cache.consistent());
}

TEST(prefix_cache_evicts_leaves_least_recently_used_first) {
  PrefixCache cache({.n_pages = 4, .seed = 1});
  std::vector<NodeId> chain;
  std::vector<PageId> expected;
  NodeId parent = kNoNode;
  for (int i = 0; i < 3; ++i) {
    parent = add(cache, 1, parent, i);
    chain.push_back(parent);
    expected.insert(expected.begin(), cache.page_of(parent));  // Deepest page first.
  }
  const NodeId other = add(cache, 1, kNoNode, 9);
  expected.push_back(cache.page_of(other));
  release_all(cache, chain);
  cache.release(other);  // The newest node.
  CHECK_EQ(cache.available(), 4);
  for (const PageId page : expected) CHECK_EQ(cache.allocate(), page);
  CHECK_EQ(cache.allocate(), kNoPage);
  CHECK(cache.consistent());
}

// Prompts start and end at random. Lookups must never contradict a map of the nodes that should be cached, and it must
// always be possible to allocate every page.
void random_sequences(uint64_t hash_mask) {
  std::mt19937 random(42);
  PrefixCache cache({.n_pages = 24, .seed = 3, .hash_mask = hash_mask});
  std::map<std::pair<uint64_t, std::vector<PositionKey>>, NodeId> known;  // Entries may be evicted at any time.
  std::vector<std::vector<NodeId>> holders;
  for (int round = 0; round < 3000; ++round) {
    if (holders.size() >= 4 || (!holders.empty() && random() % 3 == 0)) {
      const size_t at = random() % holders.size();
      release_all(cache, holders[at]);
      holders.erase(holders.begin() + static_cast<ptrdiff_t>(at));
    } else {
      const uint64_t organization = random() % 2;
      std::vector<PositionKey> prefix;
      std::vector<NodeId> holder;
      NodeId parent = kNoNode;
      for (size_t n = 1 + random() % 5; n > 0; --n) {
        const auto tokens = page_of(static_cast<int>(random() % 2));
        prefix.insert(prefix.end(), tokens.begin(), tokens.end());
        const NodeId found = cache.find(organization, parent, tokens);
        if (found != kNoNode) {
          const auto expected = known.find({organization, prefix});
          REQUIRE(expected != known.end());
          REQUIRE(expected->second == found);
          cache.share(found);
          parent = found;
        } else {
          const PageId page = cache.allocate();
          if (page == kNoPage) break;
          parent = cache.insert(organization, parent, tokens, page);
          REQUIRE(parent != kNoNode && cache.page_of(parent) == page);
          std::erase_if(known, [&](const auto& entry) { return entry.second == parent; });
          known[{organization, prefix}] = parent;
        }
        holder.push_back(parent);
      }
      holders.push_back(holder);
    }
    REQUIRE(cache.consistent());
  }
  for (std::vector<NodeId>& holder : holders) release_all(cache, holder);
  CHECK_EQ(cache.available(), 24);
  for (int i = 0; i < 24; ++i) REQUIRE(cache.allocate() != kNoPage);
  CHECK(cache.consistent());
}

// Each full page takes two pool pages and each window page three. Both kinds are evicted to make room, starting with
// the least recently used.
TEST(prefix_cache_evicts_window_pages_separately_without_leaks) {
  const KvLayout layout{.full = 2, .windowed = 3, .window = 40};
  PrefixCache cache({.n_pages = 20, .seed = 1, .layout = layout});
  KvState kv;
  kv.allocate(4, layout);
  const NodeId a = extend(cache, kv, 1), b = extend(cache, kv, 2), c = extend(cache, kv, 3);
  CHECK_EQ(cache.available(), 5);
  CHECK(cache.has_room(1, 1) && cache.has_room(2, 0) && !cache.has_room(2, 1));
  // The window page of the first node is no longer needed, but stays in the cache until its space is needed.
  release_window(cache, kv, 0);
  CHECK_EQ(cache.available(), 8);
  CHECK(cache.window_of(a) != kNoPage);
  const PageId x = cache.allocate_window(), y = cache.allocate_window();
  REQUIRE(x != kNoPage && y != kNoPage);
  CHECK_EQ(cache.window_of(a), kNoPage);
  CHECK(cache.window_of(b) != kNoPage);
  CHECK_EQ(cache.allocate_window(), kNoPage);
  CHECK(cache.consistent());
  // If a window page is computed again, the new page is dropped if the node still has its old one, and kept otherwise.
  CHECK_EQ(cache.insert_window(b, x), cache.window_of(b));
  CHECK_EQ(cache.pool().ref_count(cache.window_of(b)), 2);
  cache.release_window(cache.window_of(b));
  CHECK_EQ(cache.insert_window(a, y), y);
  kv.window_pages.set(0, y, cache.pool());
  // The deepest node's window page is evicted first, and the node itself immediately after it.
  cache.release_all(kv);
  CHECK_EQ(cache.available(), 20);
  CHECK(cache.consistent());
  for (int i = 0; i < 4; ++i) REQUIRE(cache.allocate() != kNoPage);
  CHECK(cache.find(1, b, page_of(3)) == c);
  CHECK_EQ(cache.window_of(c), kNoPage);
  REQUIRE(cache.allocate() != kNoPage);
  CHECK(cache.find(1, b, page_of(3)) == kNoNode);
  CHECK(cache.find(1, a, page_of(2)) == b);
  CHECK(cache.window_of(b) != kNoPage);
  CHECK(cache.consistent());
}

TEST(prefix_cache_evicts_window_pages_first) {
  const KvLayout layout{.full = 1, .windowed = 1, .window = 40};
  PrefixCache cache({.n_pages = 8, .seed = 1, .layout = layout});
  KvState kv;
  kv.allocate(4, layout);
  for (int i = 0; i < 4; ++i) extend(cache, kv, i);
  for (const size_t i : {size_t{2}, size_t{0}, size_t{1}}) release_window(cache, kv, i, i == 1);
  CHECK(cache.consistent());
  for (const size_t gone : {size_t{1}, size_t{2}, size_t{0}}) {
    CHECK(cache.window_of(kv.nodes[gone]) != kNoPage);
    CHECK(cache.allocate() != kNoPage);
    CHECK_EQ(cache.window_of(kv.nodes[gone]), kNoPage);
  }
  CHECK_EQ(cache.allocate(), kNoPage);
  cache.release_all(kv);
  CHECK(cache.consistent());
}

// If all layers have a sliding window, nodes take no pages from the pool. If all nodes are in use, no further node is
// added.
TEST(prefix_cache_has_nodes_without_pages) {
  const KvLayout layout{.full = 0, .windowed = 1, .window = 16};
  CHECK_EQ(PrefixCache::nodes_for(layout, 4, 160), 10 * 3);
  PrefixCache cache({.n_pages = 4, .seed = 1, .layout = layout, .max_nodes = 6});
  KvState kv;
  kv.allocate(6, layout);
  for (int i = 0; i < 6; ++i) {
    REQUIRE(cache.has_room(0, 1));
    REQUIRE(extend(cache, kv, i) != kNoNode);
    CHECK_EQ(cache.page_of(kv.last_node()), kNoPage);
    if (i > 0) release_window(cache, kv, static_cast<size_t>(i) - 1);
  }
  CHECK_EQ(cache.available(), 3);
  CHECK(cache.insert(1, kv.last_node(), page_of(7), kNoPage) == kNoNode);
  CHECK_EQ(cache.window_of(kv.nodes[0]), kNoPage);  // There are four pages, and these were the least recently used.
  CHECK_EQ(cache.window_of(kv.nodes[1]), kNoPage);
  CHECK(cache.window_of(kv.nodes[2]) != kNoPage);
  const NodeId deepest = kv.last_node();
  cache.release_all(kv);
  CHECK_EQ(cache.available(), 4);
  // The node of the deepest position is reused first.
  CHECK(cache.insert(1, kNoNode, page_of(7), kNoPage) == deepest);
  CHECK(cache.consistent());
}

// The consistency check of an idle engine finds a page that no sequence owns (a leak). It also finds a page or node
// with one reference too many, which may hold another sequence's data.
TEST(the_consistency_check_finds_leaked_and_overcounted_pages) {
  const KvLayout layout{.full = 1, .windowed = 1, .window = 16};
  PrefixCache cache({.n_pages = 6, .seed = 1, .layout = layout});
  KvState one, other;
  one.allocate(4, layout);
  other.allocate(4, layout);
  const KvState* const all[] = {&one, &other};
  const auto consistent = [&] { return cache.consistent(all); };
  CHECK(consistent());
  const PageId page = cache.allocate();
  CHECK(!consistent());
  one.pages.push_back(page, cache.pool());
  CHECK(consistent());
  const PageId window = cache.allocate_window();
  CHECK(!consistent());
  one.window_pages.push_back(window, cache.pool());
  CHECK(consistent());
  other.pages.push_back(page, cache.pool());
  CHECK(!consistent());
  cache.share(page);
  CHECK(consistent());
  cache.release(page);
  other.pages.clear();
  const NodeId node = cache.insert(1, kNoNode, page_of(1), page);
  CHECK(!consistent());
  one.nodes.push_back(node);  // The node has the reference that the sequence had.
  CHECK(consistent());
  cache.share(node);
  CHECK(!consistent());
  other.nodes.push_back(node);
  other.pages.push_back(page, cache.pool());
  CHECK(consistent());
  one.window_pages.set(0, kNoPage, cache.pool());
  CHECK(!consistent());
}

TEST(the_consistency_check_finds_overcounted_nodes_without_pages) {
  const KvLayout layout{.full = 0, .windowed = 1, .window = 16};
  PrefixCache cache({.n_pages = 6, .seed = 1, .layout = layout});
  KvState kv;
  kv.allocate(4, layout);
  const KvState* const all[] = {&kv};
  extend(cache, kv, 1);
  CHECK(cache.consistent(all));
  cache.share(kv.nodes[0]);
  CHECK(!cache.consistent(all));
}

// Nodes also take memory. Their number is the number that the window pages can use, up to a million, and at least the
// number needed for one context.
TEST(prefix_cache_has_enough_nodes_for_all_window_pages) {
  const KvLayout windows{.full = 0, .windowed = 2, .window = 33};
  CHECK_EQ(PrefixCache::nodes_for({}, 1000, 4096), 0);
  CHECK_EQ(PrefixCache::nodes_for(windows, 1000, 32), 2 * (1000 / 4 + 1));
  CHECK_EQ(PrefixCache::nodes_for(windows, 1000, 4096), 256 * (1000 / 6 + 1));
  CHECK_EQ(PrefixCache::nodes_for(windows, 1'000'000, 4096), 1 << 20);
  CHECK_EQ(PrefixCache::nodes_for(windows, 1'000'000, 1 << 25), 1 << 21);
}

TEST(prefix_cache_random) { random_sequences(~uint64_t{0}); }
TEST(prefix_cache_random_with_collisions) { random_sequences(1); }

}  // namespace
}  // namespace monolith
