// The weights of one model in the backend's layout, and the one list of their names and shapes from
// which they are checked, planned and loaded.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/layers/eagle_weights.h"
#include "model/layers/guess_weights.h"
#include "model/layers/layer_weights.h"
#include "model/model.h"

namespace monolith {

struct Weights {
  std::unique_ptr<Matrix> embedding;
  std::unique_ptr<Matrix> output;  // null if tied: `embedding` serves both ends, one copy
  const float* output_bias = nullptr;
  NormWeights output_norm;
  PerLayerTables per_layer;
  StreamProjections streams;
  StreamMixWeights output_mix;
  std::vector<LayerWeights> layers;  // as HyperParams::layers
  std::vector<GuessWeights> guess;   // of each level
  EagleWeights eagle;
};

// Of each head's rows of a tensor some, the parts of all heads one below the other and each padded to a multiple of
// kExpertRowMultiple: as HeadProducts::weight has them.
struct HeadPart {
  int64_t n_heads = 0;  // 0: not such a part
  int64_t of_rows = 0;  // that each head has in the tensor
  int64_t first = 0, rows = 0;
  bool transposed = false;  // its columns become the rows, all as F32
};

// What the model needs of one tensor and where it goes: exactly one of `matrix`, `vector` and `numbers` is set.
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
  HeadPart heads = {};
  std::vector<int32_t>* numbers = nullptr;  // I32 or I64, on the host
  int32_t most = 0;                         // each of them is at least 0 and below this
  bool any_type = false;                    // of a vector: the file may have it quantized
  // The rows lie in so many runs of equal length, whose beginnings are `run_stride` rows apart.
  int64_t runs = 1, run_stride = 0;
  // if "x.scale" stands beside "x.weight": one for all of it, or one for each of its matrices
  const GgufTensor* scale = nullptr;
  // what `tensor` is then, if the backend does not have its type: see fit_types()
  std::shared_ptr<const GgufTensor> floats = {};

  // The type of its matrix once loaded: floats where the backend has no factors.
  TensorType kept_as(const Loading& backend) const {
    return heads.transposed || is_widened(backend) ? TensorType::kF32 : tensor->kept_as();
  }
  bool is_widened(const Loading& backend) const { return scale != nullptr && !backend.keeps_factors(); }
};

// Resizes weights.layers and lists every tensor `params` calls for, each found in `file` with the
// right shape. Errors name all missing, misshapen and surplus tensors (the first few of each kind):
// kInvalidFile, or kUnsupported if only surplus ones that would change the result.
Result<std::vector<WeightSlot>> weight_slots(const GgufFile& file, const HyperParams& params, Weights& weights);

// The same for the head that guesses (HyperParams::guess.eagle), of its own file.
Result<std::vector<WeightSlot>> eagle_slots(const GgufFile& head, const HyperParams& params, Weights& weights);

// A tensor that the network needs, from the file's metadata and from which optional tensors it carries: of those only
// name and shape are looked at. For tools that write models.
struct WantedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row length first
  bool is_vector;              // F32 in files
  int32_t numbers_below = 0;   // above 0: I32, each of them at least 0 and below this
};
Result<std::vector<WantedTensor>> wanted_tensors(const GgufFile& file);

// Takes floats of those matrices in F8_E4M3_128 whose backend does not have them. kUnsupported where a matrix is of another
// type that it does not have, or is to be kept in FP8 and it keeps none so.
Status fit_types(std::vector<WeightSlot>& slots, const Backend& backend);

// Bytes the loaded weights hold.
size_t weight_bytes(const std::vector<WeightSlot>& slots, const Loading& backend);
// The same as Loading::memory_of() counts them: one allocation each.
size_t weight_memory(const std::vector<WeightSlot>& slots, const Loading& backend);

// Fills every slot; adds what was really allocated to `allocated`. Gives the file's pages back as
// it goes.
Status load_weights(const GgufFile& file, std::vector<WeightSlot>& slots, Loading& backend,
                    const Model::Progress& progress, size_t& allocated);

// Loading::gather() of all matrices, for so long at most: bytes of them that lie in large pages.
size_t gather_weights(const std::vector<WeightSlot>& slots, Loading& backend, std::chrono::steady_clock::duration most);

}  // namespace monolith
