// The engine's LoRA adapters: ids, limits, load options and statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/content_hash.h"

namespace monolith {

using AdapterId = uint32_t;  // Positive. An engine never reuses an id.
inline constexpr AdapterId kNoAdapter = 0;

inline constexpr size_t kMaxAdapters = 64;  // Per engine, including adapters that are being unloaded.
inline constexpr size_t kMaxAdapterNameBytes = 256;
inline constexpr double kMaxAdapterScale = 1e6;  // Limit of the absolute value.

struct AdapterOptions {
  std::string name;    // Only for messages and statistics.
  float scale = 1.0f;  // Multiplies the adapter's effect, in addition to alpha / rank.
};

struct AdapterInfo {
  AdapterId id = kNoAdapter;
  std::string name;
  int rank = 0;  // The largest rank of all its factors.
  float alpha = 0.0f;
  float scale = 1.0f;
  size_t bytes = 0;                  // Memory used by the factors.
  std::vector<std::string> targets;  // Kinds of weight matrices that the adapter changes, such as "attn_q".
  ContentHash hash;                  // Hash of the factors and scale. Part of the keys of KV pages.
};

struct AdapterStats {
  AdapterId id = kNoAdapter;
  std::string name;
  size_t bytes = 0;
  int running = 0, waiting = 0;  // Requests that have started but not finished, and requests in the queue.
  bool unloading = false;        // unload_adapter() was called, but requests still use the adapter.
};

}  // namespace monolith
