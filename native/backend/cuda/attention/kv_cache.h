// Keys and values in device memory: [slot][page][keys, values][kv head][token of the page][dimension], so that what
// attention reads of one head and page is one run of memory. Values may have other dimensions than keys; a page of
// latents has keys of one head alone, whose first dimensions are the values. Before page 0 lies one more, number
// kSparePage, which padding writes to.
// Of latents that stand for blocks of positions a page has fewer rows, and of 8 bits still room for 16.
//
// 8-bit pages have one byte per dimension, and behind those of a head's 16 tokens binary16 scales, [block][token]:
//   q8_0  a block is 32 dimensions (the last may be shorter): (byte - 128) * scale, as the processor's pages round
//   fp8   a block is the head: e4m3(byte) / 256 * scale, the scale a power of two from 2^-14 to 2^15 with which the
//         largest magnitude comes to between 0.875 and 1.75, the largest of the code; beyond 57344 it is that
// A NaN or an infinity makes its block's scale NaN. 128 dimensions of keys and values take 512 bytes a token in f16,
// 272 in q8_0, 260 in fp8.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

inline constexpr int32_t kSparePage = -1;
inline constexpr int kMostLatentDims = 1024;  // that a warp has registers for
inline constexpr int kMostChosen = 16384;     // positions that rows choose among latents: a block's shared memory

// Dimensions that share a scale, and such blocks of a head; 0: there are no scales.
constexpr int kv_block(KvType type, int head_dim) {
  return type == KvType::kQ8_0 ? 32 : type == KvType::kFp8 ? head_dim : 0;
}
constexpr int kv_blocks(KvType type, int head_dim) {
  const int block = kv_block(type, head_dim);
  return block > 0 ? (head_dim + block - 1) / block : 0;
}

// As kernels see it.
struct KvView {
  unsigned char* data;  // page 0 of one layer: keys of all heads, then values
  int64_t page_bytes;   // from one page to the next
  int64_t head_bytes;   // a page's keys of one head
  int64_t values;       // bytes from a page's keys to its values; of latents 0: they are the keys
  int32_t n_kv_heads;
  int32_t head_dim;  // of keys
  int32_t value_dim;
  int64_t value_bytes;              // a page's values of one head
  int32_t page_rows = kPageTokens;  // of latents that stand for blocks of positions fewer

  constexpr bool latents() const { return values == 0 && n_kv_heads > 0; }
};

// Where rows that choose positions have the scores of all of them, so many rows at a time.
struct ChosenScores {
  float* data = nullptr;  // [rows][positions]
  int64_t positions = 0;  // of all pages: no sequence has more
  int rows = 0;
};

class CudaKvCache final : public KvCache {
 public:
  static constexpr KeptStates kKeeps = {.other_values = true, .latents = true, .blocks = true};
  // As Loading::can_keep_states.
  static Status check(const KvShape& shape);
  static size_t bytes_for(const KvShape& shape);  // SIZE_MAX if out of range
  static Result<std::unique_ptr<CudaKvCache>> create(Runtime& runtime, const KvShape& shape);
  CudaKvCache(const CudaKvCache&) = delete;
  CudaKvCache& operator=(const CudaKvCache&) = delete;
  ~CudaKvCache() override { runtime_.free(data_); }

  KvView view(int layer) const { return views_[static_cast<size_t>(layer)]; }
  ChosenScores chosen_scores() const { return scores_; }
  void copy_page(int32_t from, int32_t to);

 private:
  explicit CudaKvCache(Runtime& runtime) : runtime_(runtime) {}
  // Of all pages: where page 0 has it, and the bytes it has in each. Layers of different shapes may be in one.
  struct Slot {
    unsigned char* page_0;
    int64_t page_bytes;
  };
  static std::vector<int64_t> slot_bytes(const KvShape& shape);
  static ChosenScores scores_for(const KvShape& shape);  // without memory

  Runtime& runtime_;
  unsigned char* data_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<KvView> views_;  // by layer
  ChosenScores scores_;
};

}  // namespace monolith::cuda
