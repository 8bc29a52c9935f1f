// A tower's weights in the backend's layout, and the one list of their names and shapes, by which files are checked and
// loaded. Threads: the loading thread fills them; then they are read only.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith {

struct VisionParams;
class TowerOperations;

// An RMS norm, or a LayerNorm, whose bias is zeros where the file has none; without a weight there is none.
struct TowerNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;  // null: an RMS norm
  explicit operator bool() const { return weight != nullptr; }
};

// Between what a product's input and output are held.
struct TowerClamps {
  float in_low = -std::numeric_limits<float>::infinity(), in_high = std::numeric_limits<float>::infinity();
  float out_low = -std::numeric_limits<float>::infinity(), out_high = std::numeric_limits<float>::infinity();
  bool any = false;
};

struct TowerLinear {
  std::unique_ptr<Matrix> weight;
  const float* bias = nullptr;
  TowerClamps clamps;
  int64_t rows = 0, cols = 0;
  bool fixed16 = false;  // the weight is of TowerOperations::fixed16_matrix
  explicit operator bool() const { return rows > 0; }
};

struct TowerLayer {
  TowerNorm norm1, norm2;
  TowerLinear q, k, v, out, gate, up, down;
  const float *q_norm = nullptr, *k_norm = nullptr;       // RMS, of each head; then v's as well, without a weight
  const float *attn_post = nullptr, *ffn_post = nullptr;  // RMS, of the branch
  const float *scale1 = nullptr, *scale2 = nullptr;       // of the branch's columns
};

// What a part of the embeddings is computed by.
struct DeepstackPart {
  int layer = 0;
  TowerNorm norm;
  TowerLinear first, last;
};

struct TowerWeights {
  TowerLinear patches;  // [width][3 * patch * patch]
  const float* class_vector = nullptr;
  const float* positions = nullptr;  // rows of `width`
  TowerNorm pre, post;
  std::vector<TowerLayer> layers;
  std::vector<DeepstackPart> deepstack;
  // The projector, in the order in which a row of embeddings passes what there is: see TowerProjector.
  TowerNorm patch_norm;                                        // of each patch
  const float *minus_bias = nullptr, *column_scale = nullptr;  // of pooled patches
  TowerNorm merged_norm;                                       // of merged or pooled patches
  TowerLinear merger, first, last;
  const float* row_break = nullptr;  // [n_embd], between rows of embeddings, or behind each

  // Whether attention is computed in 16-bit integers too: as the keys' weights are.
  bool attends_in_fixed16() const { return !layers.empty() && layers[0].k.fixed16; }
};

// What becomes of weights of 16 bits.
struct SixteenBits {
  TowerOperations* integers = nullptr;  // they are multiplied as integers by these; null: as floats
  bool bf16_as_f32 = false;             // of floats, BF16 is kept as F32
};

// Whether `file` holds all tensors of the right shapes, and none that would change the result unread. Fills in what
// `params` have from tensors: n_embd, positions, deepstack, breaks_rows. Errors: VisionModel::load.
Status check_tower_tensors(const GgufFile& file, VisionParams& params);
// The shapes alone, of a file that was checked.
TowerWeights tower_shapes(const GgufFile& file, VisionParams& params, SixteenBits halves = {});
// Bytes that the backend will hold.
size_t tower_weight_bytes(const GgufFile& file, VisionParams params, const Loading& backend, SixteenBits halves);
Result<TowerWeights> load_tower_weights(const GgufFile& file, VisionParams params, Loading& backend,
                                        SixteenBits halves);

}  // namespace monolith
