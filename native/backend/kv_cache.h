// Keys and values in pages, and the runs of tokens that refer to them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

// Tokens per KV page. 16 floats fill one 512-bit vector: keys are stored position-innermost.
inline constexpr int kPageTokens = 16;

// kQ8_0: 8-bit numbers, each 32 dimensions of a position and head with a binary16 scale. kFp8: e4m3 (OCP 8-bit
// floating point), each position and head with a power of two.
enum class KvType : uint8_t { kF16, kF32, kQ8_0, kFp8 };

struct KvShape {
  int n_layers;
  int n_kv_heads;
  int head_dim;
  int64_t n_pages;
  KvType type;
};

// Paged keys and values of all layers. A page holds kPageTokens positions of one sequence.
class KvCache {
 public:
  virtual ~KvCache() = default;
  KvShape shape{};
  size_t bytes = 0;
};

// A run of consecutive tokens of one sequence within a step.
struct Segment {
  int first_row;            // row of its first token in the step's activations
  int n_tokens;
  int first_position;       // absolute position of that first token
  const int32_t* pages;     // host; page of position p is pages[p / kPageTokens]; covers all positions used
};

}  // namespace monolith
