// Attention of prompts over pages of q8_0.
#include "backend/cuda/attention/tiles-inl.h"

namespace monolith::cuda {

void attention_tiles_q8_0(Runtime& runtime, const AttentionCall& call) { tiles_of<KvType::kQ8_0>(runtime, call); }

}  // namespace monolith::cuda
