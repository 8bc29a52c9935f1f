// The paged KV cache in device memory. Layout: [slot][page][keys, values][kv head][token of the page][dimension], so
// attention reads one contiguous range per head and page. Values may have a different dimension than keys. A page of
// MLA latents has the keys of a single head, whose first dimensions are the values. One more page, number kSparePage,
// precedes page 0 and receives the writes of padding tokens. Pages of latents that each represent a block of positions
// have fewer rows. With 8-bit types these pages still have room for 16 rows.
//
// 8-bit pages have one byte per dimension. The bytes of a head's 16 tokens are followed by binary16 scales,
// [block][token]:
// - q8_0: a block is 32 dimensions (the last may be shorter); value = (byte - 128) * scale, with the same rounding as
//   CPU pages.
// - fp8: a block is the whole head; value = e4m3(byte) / 256 * scale. The scale is a power of two from 2^-14 to 2^15,
//   chosen so that the largest magnitude divided by the scale is between 0.875 and 1.75, the largest code. Magnitudes
//   above 57344 saturate.
//
// A NaN or an infinity makes the scale of its block NaN. Keys and values of 128 dimensions take 512 bytes per token in
// f16, 272 in q8_0 and 260 in fp8.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

inline constexpr int32_t kSparePage = -1;
inline constexpr int kMaxLatentDims = 1024;  // Limited by the registers of a warp.
// Maximum number of latent positions that sparse attention selects per token; limited by a block's shared memory.
inline constexpr int kMaxChosen = 16384;

// kv_block() returns the number of dimensions that share a scale, or 0 if there are no scales. kv_blocks() returns the
// number of such blocks per head.
constexpr int kv_block(KvType type, int head_dim) {
  return type == KvType::kQ8_0 ? 32 : type == KvType::kFp8 ? head_dim : 0;
}
constexpr int kv_blocks(KvType type, int head_dim) {
  const int block = kv_block(type, head_dim);
  return block > 0 ? (head_dim + block - 1) / block : 0;
}

// The description of one layer of the KV cache that is passed to kernels.
struct KvView {
  unsigned char* data;  // Page 0 of the layer: keys of all heads, followed by values.
  int64_t page_bytes;   // Stride between pages.
  int64_t head_bytes;   // Size of one head's keys in a page.
  int64_t values;  // Byte offset from a page's keys to its values; 0 for latents, whose values are part of the keys.
  int32_t n_kv_heads;
  int32_t head_dim;  // Key dimension.
  int32_t value_dim;
  int64_t value_bytes;              // Size of one head's values in a page.
  int32_t page_rows = kPageTokens;  // Rows per page; fewer for latents that represent blocks of positions.

  constexpr bool latents() const { return values == 0 && n_kv_heads > 0; }
};

// Scratch memory of the sparse-attention indexer, for the scores of all positions for `rows` tokens at a time.
struct ChosenScores {
  float* data = nullptr;  // Shape [rows][positions].
  int64_t positions = 0;  // Number of positions of all pages, an upper bound for any sequence.
  int rows = 0;
};

class Loader;

class CudaKvCache final : public KvCache {
 public:
  static constexpr KeptStates kKeeps = {.other_values = true, .latents = true, .blocks = true};
  // Implement BackendMemory::supports.
  static Status check(KvType type);
  static Status check(const KvShape& shape);
  static size_t bytes_for(const KvShape& shape);  // Returns SIZE_MAX if the size is out of range.
  static Result<std::unique_ptr<CudaKvCache>> create(Runtime& runtime, const KvShape& shape);
  CudaKvCache(const CudaKvCache&) = delete;
  CudaKvCache& operator=(const CudaKvCache&) = delete;
  ~CudaKvCache() override { runtime_.free(data_); }

  KvView view(int layer) const { return views_[static_cast<size_t>(layer)]; }
  ChosenScores chosen_scores() const { return scores_; }
  void copy_page(int32_t from, int32_t to);
  void read_page(Loader& loader, int32_t page, std::byte* host_to) const;
  void write_page(Loader& loader, int32_t page, const std::byte* host_from);

 private:
  explicit CudaKvCache(Runtime& runtime) : runtime_(runtime) {}
  // The storage of one page slot: its address in page 0, and its number of bytes per page. Layers of different shapes
  // may share a slot.
  struct Slot {
    unsigned char* page_0;
    int64_t page_bytes;
  };
  static std::vector<int64_t> slot_bytes(const KvShape& shape);
  static ChosenScores scores_for(const KvShape& shape);  // Returns the sizes with a null `data`.

  Runtime& runtime_;
  unsigned char* data_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<KvView> views_;  // Indexed by layer.
  ChosenScores scores_;
};

}  // namespace monolith::cuda
