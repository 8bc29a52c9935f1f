// The weights of one model in the backend's layout, and the one list of their names and shapes from
// which they are checked, planned and loaded.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/model.h"

namespace monolith {

// Vectors are memory of the backend; null where the architecture has none.
struct AttentionWeights {
  const float* norm = nullptr;
  std::unique_ptr<Matrix> q, k, v, output;
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* output_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* sinks = nullptr;                           // [n_heads]
  const float* post_norm = nullptr;
};

struct NetworkWeights {
  std::unique_ptr<Matrix> gate, up, down;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
};

struct ExpertWeights {
  std::unique_ptr<Matrix> router;                         // [n_experts, n_embd]
  const float* router_bias = nullptr;                     // [n_experts]
  const float* choice_bias = nullptr;                     // [n_experts]
  NetworkWeights all;                                     // see Mixture
  std::unique_ptr<Matrix> shared_gate;                    // [1, n_embd]
};

struct LayerWeights {
  AttentionWeights attention;
  const float* ffn_norm = nullptr;
  NetworkWeights network;    // that all rows pass; empty if only experts
  ExpertWeights experts;     // empty if there are none
  const float* ffn_post_norm = nullptr;
};

struct Weights {
  std::unique_ptr<Matrix> embedding;
  std::unique_ptr<Matrix> output;  // null if tied: `embedding` serves both ends, one copy
  const float* output_norm = nullptr;
  std::vector<LayerWeights> layers;
};

// What the model needs of one tensor and where it goes: exactly one of `matrix` and `vector` is
// set.
struct WeightSlot {
  std::string name;
  int64_t rows;  // 1 for vectors
  int64_t cols;
  std::unique_ptr<Matrix>* matrix = nullptr;
  const float** vector = nullptr;
  // The whole tensor's shape, row length first. The slot takes `rows` of its rows, or `cols` values
  // of a vector, from `first` on: several slots may share a tensor.
  std::array<int64_t, 3> shape{};
  int64_t first = 0;
  const GgufTensor* tensor = nullptr;  // found in the file
};

// Resizes weights.layers and lists every tensor `params` calls for, each found in `file` with the
// right shape. Errors name all missing, misshapen and surplus tensors (the first few of each kind):
// kInvalidFile, or kUnsupported if only surplus ones that would change the result.
Result<std::vector<WeightSlot>> weight_slots(const GgufFile& file, const HyperParams& params,
                                             Weights& weights);

// kUnsupported where a matrix is to be kept in FP8 and the backend keeps none so.
Status check_fp8(const std::vector<WeightSlot>& slots, const Backend& backend);

// Bytes the loaded weights hold.
size_t weight_bytes(const std::vector<WeightSlot>& slots, const Loading& backend);
// The same as Loading::memory_of() counts them: one allocation each.
size_t weight_memory(const std::vector<WeightSlot>& slots, const Loading& backend);

// Fills every slot; adds what was really allocated to `allocated`. Gives the file's pages back as
// it goes.
Status load_weights(const GgufFile& file, std::vector<WeightSlot>& slots, Loading& backend,
                    const Model::Progress& progress, size_t& allocated);

}  // namespace monolith
