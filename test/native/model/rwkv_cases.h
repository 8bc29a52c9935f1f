// Like architecture_cases.h, for RWKV, written from the published formulas (RWKV 6: arXiv:2404.05892, RWKV 7:
// arXiv:2503.14456). For tests only.
#pragma once

#include "model/recurrent_parts.h"

namespace monolith::testing {

// If `apart` is true, returns the case for an older file, in which each input of time mixing has its own tensor.
Case rwkv6(bool apart);
Case rwkv7();

}  // namespace monolith::testing
