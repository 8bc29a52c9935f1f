// Attention of prompts over pages of binary16.
#include "backend/cuda/attention/tiles-inl.h"

namespace monolith::cuda {

void attention_tiles_f16(Runtime& runtime, const AttentionCall& call) { tiles_of<KvType::kF16>(runtime, call); }

}  // namespace monolith::cuda
