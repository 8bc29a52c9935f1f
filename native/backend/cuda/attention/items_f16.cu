// Attention for single tokens over binary16 pages.
#include "backend/cuda/attention/items-inl.h"

namespace monolith::cuda {

void attention_items_f16(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call) {
  items_of<KvType::kF16>(runtime, scratch, call);
}

}  // namespace monolith::cuda
