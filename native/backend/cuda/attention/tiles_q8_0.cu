// Prefill attention over q8_0 pages.
#include "backend/cuda/attention/tiles-inl.h"

namespace monolith::cuda {

void attention_tiles_q8_0(Runtime& runtime, const AttentionLaunch& call) { tiles_of<KvType::kQ8_0>(runtime, call); }

}  // namespace monolith::cuda
