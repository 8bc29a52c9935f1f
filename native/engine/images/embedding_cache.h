// LRU cache of image embeddings, keyed by image content. An image that is sent again with the next turn of a
// conversation need not be encoded again. The size is limited in bytes. Rows are shared with requests, so they stay
// alive while a request holds them, even after eviction. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/content_hash.h"

namespace monolith {

class EmbeddingCache {
 public:
  using Rows = std::shared_ptr<const std::vector<float>>;

  // `max_bytes`: maximum size of the cached embeddings; 0 disables the cache.
  explicit EmbeddingCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns null if the image is not cached. Entries are kept separately per organization; otherwise, response times
  // would reveal whether another organization has sent the same image.
  Rows find(uint64_t organization, const ContentHash& hash);
  void insert(uint64_t organization, const ContentHash& hash, Rows rows);
  size_t bytes() const { return bytes_; }
  size_t size() const { return entries_.size(); }

 private:
  struct Key {
    uint64_t organization;
    ContentHash hash;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Entry {
    Key key;
    Rows rows;
  };
  void drop_last();

  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // Most recently used first.
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> places_;
};

}  // namespace monolith
