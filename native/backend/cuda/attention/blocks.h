// Compressed attention (BlockPool, BlockRows, AttentionParams::block): pools blocks of positions into rows of latents,
// and attends to these rows together with a sliding window of positions, or to the window alone with attention sinks.
//
// One thread accumulates each value of a block, row after row, with the same bits as on the CPU. One warp computes the
// attention of each pair of token and head in a fixed order, the window first. The bits therefore do not depend on how
// a prompt is split into chunks or on the rest of the batch.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Implements Operations::pool_blocks.
void pool_blocks(Runtime& runtime, const BlockPool& pool, const RowList& rows, const LayerSlots& state,
                 const float* values, const float* scores, float* out);

// `frequencies` contains the frequencies of BlockRows::rope in device memory; null means no rotation.
struct BlockStore {
  const RowList* rows;
  BlockRows blocks;
  const float* frequencies;
  float* values;  // Shape [n_rows][head_dim].
  KvView cache;
  KvType type;
};
void store_blocks(Runtime& runtime, const BlockStore& store);

// `blocks` is the cache of the layer that stores the compressed blocks. It is unused if the layer has no blocks.
void attention_blocks(Runtime& runtime, const AttentionLaunch& call, const KvView& blocks, KvType type);

}  // namespace monolith::cuda
