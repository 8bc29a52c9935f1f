// Rows that a tower has computed, by what of: an image that comes again with the next turn does not pass it again.
// Engine thread only. Bounded in bytes; what was used least recently goes first. Rows that requests still hold are shared
// with these and live on.
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

  // 0 keeps nothing.
  explicit EmbeddingCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if they are not there. Of this organization's alone: whether somebody else has sent an image cannot be told from
  // how long it takes.
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
  std::list<Entry> entries_;  // used last first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> places_;
};

}  // namespace monolith
