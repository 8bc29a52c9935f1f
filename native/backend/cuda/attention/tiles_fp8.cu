// Prefill attention over fp8 pages.
#include "backend/cuda/attention/tiles-inl.h"

namespace monolith::cuda {

void attention_tiles_fp8(Runtime& runtime, const AttentionLaunch& call) { tiles_of<KvType::kFp8>(runtime, call); }

}  // namespace monolith::cuda
