// Information about the engine's LoRA adapters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/content_hash.h"

namespace monolith {

using AdapterId = uint32_t;  // Positive, and never used again by an engine.
inline constexpr AdapterId kNoAdapter = 0;

inline constexpr size_t kMaxAdapters = 64;  // Per engine, including those being unloaded.
inline constexpr size_t kMaxAdapterNameBytes = 256;
inline constexpr double kMaxAdapterScale = 1e6;  // In both directions.

struct AdapterOptions {
  std::string name;    // Only for messages and statistics.
  float scale = 1.0f;  // Factor of the adapter's effect, besides alpha / rank.
};

struct AdapterInfo {
  AdapterId id = kNoAdapter;
  std::string name;
  int rank = 0;  // The largest rank of its matrices.
  float alpha = 0.0f;
  float scale = 1.0f;
  size_t bytes = 0;                  // Memory of its matrices.
  std::vector<std::string> targets;  // Kinds of matrices that it changes, such as "attn_q".
  ContentHash hash;                  // Hash of its matrices and scale: part of the keys of KV pages.
};

struct AdapterStats {
  AdapterId id = kNoAdapter;
  std::string name;
  size_t bytes = 0;
  int running = 0, waiting = 0;  // Requests that have started and not ended, and requests in the queue.
  bool unloading = false;        // Freed when its last request has ended.
};

}  // namespace monolith
