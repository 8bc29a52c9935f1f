// Blocks of positions (BlockPool, BlockRows, AttentionParams::block): how a block becomes a row of latents, and attention to such
// rows beside a window of positions, or to the window alone with sinks.
//
// A number of a block is gathered by one thread, row after row, with the processor's bits. A row and head attend by one warp, in
// the order of what they see, the window first: no cut of a prompt and no company changes a bit.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// As Operations has them.
void pool_blocks(Runtime& runtime, const BlockPool& pool, const RowList& rows, const LayerSlots& state,
                 const float* values, const float* scores, float* out);

// `frequencies`: device, of BlockRows::rope; null: nothing rotates.
struct BlockStore {
  const RowList* rows;
  BlockRows blocks;
  const float* frequencies;
  float* values;  // [n_rows][head_dim]
  KvView cache;
  KvType type;
};
void store_blocks(Runtime& runtime, const BlockStore& store);

// `blocks`: the layer that keeps them; of layers without blocks it means nothing.
void attention_blocks(Runtime& runtime, const AttentionCall& call, const KvView& blocks, KvType type);

}  // namespace monolith::cuda
