#include "engine/images/embedding_cache.h"

namespace monolith {
namespace {

size_t bytes_of(const EmbeddingCache::Rows& rows) { return rows->size() * sizeof(float); }

}  // namespace

// The low half of the content hash is already well distributed.
size_t EmbeddingCache::KeyHash::operator()(const Key& key) const {
  return static_cast<size_t>(key.hash.low ^ (key.organization * 0x9E3779B97F4A7C15u));
}

EmbeddingCache::Rows EmbeddingCache::find(uint64_t organization, const ContentHash& hash) {
  const auto at = places_.find({organization, hash});
  if (at == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->rows;
}

void EmbeddingCache::insert(uint64_t organization, const ContentHash& hash, Rows rows) {
  const size_t bytes = bytes_of(rows);
  if (bytes > max_bytes_ || find(organization, hash)) return;
  while (bytes_ + bytes > max_bytes_) drop_last();
  const auto place = places_.try_emplace({organization, hash}).first;
  try {
    entries_.push_front({{organization, hash}, std::move(rows)});
  } catch (...) {
    places_.erase(place);
    throw;
  }
  place->second = entries_.begin();
  bytes_ += bytes;
}

void EmbeddingCache::drop_last() {
  bytes_ -= bytes_of(entries_.back().rows);
  places_.erase(entries_.back().key);
  entries_.pop_back();
}

}  // namespace monolith
