#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace monolith {
namespace {

// One round of multiply and xor-shift; the constant is 2^64 divided by the golden ratio, made odd.
uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 29);
}

}  // namespace

PrefixCache::PrefixCache(int64_t n_pages, uint64_t seed, uint64_t hash_mask)
    : pool_(n_pages),
      nodes_(static_cast<size_t>(n_pages)),
      tokens_(static_cast<size_t>(n_pages) * kPageTokens, kNoToken),
      buckets_(std::bit_ceil(static_cast<size_t>(n_pages) * 2), kNoPage),
      seed_(seed),
      hash_mask_(hash_mask) {}

uint64_t PrefixCache::hash(uint64_t organization, PageId parent, const TokenId* tokens) const {
  uint64_t state = parent == kNoPage ? mix(seed_, organization) : node(parent).hash;
  for (int i = 0; i < kPageTokens; i += 2) {
    const auto low = static_cast<uint32_t>(tokens[i]), high = static_cast<uint32_t>(tokens[i + 1]);
    state = mix(state, uint64_t{high} << 32 | low);
  }
  return mix(state, seed_) & hash_mask_;
}

PageId PrefixCache::find_hashed(uint64_t hash, uint64_t organization, PageId parent, const TokenId* tokens) const {
  for (PageId page = buckets_[bucket(hash)]; page != kNoPage; page = node(page).next_in_bucket) {
    const Node& candidate = node(page);
    if (candidate.hash == hash && candidate.parent == parent && candidate.organization == organization &&
        std::equal(tokens, tokens + kPageTokens, tokens_of(page))) {
      return page;
    }
  }
  return kNoPage;
}

PageId PrefixCache::find(uint64_t organization, PageId parent, const TokenId* tokens) const {
  return find_hashed(hash(organization, parent, tokens), organization, parent, tokens);
}

PageId PrefixCache::insert(uint64_t organization, PageId parent, const TokenId* tokens, PageId page) {
  assert(pool_.references(page) > 0);
  assert(parent == kNoPage || (pool_.indexed(parent) && pool_.references(parent) > 0));
  const uint64_t key = hash(organization, parent, tokens);
  const PageId existing = find_hashed(key, organization, parent, tokens);
  if (existing == page) return page;
  if (existing != kNoPage) {
    share(existing);
    release(page);
    return existing;
  }
  pool_.set_indexed(page);
  Node& added = node(page);
  added.hash = key;
  added.organization = organization;
  added.parent = parent;
  added.n_children = 0;
  added.next_in_bucket = buckets_[bucket(key)];
  buckets_[bucket(key)] = page;
  if (parent != kNoPage) ++node(parent).n_children;
  std::copy(tokens, tokens + kPageTokens, &tokens_[static_cast<size_t>(page) * kPageTokens]);
  return page;
}

PageId PrefixCache::allocate() {
  if (pool_.free() == 0) {
    if (oldest_ == kNoPage) return kNoPage;
    evict_oldest();
  }
  return pool_.allocate();
}

void PrefixCache::share(PageId page) {
  if (pool_.references(page) == 0) unlink(page);
  pool_.share(page);
}

void PrefixCache::release(PageId page) {
  if (pool_.release(page) == 0 && pool_.indexed(page)) append_newest(page);
}

void PrefixCache::release_all(std::vector<PageId>& pages) {
  for (size_t i = pages.size(); i-- > 0;)
    if (pages[i] != kNoPage) release(pages[i]);
  pages.clear();
}

void PrefixCache::append_newest(PageId page) {
  Node& added = node(page);
  added.older = newest_;
  added.newer = kNoPage;
  if (newest_ != kNoPage) node(newest_).newer = page; else oldest_ = page;
  newest_ = page;
}

void PrefixCache::unlink(PageId page) {
  Node& gone = node(page);
  if (gone.older != kNoPage) node(gone.older).newer = gone.newer; else oldest_ = gone.newer;
  if (gone.newer != kNoPage) node(gone.newer).older = gone.older; else newest_ = gone.older;
  gone.older = gone.newer = kNoPage;
}

void PrefixCache::evict_oldest() {
  const PageId page = oldest_;
  assert(node(page).n_children == 0);   // see the file's head: the oldest is a leaf
  unlink(page);
  PageId* link = &buckets_[bucket(node(page).hash)];
  while (*link != page) {
    assert(*link != kNoPage);
    link = &node(*link).next_in_bucket;
  }
  *link = node(page).next_in_bucket;
  if (node(page).parent != kNoPage) --node(node(page).parent).n_children;
  pool_.evict(page);
}

bool PrefixCache::consistent() const {
  if (!pool_.consistent()) return false;
  const int64_t size = pool_.size();
  std::vector<int32_t> children(static_cast<size_t>(size), 0);
  int64_t n_indexed = 0, n_hashed = 0, n_listed = 0;
  for (PageId page = 0; page < size; ++page) {
    if (!pool_.indexed(page)) continue;
    ++n_indexed;
    const PageId parent = node(page).parent;
    if (parent == kNoPage) continue;
    if (!pool_.indexed(parent) || node(parent).organization != node(page).organization) return false;
    if (pool_.references(page) > 0 && pool_.references(parent) == 0) return false;
    ++children[static_cast<size_t>(parent)];
  }
  for (PageId page = 0; page < size; ++page)
    if (pool_.indexed(page) && node(page).n_children != children[static_cast<size_t>(page)]) return false;
  for (size_t at = 0; at < buckets_.size(); ++at) {
    for (PageId page = buckets_[at]; page != kNoPage; page = node(page).next_in_bucket)
      if (!pool_.indexed(page) || bucket(node(page).hash) != at || ++n_hashed > size) return false;
  }
  PageId older = kNoPage;
  for (PageId page = oldest_; page != kNoPage; page = node(page).newer) {
    if (node(page).older != older || pool_.references(page) != 0 || ++n_listed > size) return false;
    older = page;
  }
  return older == newest_ && n_hashed == n_indexed && n_listed == pool_.cached();
}

}  // namespace monolith
