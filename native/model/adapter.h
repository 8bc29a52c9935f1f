// A LoRA adapter for one loaded model: low-rank factors for some of the model's weight matrices.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/adapter.h"
#include "backend/matrix.h"
#include "base/content_hash.h"
#include "base/result.h"
#include "formats/gguf/lora_file.h"

namespace monolith {

class Model;
struct WeightSlot;
struct HyperParams;

// A weight matrix of the model that adapters can change. `matrix` contains some or all rows of the tensor `name`:
// `runs` ranges of equal length that start at rows first, first + run_stride, and so on. Several matrices may contain
// parts of the same tensor, for example if Q, K and V are fused in the file.
struct AdaptableWeight {
  std::string name;       // Such as "blk.0.attn_q.weight".
  int64_t of_rows, cols;  // Shape of the tensor.
  const Matrix* matrix;
  int64_t first, runs, run_stride;
};

// Returns the weights in `slots` that adapters can change: the matrices of attention and of dense feed-forward
// networks. Layers of drafters (MTP, EAGLE-3) are excluded. The weights must have been loaded.
std::vector<AdaptableWeight> adaptable_weights(const std::vector<WeightSlot>& slots, const HyperParams& params);

class Adapter {
 public:
  // Checks that the file fits the model, and copies the factors into the backend's format. `scale` multiplies the
  // effect of all factors. May be called from any thread. Errors about a tensor name the tensor. Errors:
  // kInvalidArgument (made for another model), kUnsupported (adapters cannot change this tensor, the rank is too large,
  // or the backend does not support adapters), kInvalidFile, kOutOfMemory (also if the factors need more than
  // `most_bytes`).
  static Result<std::unique_ptr<const Adapter>> load(const LoraFile& file, float scale, Model& model,
                                                     size_t most_bytes);

  // Returns the factors for a weight matrix; null if the adapter does not change the matrix.
  const AdapterMatrix* find(const Matrix* matrix) const {
    const auto at = factors_.find(matrix);
    return at == factors_.end() ? nullptr : at->second.get();
  }
  int rank() const { return rank_; }  // The largest rank of all factors.
  size_t bytes() const { return bytes_; }
  const std::vector<std::string>& targets() const { return targets_; }  // Kinds of weight matrices, such as "attn_q".
  const ContentHash& hash() const { return hash_; }                     // Hash of all targets, factors and scales.

 private:
  std::unordered_map<const Matrix*, std::unique_ptr<AdapterMatrix>> factors_;
  int rank_ = 0;
  size_t bytes_ = 0;
  std::vector<std::string> targets_;
  ContentHash hash_;
};

// A range of a step's tokens, all of which use the same adapter.
struct AdapterRows {
  int first_row, n_rows;
  const Adapter* adapter;
};

}  // namespace monolith
