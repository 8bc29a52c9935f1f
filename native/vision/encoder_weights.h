// The vision encoder's weights in the backend's layout, and the single list of their names and shapes that is used to
// check and load files. Filled by the thread that loads the model; read-only afterwards.
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
class EncoderOperations;

// An RMS norm or a layer norm. If the file has no bias for a layer norm, the bias is all zeros. A null weight means
// that there is no norm.
struct EncoderNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;  // Null if this is an RMS norm.
  explicit operator bool() const { return weight != nullptr; }
};

// Ranges for clamping a linear layer's input and output.
struct EncoderClamps {
  float in_low = -std::numeric_limits<float>::infinity(), in_high = std::numeric_limits<float>::infinity();
  float out_low = -std::numeric_limits<float>::infinity(), out_high = std::numeric_limits<float>::infinity();
  bool any = false;
};

struct EncoderLinear {
  std::unique_ptr<Matrix> weight;
  const float* bias = nullptr;
  EncoderClamps clamps;
  int64_t rows = 0, cols = 0;
  bool fixed16 = false;  // EncoderOperations::fixed16_matrix made the weight.
  explicit operator bool() const { return rows > 0; }
};

struct EncoderLayer {
  EncoderNorm norm1, norm2;
  EncoderLinear q, k, v, out, gate, up, down;
  // RMS norm weights for the queries and keys of each head. If present, values are also normalized, but without a
  // weight.
  const float *q_norm = nullptr, *k_norm = nullptr;
  const float *attn_post = nullptr, *ffn_post = nullptr;  // RMS norm weights for the outputs of attention and the MLP.
  // Per-column factors for the outputs of attention and the MLP (layer scale).
  const float *scale1 = nullptr, *scale2 = nullptr;
};

// Weights of a deepstack layer. Each such layer computes one additional feature per embedding.
struct DeepstackPart {
  int layer = 0;
  EncoderNorm norm;
  EncoderLinear first, last;
};

struct EncoderWeights {
  EncoderLinear patches;  // [width][3 * patch * patch].
  const float* class_vector = nullptr;
  const float* positions = nullptr;  // Rows of `width` values.
  EncoderNorm pre, post;
  std::vector<EncoderLayer> layers;
  std::vector<DeepstackPart> deepstack;
  // The projector's layers, in order of application (see PieceRun::project()). Absent layers are skipped.
  EncoderNorm patch_norm;                                      // Norm of each patch.
  const float *minus_bias = nullptr, *column_scale = nullptr;  // Applied to pooled patches.
  EncoderNorm merged_norm;                                     // Norm of merged or pooled patches.
  EncoderLinear merger, first, last;
  // [n_embd]: an embedding inserted between rows of embeddings (break) or after each row (newline).
  const float* row_break = nullptr;

  // Returns whether attention, too, is computed with 16-bit integers. This depends on the type of the key weights.
  bool attends_in_fixed16() const { return !layers.empty() && layers[0].k.fixed16; }
};

// How 16-bit weights are handled.
struct SixteenBits {
  // If set, weights are multiplied as 16-bit integers by these operations; if null, weights are multiplied as floats.
  EncoderOperations* integers = nullptr;
  bool bf16_as_f32 = false;  // Store BF16 weights that are multiplied as floats as F32.
};

// Checks that `file` has all tensors with the right shapes, and no other tensor that would change the result. Sets the
// members of `params` that are derived from tensors: n_embd, positions, deepstack, breaks_rows. Returns the same errors
// as VisionModel::load.
Status check_encoder_tensors(const GgufFile& file, VisionParams& params);
// Returns the weights' shapes without data, for a file that has already been checked.
EncoderWeights encoder_shapes(const GgufFile& file, VisionParams& params, SixteenBits halves = {});
// Returns the number of bytes that the weights will occupy in the backend's memory.
size_t encoder_weight_bytes(const GgufFile& file, VisionParams params, const BackendMemory& backend,
                            SixteenBits halves);
Result<EncoderWeights> load_encoder_weights(const GgufFile& file, VisionParams params, BackendMemory& backend,
                                            SixteenBits halves);

}  // namespace monolith
