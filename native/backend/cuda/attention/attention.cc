#include "backend/cuda/attention/attention.h"

#include <algorithm>

#include "backend/cuda/attention/latents.h"

namespace monolith::cuda {
namespace {

constexpr int kSmallestDim = 64;  // Smallest head dimension for which partial results are stored.

int64_t scratch_floats(int64_t max_cols) { return kMaxSlots * (max_cols + 2 * (max_cols / kSmallestDim)); }

}  // namespace

AttentionForm attention_form(KvType type, int head_dim, int64_t q_stride, int64_t out_stride) {
  constexpr int kDims[] = {64, 80, 96, 128, 256};
  const bool served = std::ranges::find(kDims, head_dim) != std::end(kDims);
  return type != KvType::kF32 && served && q_stride % 4 == 0 && out_stride % 4 == 0 ? AttentionForm::kWalk
                                                                                    : AttentionForm::kPlain;
}

bool walks(const AttentionLaunch& call, KvType type) {
  const KvView& cache = call.cache;
  return !cache.latents() && cache.head_dim == cache.value_dim &&
         attention_form(type, cache.head_dim, call.q_stride, call.out_stride) == AttentionForm::kWalk;
}

bool attention_input(InputForm form, KvType type, int head_dim, int n_heads, int64_t q_stride, int64_t out_stride) {
  if (attention_form(type, head_dim, q_stride, out_stride) != AttentionForm::kWalk) return false;
  // Each 8-bit block must lie within one head. Rows must end on a block boundary, because no kernel writes the padding
  // of a partial block.
  const int64_t dim = int64_t{n_heads} * head_dim;
  if (out_stride != dim) return false;
  if (form == InputForm::kInt8) return head_dim % 32 == 0 && dim % 128 == 0;
  return form == InputForm::kBf16 && dim % 64 == 0;
}

TileShare tile_share(int group, int warps) {
  TileShare share;
  share.heads = std::min(group, warps);
  share.warps_per_head = warps / share.heads;
  share.tokens = 16 * share.warps_per_head;
  share.blocks_per_tile = (kTileTokens + share.tokens - 1) / share.tokens;
  share.blocks_per_group = (group + share.heads - 1) / share.heads;
  return share;
}

size_t AttentionScratch::bytes_for(int64_t max_cols) {
  return static_cast<size_t>(scratch_floats(max_cols)) * sizeof(float);
}

Status AttentionScratch::reserve(int64_t max_cols) {
  if (max_cols <= max_cols_) return {};
  runtime_.free(values_);
  values_ = nullptr;
  max_cols_ = 0;
  auto memory = runtime_.allocate(bytes_for(max_cols));
  if (!memory) return memory.error();
  values_ = static_cast<float*>(*memory);
  max_cols_ = max_cols;
  return {};
}

void attention(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call, KvType type) {
  if (call.rows->n_rows == 0) return;
  if (call.cache.latents()) return attention_latents(runtime, scratch, call, type);
  if (!walks(call, type)) return attention_plain(runtime, call, type);
  const bool fp8 = type == KvType::kFp8, q8_0 = type == KvType::kQ8_0;
  const auto tiles = fp8 ? attention_tiles_fp8 : q8_0 ? attention_tiles_q8_0 : attention_tiles_f16;
  const auto items = fp8 ? attention_items_fp8 : q8_0 ? attention_items_q8_0 : attention_items_f16;
  if (call.rows->n_tiles > 0) tiles(runtime, call);
  if (call.rows->has_items) items(runtime, scratch, call);
}

}  // namespace monolith::cuda
