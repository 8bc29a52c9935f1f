// The paged KV cache, and the segments (runs of tokens) that refer to its pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace monolith {

// Number of tokens per KV page. 16 floats fill one 512-bit vector, and keys are stored with the position as the
// innermost dimension.
inline constexpr int kPageTokens = 16;

// Element type of keys and values. kQ8_0, kQ5_0, kQ4_0: integers of 8, 5 or 4 bits, with a binary16 scale for each 32
// dimensions of a position and head. kFp8: E4M3 (OCP 8-bit floating point), with a power-of-two scale for each position
// and head. The numeric values of the enumerators must not change, because they are part of the identity of pages on
// disk (engine/tiers/cache_identity.cc).
enum class KvType : uint8_t { kF16, kF32, kQ8_0, kFp8, kQ4_0, kQ5_0 };

enum class StateKind : uint8_t {
  kKeysAndValues,  // Keys and values of each position, for one or more heads.
  kLatents,        // One latent row per position, shared by all heads (MLA). The row begins with the value.
  kSlot,           // Recurrent state of a fixed size per sequence. No backend stores it in the KV cache yet.
  // The layer stores no entries, or reads another layer's entries. The other fields of LayerState are unused.
  kNothing,
};

// What one layer stores in the KV cache.
struct LayerState {
  StateKind kind = StateKind::kKeysAndValues;
  int n_kv_heads = 0;  // 1 for latents.
  // Sizes of one head. A latent row has key_dim elements, of which the first value_dim are the value.
  int key_dim = 0, value_dim = 0;
  // Index of the layer within a page. Layers of different page tables may have the same index, because their data is in
  // different pages.
  int slot = 0;
  int place = 0;  // Index among the layers of equal shape that share one slot of a page.
  // Number of rows per page. For latents of which one row represents a block of positions, there are fewer than
  // kPageTokens.
  int page_rows = kPageTokens;
  bool operator==(const LayerState&) const = default;
};

struct KvShape {
  std::vector<LayerState> layers;
  int64_t n_pages = 0;
  KvType type = KvType::kF16;
  // Sparse attention: maximum number of latent rows that are gathered for one token. 0 = no sparse attention.
  int most_chosen = 0;

  // Returns the shape of `n_layers` equal layers, whose data is adjacent in each page.
  static KvShape of_equal_layers(int n_layers, int n_kv_heads, int head_dim, int64_t n_pages, KvType type);
  int n_slots() const;
  int most_kv_heads() const;
};

// Kinds of KV cache entries that a backend can store in addition to keys and values of equal size.
struct KeptStates {
  bool other_values = false;  // Values that differ in size from the keys.
  bool latents = false;
  bool blocks = false;  // Latents that represent whole blocks of positions.
  bool places = false;  // Several layers in one slot of a page.
};

// Checks whether the backend can store caches of this shape. Error kUnsupported names a layer and its unsupported kind
// of state; error kInvalidArgument names a value that is not positive.
Status check_shape(const KvShape& shape, const KeptStates& keeps = {});

// Paged keys and values, or latents, of all layers. A page stores kPageTokens positions of one sequence. All pages have
// the same size in bytes, regardless of the layers to which they belong.
class KvCache {
 public:
  virtual ~KvCache() = default;
  // Returns an upper bound, in bytes, on the memory in use once pages 0 to `n_pages` - 1 have been written. Returns
  // `bytes` if the backend allocates all memory up front.
  virtual size_t bytes_of_first(int64_t /*n_pages*/) const { return bytes; }
  KvShape shape{};
  size_t bytes = 0;
  size_t page_bytes = 0;  // Bytes of one page in host memory (Operations::read_page()).
};

inline constexpr int32_t kNoSlot = -1;

// The position that RoPE uses to rotate a token's queries and keys. M-RoPE (Wang et al. 2024, arXiv:2409.12191) uses
// three numbers, which differ only within images. Otherwise all three are equal.
struct RopePosition {
  int32_t time = 0, height = 0, width = 0;
  bool operator==(const RopePosition&) const = default;
};

// A run of consecutive tokens of one sequence within a step.
struct Segment {
  int first_row;  // Row of the segment's first token in the step's activations.
  int n_tokens;
  int first_position;  // Absolute position of the segment's first token.
  // Page table in host memory: position p is on page pages[p / kPageTokens]. The table covers all positions that the
  // segment uses.
  const int32_t* pages;
  // Slots of recurrent state (recurrence.h), if the model has any. state_from: the slot that contains the state before
  // the first token, or kNoSlot for an all-zero state. state_to: the slot that receives the state after the last token.
  int32_t state_from = kNoSlot, state_to = kNoSlot;
  // RoPE position of each token, in host memory. Null for models without M-RoPE, and for segments in which all three
  // numbers equal the token's position.
  const RopePosition* rope_positions = nullptr;
  // Bidirectional attention: end (exclusive) of the positions to which every token of the segment attends. All of these
  // positions must have been stored in this step or earlier. 0 = causal attention. A sliding window limits only how far
  // back a token attends. Not supported by layers with sparse attention.
  int seen_end = 0;

  // Returns the end (exclusive) of the positions to which the token at `position` attends.
  int seen_by(int position) const { return position + 1 > seen_end ? position + 1 : seen_end; }
  RopePosition rope_position(int row) const {
    if (rope_positions != nullptr) return rope_positions[row];
    const int position = first_position + row;
    return {position, position, position};
  }
};

}  // namespace monolith
