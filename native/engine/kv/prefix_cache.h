// Prefix cache: a trie of full KV pages with one root per organization. A request reuses the longest prefix that an
// earlier request of its organization has computed. Owned by the engine thread; built on PagePool.
//
// A node of the trie stands for kPageTokens positions of one prefix. It has an id (NodeId), which is independent of
// page ids, and a location: where the keys and values of its positions are stored, for example in a page group (see
// PagePool), called a page below. A node is found through a hash chained over the position keys of its ancestors. A hit
// also requires the same parent node and the same kPageTokens keys (or, at the root, the same organization). A hash
// collision therefore costs one comparison but can never yield a wrong node.
//
//   organization ──► node 7 [k0 .. k15] ──► node 3 [k16 .. k31] ──► node 9
//                    page 40           │    page 12                 page 5
//                                      └──► node 4 [k16'.. k31']
//                                           page 41
//
// References: a sequence references its leading nodes, and the pages after them directly. A node with references holds
// one reference to its page, so the page of a node without references is cached in the pool.
//
// Eviction takes the least recently used node, which is always a leaf, so no search is needed:
// 1. A sequence that references a node also references all its ancestors (insert() replaces a duplicate by the node
//    that exists). So all descendants of an unreferenced node are unreferenced too.
// 2. release_all() releases the deepest node first, so a node enters the LRU list after its descendants do.
// 3. Therefore the oldest node in the list has no descendants, and all free and cached pages can be allocated.
//
// Every operation is O(1) per page, and nothing allocates after construction. The bookkeeping memory of a node is
// committed when the node is first used, so a large unused pool costs nothing.
//
// Sliding-window layers store their positions in separate pages, the window pages. A node has at most one window page
// group for its positions. A sequence that references a window page also references its node. A window page may be
// evicted before its node but never outlives it. If all layers have a sliding window, nodes have no other location.
//
// For models with recurrent state, a node may also have a snapshot of the state (state_slots.h), which is dropped when
// the node is evicted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/kv/kv_state.h"
#include "engine/kv/lru_list.h"
#include "engine/kv/node_id.h"
#include "engine/kv/page_pool.h"
#include "engine/kv/position_key.h"
#include "engine/kv/state_slots.h"
#include "model/kv_layout.h"

namespace monolith {

struct PrefixCacheOptions {
  int64_t n_pages;
  uint64_t seed;  // Keys the hash and the position keys, so that clients cannot construct hash collisions.
  uint64_t hash_mask = ~uint64_t{0};  // Lets tests force collisions.
  KvLayout layout = {};
  int64_t max_nodes = 0;  // 0 = one for each page group.
  int n_slots = 0;        // Slots of recurrent state.
};

// Where the keys and values of a node's positions are stored. The empty alternative means nowhere: all layers have a
// sliding window, or the window page was evicted.
struct DevicePages {
  PageId first;  // First page of the page group.
};
using NodeLocation = std::variant<std::monostate, DevicePages>;

class PrefixCache {
 public:
  explicit PrefixCache(const PrefixCacheOptions& options);
  // Value for PrefixCacheOptions::max_nodes: the number of nodes that sequences of up to `max_context` positions can
  // use with `n_pages` pages; 0 if each node has a page.
  static int64_t nodes_for(const KvLayout& layout, int64_t n_pages, int max_context);

  const KvLayout& layout() const { return layout_; }
  StateSlots& slots() { return slots_; }
  const StateSlots& slots() const { return slots_; }
  uint64_t seed() const { return seed_; }
  const PagePool& pool() const { return pool_; }
  // Number of pages that can still be allocated: free and cached pages.
  int64_t available() const { return pool_.free() + pool_.cached(); }
  // True if allocate() can succeed `n` more times and allocate_window() `n_window` more times.
  bool has_room(int64_t n, int64_t n_window) const {
    return layout_.full * n + layout_.windowed * n_window <= available();
  }

  // Allocates a page with one reference and undefined contents. Evicts the least recently used node if no page is free.
  // Returns kNoPage if all pages are referenced. Must not be used for models whose layers all have a sliding window.
  PageId allocate();
  // Add and remove a reference to a page that belongs to no node.
  void share(PageId page) { pool_.share(page); }
  void release(PageId page) { pool_.release(page); }
  // Like allocate(), share() and release(), but for the pages of sliding-window layers, including window pages that
  // belong to nodes.
  PageId allocate_window();
  void share_window(PageId page);
  // `first_to_leave`: the page becomes the first to be evicted instead of the last.
  void release_window(PageId page, bool first_to_leave = false);
  // Evicts all unreferenced nodes of `organization`, or of all organizations if it is nullopt. Takes time linear in the
  // number of unreferenced nodes.
  void clear(std::optional<uint64_t> organization);
  // Releases all nodes and pages of one sequence, deepest first, and clears the sequence's page tables.
  void release_all(KvState& kv);

  // Finds the child of `parent` (kNoNode: the root of `organization`) whose positions have these keys. Returns kNoNode
  // if there is none. Takes no reference.
  NodeId find(uint64_t organization, NodeId parent, const PageKeys& keys) const;
  uint64_t n_lookups() const { return n_lookups_; }  // Number of calls to find(). For tests.
  // Add and remove a reference to a node. A node without references stays in the cache until it is evicted.
  void share(NodeId node);
  void release(NodeId node);
  int32_t ref_count(NodeId node) const { return at(node).ref_count; }
  // Device page of the node; kNoPage if it has none.
  PageId page_of(NodeId node) const { return device_page(at(node).location); }
  // Window page for the node's positions; kNoPage if there is none or if it was evicted.
  PageId window_of(NodeId node) const { return device_page(at(node).window); }
  // Adds a node for the full, referenced `page` (kNoPage: all layers have a sliding window) as a child of the
  // referenced node `parent`. The caller's reference to the page becomes a reference to the returned node. If there
  // already is a node for these positions, it is returned and `page` is released. Returns kNoNode and changes nothing
  // if all nodes are referenced.
  NodeId insert(uint64_t organization, NodeId parent, const PageKeys& keys, PageId page);
  // Attaches `window` to `node`. The caller must hold a reference to the node. If the node already has a window page,
  // releases `window` and moves the caller's page reference to the existing one. Returns the node's window page.
  PageId insert_window(NodeId node, PageId window);

  // Returns a number that changes when the node is evicted, so that callers can detect that the id now stands for a
  // different node.
  uint32_t generation(NodeId node) const { return at(node).generation; }
  bool contains(NodeId node, uint32_t generation) const {
    return static_cast<size_t>(node) < nodes_.size() && in_use(node) && at(node).generation == generation;
  }
  // PageExporter's flags for the node: the parts that were exported in the export period `period`. The flags are lost
  // when the node is evicted.
  uint8_t exported(NodeId node, uint32_t period) const {
    return at(node).export_period == period ? at(node).exported : 0;
  }
  void set_exported(NodeId node, uint32_t period, uint8_t flags) {
    at(node).export_period = period;
    at(node).exported = flags;
  }

  // True if pool, trie, hash chains and LRU lists are consistent. Takes O(pages) time; for tests and for checks while
  // the engine is idle.
  bool consistent() const;
  // Also checks that the given sequences account for all references to nodes and pages.
  bool consistent(std::span<const KvState* const> sequences) const;

 private:
  static constexpr int32_t kUnused = -1;
  struct Node {
    uint64_t hash = 0;  // Hash of the whole prefix up to and including this node.
    uint64_t organization = 0;
    NodeId parent = kNoNode;
    NodeId next_in_bucket = kNoNode;
    int32_t n_children = 0;
    int32_t ref_count = kUnused;  // kUnused = not in the trie.
    uint32_t generation = 0, export_period = 0;
    uint8_t exported = 0;
    NodeLocation location, window;
  };

  static PageId device_page(const NodeLocation& location) {
    const auto* pages = std::get_if<DevicePages>(&location);
    return pages ? pages->first : kNoPage;
  }
  bool is_indexed_window(PageId page) const {
    return !owners_.empty() && owners_[static_cast<size_t>(page)] != kNoNode;
  }
  int64_t n_free_nodes() const {
    return max_nodes_ - static_cast<int64_t>(nodes_.size()) + static_cast<int64_t>(free_nodes_.size());
  }
  Node& at(NodeId node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(NodeId node) const { return nodes_[static_cast<size_t>(node)]; }
  bool in_use(NodeId node) const { return at(node).ref_count != kUnused; }
  uint64_t hash(uint64_t organization, NodeId parent, const PageKeys& keys) const;
  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  NodeId find_hashed(uint64_t hash, uint64_t organization, NodeId parent, const PageKeys& keys) const;
  NodeId take_node();
  bool make_free(int n_pages);
  void evict(NodeId node);
  void evict_window(PageId page);
  bool windows_consistent() const;

  const KvLayout layout_;
  PagePool pool_;
  const int64_t max_nodes_;
  std::vector<Node> nodes_;         // Indexed by node; grows up to max_nodes_.
  std::vector<PageKeys> keys_;      // Position keys of each node, indexed like nodes_.
  std::vector<NodeId> free_nodes_;  // Nodes of nodes_ that are not in the trie; the last one is reused first.
  std::vector<NodeId> buckets_;     // Heads of the hash chains; the size is a power of two.
  std::vector<NodeId> owners_;      // Node of each indexed window page; kNoNode for other pages.
  LruList<NodeId> lru_;             // Nodes without references.
  LruList<PageId> window_lru_;      // Window pages of nodes, without references.
  StateSlots slots_;
  uint64_t now_ = 0;  // Counter of releases, which serves as the time in the LRU lists.
  uint64_t seed_;
  uint64_t hash_mask_;
  mutable uint64_t n_lookups_ = 0;
};

}  // namespace monolith
