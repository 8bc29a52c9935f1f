// Prefill attention over binary16 pages.
#include "backend/cuda/attention/tiles-inl.h"

namespace monolith::cuda {

void attention_tiles_f16(Runtime& runtime, const AttentionLaunch& call) { tiles_of<KvType::kF16>(runtime, call); }

}  // namespace monolith::cuda
