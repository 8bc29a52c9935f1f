// The memory of the CPU backend's operations other than matmul: the paged KV cache, and scratch memory. The files in
// ops/ implement these operations as members of CpuBackend.
//
// All instruction sets run the same source over vectors of 16 floats (ops/rows-inl.h, ops/attention-inl.h,
// ops/attention_q8-inl.h, ops/attention_packed-inl.h, ops/attention_latents-inl.h, ops/attention_integers-inl.h). The
// instruction sets produce the same bits and differ only in how 16 lanes map to registers. The order of arithmetic for
// each result row depends only on that row; see the batch invariance contract in backend.h.
//
// Only CpuKvCache::create and OpsScratch::reserve allocate memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/encoder_operations.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

struct OpKernels;  // Row kernels of one instruction set; see ops/kernels.h.

// Keys and values of all layers. Each is [slot][kv_head][page], so one head's pages with consecutive IDs are
// consecutive in memory. If layers of different shapes share a slot, or a slot holds several layers, the layout is
// [slot][page][place][kv_head] instead, so that a page occupies the same memory for all of them. A page holds, as
// binary16 or float:
//   keys   [key_dim][kPageTokens]       position innermost: 16 positions fill one vector
//   values [kPageTokens][value_stride]  value_dim rounded up to 16, the rest zero
//
// For wide heads (kWideHead) with KvType::kF16, both are rows of 16-bit integers with steps, like latents:
// [kPageTokens][key_stride] and [kPageTokens][value_stride].
//
// With KvType::kQ8_0, a page holds signed bytes and binary16 scales, one for each position and kQ8Block dimensions,
// rounded up to a cache line:
//   keys   [key_dim / 4][kPageTokens][4]   plus 128, so unsigned; then scales [block][kPageTokens]
//   values [kPageTokens][value_stride]     then scales [block][kPageTokens]
//
// KvType::kQ4_0 and kQ5_0 have the blocks and scales of kQ8_0. Keys and values are rotated
// (OpKernels::rotate_hadamard), and the numbers are packed:
//   keys   [packed_pairs(key_dim)][kPageTokens][4]   the lower 4 bits of two quads: byte i of a position holds
//                                                    dimension 8 * pair + i in its low half and 8 * pair + 4 + i in
//                                                    its high half. The numbers have packed_zero() added, so they are
//                                                    unsigned
//          kQ5_0: [block][kPageTokens][4]            the top bits: of dimension 4 * quad + i of the block, bit
//                                                    key_top_bit(quad) of byte i
//   values [kPageTokens][block][kLanes]              the lower 4 bits of a block: byte i holds dimension i in its low
//                                                    half and 16 + i in its high half. kQ4_0: 8 is added
//          kQ5_0: [kPageTokens][block][4]            the sign bits, in the order of the dimensions
//
// Each byte belongs to one position, so threads may store positions of one page concurrently.
//
// A page of latents (StateKind::kLatents) has the layout of values, with rows of key_dim elements whose padding is
// zeroed when they are written. There are no separate keys. With KvType::kF16, latents are 16-bit integers in rows
// padded to kLatentPad, followed by their steps as floats, [block of kLatentBlock][row]. They are as accurate as
// binary16 (ops_latents_test.cc), and integer dot products take half as many instructions as float ones.
//
// The memory starts zeroed and is allocated when pages are first written. Pages are not cleared between uses.
class CpuKvCache final : public KvCache {
 public:
  static constexpr KeptStates kKeeps = {.other_values = true, .latents = true, .blocks = true, .places = true};
  // Number of bytes that create() allocates; SIZE_MAX if create() would reject the shape.
  static size_t bytes_for(const KvShape& shape);
  // Errors: kUnsupported, kInvalidArgument (shape), kOutOfMemory.
  static Result<std::unique_ptr<CpuKvCache>> create(const KvShape& shape);

  // Keys or values of one layer.
  struct Pages {
    std::byte* data = nullptr;                // Page 0 of head 0.
    size_t bytes = 0;                         // Bytes of one head in a page.
    size_t page_stride = 0, head_stride = 0;  // Bytes from one page, or head, to the next.
    std::byte* of_head(int kv_head) const { return data + static_cast<size_t>(kv_head) * head_stride; }
  };
  struct Layer {
    int n_kv_heads = 0, key_dim = 0, value_dim = 0;
    bool latents = false;
    bool whole_numbers = false;   // Rows of 16-bit integers with steps: latents, and keys and values of wide heads.
    int64_t key_stride = 0;       // Elements per position of keys stored as integers; otherwise 0.
    int64_t value_stride = 0;     // Elements per position.
    int page_rows = kPageTokens;  // Rows of latents per page.
    Pages keys, values;           // Latents use only `values`.
  };
  const Layer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  // Buffers for sparse attention (KvShape::most_chosen), used by one operation at a time: the selected latents of one
  // token, gathered into pages 0, 1, ... of a layer, a score for each position, and the order of the positions.
  struct Chosen {
    Layer gathered(const Layer& layer) const;
    std::byte* pages = nullptr;
    float* scores = nullptr;
    int32_t* order = nullptr;
    std::vector<int32_t> in_order;  // Page table 0, 1, ...
  };
  const Chosen& chosen() const { return chosen_; }
  size_t bytes_of_first(int64_t n_pages) const override;
  // The contiguous memory ranges that a page consists of. Copying a page copies each of them.
  std::span<const Pages> pieces() const { return pieces_; }

 private:
  CpuKvCache() = default;
  Mapping memory_;  // Keys of all slots, followed by values of all slots.
  std::vector<Layer> layers_;
  std::vector<Pages> pieces_;  // Separate parts for keys and values, in order of address.
  Chosen chosen_;
};

// RoPE factors of a step's rows for one set of parameters, shared by many layers. They are recomputed only when a row's
// position or the parameters change.
struct RopeTable {
  float* factors = nullptr;  // Shape [row][2 n_dims].
  static constexpr RopePosition kNotComputed{-1, -1, -1};
  std::vector<RopePosition> positions;  // Position of each row.
  std::vector<float> frequency;         // Parameters that the factors were computed for.
  std::vector<uint8_t> axes;            // Valid only if has_axes is set.
  bool has_axes = false;
  RopeStyle style = RopeStyle::kAdjacentPairs;
  int n_dims = 0;
  float magnitude = 0;

  bool is_for(const RopeParams& rope) const;
  // Returns the factors of a row: n_dims factors for the elements themselves, then n_dims for their partners in the
  // rotation.
  float* row(int64_t index) const { return factors + index * 2 * n_dims; }
};

// Number of RoPE parameter sets whose factors are kept. The layers of a model may alternate between several sets.
inline constexpr int kRopeTables = 4;  // Forward and inverse rotation, with two frequency bases.

// Working memory of the operations, allocated once for the largest step.
class OpsScratch {
 public:
  // Takes the same arguments as BackendMemory::reserve, plus the size of the ThreadPool. Errors: kInvalidArgument,
  // kOutOfMemory.
  Status reserve(int threads, int max_rows, int64_t max_cols, int max_context, int max_head_dim);
  // Number of bytes that reserve() allocates for these arguments, provided that it accepts them.
  static size_t bytes_for(int threads, int max_rows, int64_t max_cols, int max_context, int max_head_dim);

 private:
  friend class CpuBackend;
  struct Sizes;
  static Sizes sizes_for(int threads, int max_rows, int64_t max_cols, int max_context, int max_head_dim);
  float* tile(int thread) const { return tiles_ + thread * tile_floats_; }
  // Returns the table for these parameters, with the factors of all rows of the segments.
  const RopeTable& prepare_rope(const RopeParams& rope, std::span<const Segment> segments, ThreadPool& pool);

  Mapping memory_;
  int threads_ = 0, max_rows_ = 0, max_head_dim_ = 0;
  float* tiles_ = nullptr;  // Attention scratch memory per thread: queries, scores and states.
  int64_t tile_floats_ = 0;
  float* partials_ = nullptr;  // Attention that is split over positions: one state per (query, span).
  int64_t partial_floats_ = 0;
  std::vector<int64_t> first_piece_, first_partial_;  // One entry per segment.
  std::vector<int32_t> split_segments_;  // Indices of the segments whose attention is split into spans of positions.
  // Sparse attention: the leading parts of segments, whose tokens attend to all positions.
  std::vector<Segment> seeing_all_;
  RopeTable rope_[kRopeTables];
  int next_rope_ = 0;  // Table that is replaced next.
};

// Returns the kernels of one instruction set, which the processor must support (available_cpu_isas). With kFast,
// attention uses the tile unit.
const OpKernels& op_kernels(CpuIsa isa, Arithmetic arithmetic = Arithmetic::kProduction);

}  // namespace monolith
