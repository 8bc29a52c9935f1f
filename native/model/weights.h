// A model's weights in the backend's layout, and the single list of their names and shapes that is used to check, plan
// and load them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/layers/drafter_weights.h"
#include "model/layers/layer_weights.h"
#include "model/model.h"

namespace monolith {

struct Weights {
  std::unique_ptr<Matrix> embedding;
  std::unique_ptr<Matrix> positions;  // Learned position embeddings, [n_positions, n_embd].
  NormWeights embedding_norm;
  // Null if the matrices are tied: `embedding` is then also the output matrix, with a single copy in memory.
  std::unique_ptr<Matrix> output;
  const float* output_bias = nullptr;
  NormWeights output_norm;
  PerLayerTables per_layer;
  StreamProjections streams;
  StreamMixWeights output_mix;
  std::vector<LayerWeights> layers;  // One entry per entry of HyperParams::layers.
  std::vector<DraftWeights> draft;   // One entry per MTP layer.
  EagleWeights eagle;
};

// A part of each head's rows in a tensor. The parts of all heads are concatenated; each is padded to a multiple of
// kExpertRowMultiple rows, as BatchedMatmul::weight requires.
struct HeadPart {
  int64_t n_heads = 0;  // Number of heads; 0 = the slot is not a head part.
  int64_t of_rows = 0;  // Rows per head in the tensor.
  int64_t first = 0, rows = 0;
  bool transposed = false;  // Whether each part is transposed and stored as F32.
};

// A tensor that the model needs, and the destination of its data. Exactly one of `matrix`, `vector` and `numbers` is
// set.
struct WeightSlot {
  std::string name;
  int64_t rows;  // 1 for vectors.
  int64_t cols;
  std::unique_ptr<Matrix>* matrix = nullptr;
  const float** vector = nullptr;
  // The shape of the whole tensor, row length first. The slot uses `rows` rows, or `cols` values of a vector, starting
  // at `first`. Several slots may share a tensor.
  std::array<int64_t, 3> shape{};
  int64_t first = 0;
  const GgufTensor* tensor = nullptr;  // The tensor found in the file.
  HeadPart heads = {};
  std::vector<int32_t>* numbers = nullptr;  // I32 or I64 values, stored in host memory.
  int32_t most = 0;                         // Every value must be at least 0 and below this limit.
  bool any_type = false;                    // For vectors: whether the file may store the tensor quantized.
  bool outer = false;                       // Whether the last number in `shape` is the tensor's fourth dimension.
  bool transposed = false;                  // For vectors: whether the tensor, a matrix, is stored by columns.
  // Number of equal runs that make up the rows. Runs start `run_stride` rows apart.
  int64_t runs = 1, run_stride = 0;
  // The tensor "x.scale" next to "x.weight", if the file has it: one scale for the whole tensor or one per stacked
  // matrix.
  const GgufTensor* scale = nullptr;
  // Used instead of `tensor` if the backend does not support the tensor's type; has a float type (see fit_types()).
  std::shared_ptr<const GgufTensor> floats = {};

  // The type of the loaded matrix. It is F32 if the matrix has a scale and the backend does not support scales.
  TensorType kept_as(const BackendMemory& backend) const {
    return heads.transposed || is_widened(backend) ? TensorType::kF32 : tensor->kept_as();
  }
  bool is_widened(const BackendMemory& backend) const {
    return scale != nullptr && !backend.supports(MemoryFeature::kRowFactors);
  }
};

// Resizes weights.layers and lists all tensors that `params` requires, each found in `file` with the right shape. The
// error names missing, wrongly shaped and unknown tensors (the first few of each kind): kInvalidFile, or kUnsupported
// if the only problem is unknown tensors that would change the result.
Result<std::vector<WeightSlot>> weight_slots(const GgufFile& file, const HyperParams& params, Weights& weights);

// Like weight_slots(), but for the tensors of an EAGLE-3 head (HyperParams::draft.eagle), which has its own file.
Result<std::vector<WeightSlot>> eagle_slots(const GgufFile& head, const HyperParams& params, Weights& weights);

// Looks up the tensors of `slots` in the file and checks them as weight_slots() does. For models whose slots are not
// listed by weight_slots(), such as text encoders. Returns an error if the file has any other tensor, unless
// `is_harmless` returns true for its name.
Result<std::vector<WeightSlot>> check_slots(const GgufFile& file, std::vector<WeightSlot> slots,
                                            const HyperParams& params,
                                            const std::function<bool(std::string_view)>& is_harmless);

// A tensor that a model needs, for tools that write model files. The list depends only on the file's metadata and on
// the names and shapes of its optional tensors.
struct WantedTensor {
  std::string name;
  std::vector<int64_t> shape;  // Row length first.
  bool is_vector;              // Files store vectors as F32.
  int32_t numbers_below = 0;   // If above 0: an I32 tensor whose values are at least 0 and below this limit.
};
Result<std::vector<WantedTensor>> wanted_tensors(const GgufFile& file);
std::vector<WantedTensor> wanted_tensors(const std::vector<WeightSlot>& slots);

// Replaces F8_E4M3_128 matrices with floats if the backend does not support that type. Returns kUnsupported if the
// backend does not support the type of another matrix, or does not support FP8 for a matrix that should be stored as
// FP8.
Status fit_types(std::vector<WeightSlot>& slots, const Backend& backend);

// Total bytes of the loaded weights.
size_t weight_bytes(const std::vector<WeightSlot>& slots, const BackendMemory& backend);
// Returns the total size of the slots as BackendMemory::memory_of() computes it, with one allocation per slot.
size_t weight_memory(const std::vector<WeightSlot>& slots, const BackendMemory& backend);

// Fills all slots and adds the bytes actually allocated to `allocated`. Releases the file's pages as it proceeds.
Status load_weights(const GgufFile& file, std::vector<WeightSlot>& slots, BackendMemory& backend,
                    const Model::Progress& progress, size_t& allocated);

// Calls BackendMemory::collapse_huge_pages() for all matrices until `stopped` returns true. Returns the number of their
// bytes that are in huge pages. The backend and the matrices may be in use during the call.
size_t collapse_huge_pages(std::span<const Matrix* const> matrices, BackendMemory& backend, const Stopped& stopped);

}  // namespace monolith
