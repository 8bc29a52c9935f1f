// Weights of the recurrent blocks: delta nets, Mamba, Mamba-2 and short convolutions. Vectors are in the
// backend's memory.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights of a delta-net block. Members for weights that this kind of delta net does not have are null.
struct DeltaNetWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> mixed;    // Queries, keys and values in one matrix.
  std::unique_ptr<Matrix> q, k, v;  // Separate matrices for queries, keys and values.
  // Output gate and decay, computed from the layer's input or from the outputs of the two low-rank matrices below.
  std::unique_ptr<Matrix> gate, decay;
  std::unique_ptr<Matrix> gate_low, decay_low;
  std::unique_ptr<Matrix> beta;
  const float* convolution = nullptr;    // [channels][taps], over all channels.
  const float* q_convolution = nullptr;  // Separate convolutions for queries, keys and values.
  const float* k_convolution = nullptr;
  const float* v_convolution = nullptr;
  const float* decay_bias = nullptr;
  const float* rate = nullptr;      // Shape [n_value_heads].
  const float* out_norm = nullptr;  // Shape [value_dim].
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(const LayerParams& layer, DeltaNetWeights& weights, WeightList& list);

// Weights of a Mamba-2 block.
struct Mamba2Weights {
  NormWeights norm;
  std::unique_ptr<Matrix> gate, mixed, step;  // Parts of one tensor: z; x, B and C; the time steps of the heads.
  const float* convolution = nullptr;         // Shape [channels][taps].
  const float* convolution_bias = nullptr;
  const float* rate = nullptr;  // Shape of this and the following two vectors: [n_heads].
  const float* step_bias = nullptr;
  const float* skip = nullptr;
  const float* out_norm = nullptr;  // [groups][width / groups]; null: no norm.
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(Mamba2Weights& weights, WeightList& list);

// Weights of a Mamba block.
struct MambaWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> x, gate;           // Parts of one tensor.
  std::unique_ptr<Matrix> low_step, groups;  // Parts of one tensor: the steps before their projection; B and C.
  std::unique_ptr<Matrix> step;
  const float* convolution = nullptr;  // Shape [width][taps].
  const float* convolution_bias = nullptr;
  const float* step_norm = nullptr;  // This and the next two: null without ProjectionNorm::kWeighted.
  const float* b_norm = nullptr;
  const float* c_norm = nullptr;
  const float* rate = nullptr;  // See StateSpace.
  const float* step_bias = nullptr;
  const float* skip = nullptr;
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(MambaWeights& weights, WeightList& list);

// Weights of a short convolution block.
struct ShortConvolutionWeights {
  NormWeights norm;
  // Three parts of one tensor: the gate on the convolution's input, the gate on its output, and the input itself.
  std::unique_ptr<Matrix> before, after, input;
  const float* convolution = nullptr;  // Shape [n_embd][taps].
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(ShortConvolutionWeights& weights, WeightList& list);

}  // namespace monolith
