// The attention work lists (attention/work.h) as kernels read them. Device code.
#pragma once

#include "backend/cuda/attention/work.h"
#include "backend/cuda/device/language.h"

namespace monolith::cuda {

struct Lists {
  const AttentionHeader* header;
  const int32_t* base;  // Start of the page tables and work lists.

  MONOLITH_DEVICE const AttentionItem* items(const AttentionHeader& own) const {
    return reinterpret_cast<const AttentionItem*>(base + own.items);
  }
  MONOLITH_DEVICE const AttentionSplit* splits(const AttentionHeader& own) const {
    return reinterpret_cast<const AttentionSplit*>(base + own.splits);
  }
};

}  // namespace monolith::cuda
