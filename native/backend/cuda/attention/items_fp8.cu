// Attention for single tokens over fp8 pages.
#include "backend/cuda/attention/items-inl.h"

namespace monolith::cuda {

void attention_items_fp8(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call) {
  items_of<KvType::kFp8>(runtime, scratch, call);
}

}  // namespace monolith::cuda
