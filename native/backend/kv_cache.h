// Keys and values in pages, and the runs of tokens that refer to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace monolith {

// Tokens per KV page. 16 floats fill one 512-bit vector: keys are stored position-innermost.
inline constexpr int kPageTokens = 16;

// kQ8_0: 8-bit numbers, each 32 dimensions of a position and head with a binary16 scale. kFp8: e4m3 (OCP 8-bit
// floating point), each position and head with a power of two.
enum class KvType : uint8_t { kF16, kF32, kQ8_0, kFp8 };

enum class StateKind : uint8_t {
  kKeysAndValues,  // of each position, for each of some heads
  kLatents,        // of each position one row for all heads, which begins with its value
  kSlot,           // of each sequence so much, however long it is: no backend keeps them yet
  kNothing,        // a layer without a memory, or one that reads another's: the rest of LayerState means nothing
};

// What one layer keeps.
struct LayerState {
  StateKind kind = StateKind::kKeysAndValues;
  int n_kv_heads = 0;  // of latents 1
  // of one head; a row of latents has key_dim numbers, its first value_dim are the value
  int key_dim = 0, value_dim = 0;
  int slot = 0;   // which of a page's layers it is: those of different page tables may be the same, in other pages
  int place = 0;  // of layers of one shape that share a slot of a page: which one
  int page_rows = kPageTokens;  // of latents: rows of a page, fewer where one stands for a block of positions
  bool operator==(const LayerState&) const = default;
};

struct KvShape {
  std::vector<LayerState> layers;
  int64_t n_pages = 0;
  KvType type = KvType::kF16;
  int most_chosen = 0;  // rows of latents that one row attends to at most where they are gathered first; 0: none are

  // `n_layers` alike, side by side in each page.
  static KvShape of_equal_layers(int n_layers, int n_kv_heads, int head_dim, int64_t n_pages, KvType type);
  int n_slots() const;
  int most_kv_heads() const;
};

// What a backend keeps beside keys and values of as many dimensions.
struct KeptStates {
  bool other_values = false;  // values of other sizes than keys
  bool latents = false;
  bool blocks = false;  // latents of whole blocks of positions
  bool places = false;  // several layers in a slot
};

// Refuses shapes that a backend cannot keep: kUnsupported names the layer and its state, kInvalidArgument a number that
// is not positive.
Status check_shape(const KvShape& shape, const KeptStates& keeps = {});

// Paged keys and values, or latents, of all layers. A page holds kPageTokens positions of one sequence, and as many bytes whatever
// layers it is for.
class KvCache {
 public:
  virtual ~KvCache() = default;
  // Bytes of memory that are taken once pages 0 to `n_pages` - 1 have been written, at most. Where the backend takes all of it at
  // the start: `bytes`.
  virtual size_t bytes_of_first(int64_t /*n_pages*/) const { return bytes; }
  KvShape shape{};
  size_t bytes = 0;
};

inline constexpr int32_t kNoSlot = -1;

// What a row's queries and keys are turned by: one number, or of M-RoPE (Wang et al. 2024, arXiv:2409.12191) three,
// which differ within images alone.
struct RopePosition {
  int32_t time = 0, height = 0, width = 0;
  bool operator==(const RopePosition&) const = default;
};

// A run of consecutive tokens of one sequence within a step.
struct Segment {
  int first_row;  // row of its first token in the step's activations
  int n_tokens;
  int first_position;    // absolute position of that first token
  const int32_t* pages;  // host; page of position p is pages[p / kPageTokens]; covers all positions used
  // Slots of recurrent state (recurrence.h), where the model has any: of what lies before its first token, kNoSlot
  // standing for nothing, all zero; and where it is left behind its last token.
  int32_t state_from = kNoSlot, state_to = kNoSlot;
  // Host: what each of its rows is turned by; null: all three numbers are the row's position. Of models without M-RoPE null.
  const RopePosition* rope_positions = nullptr;
  // Rows that see one another: the end of the positions that each of them sees, all stored in this step or before. 0: each
  // sees up to its own. A window limits only how far back. Not of layers that choose what rows attend to.
  int seen_end = 0;

  // Behind the last position that its row at `position` sees.
  int seen_by(int position) const { return position + 1 > seen_end ? position + 1 : seen_end; }
  RopePosition rope_position(int row) const {
    if (rope_positions != nullptr) return rope_positions[row];
    const int position = first_position + row;
    return {position, position, position};
  }
};

}  // namespace monolith
