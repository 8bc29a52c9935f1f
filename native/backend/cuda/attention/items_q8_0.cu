// Attention for single tokens over q8_0 pages.
#include "backend/cuda/attention/items-inl.h"

namespace monolith::cuda {

void attention_items_q8_0(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call) {
  items_of<KvType::kQ8_0>(runtime, scratch, call);
}

}  // namespace monolith::cuda
