// A LoRA adapter for one loaded model: the low-rank factors for some of its weight matrices.
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

// A weight matrix of the model that adapters can change: `matrix` holds rows of the tensor `name`, run by run.
// Several matrices may hold parts of one tensor.
struct AdaptableWeight {
  std::string name;       // "blk.0.attn_q.weight"
  int64_t of_rows, cols;  // Shape of the tensor.
  const Matrix* matrix;
  int64_t first, runs, run_stride;  // See WeightSlot.
};

// The weights in `slots`, which have been loaded, that adapters can change: the matrices of attention and of dense
// feed-forward networks of the model's own layers.
std::vector<AdaptableWeight> adaptable_weights(const std::vector<WeightSlot>& slots, const HyperParams& params);

class Adapter {
 public:
  // Checks that the file fits the model, and copies its factors into the backend's format. Any thread. Errors name the
  // tensor: kInvalidArgument (made for another model), kUnsupported (a tensor of the model that adapters cannot
  // change), kInvalidFile, kOutOfMemory (more than `most_bytes`).
  static Result<std::unique_ptr<const Adapter>> load(const LoraFile& file, float scale, Model& model,
                                                     size_t most_bytes);

  // The factors for a weight matrix; null if the adapter does not change it.
  const AdapterMatrix* find(const Matrix* matrix) const {
    const auto at = factors_.find(matrix);
    return at == factors_.end() ? nullptr : at->second.get();
  }
  int rank() const { return rank_; }  // The largest rank.
  size_t bytes() const { return bytes_; }
  const std::vector<std::string>& targets() const { return targets_; }  // Kinds of matrices: "attn_q".
  const ContentHash& hash() const { return hash_; }                     // A hash of all factors and their scales.

 private:
  std::unordered_map<const Matrix*, std::unique_ptr<AdapterMatrix>> factors_;
  int rank_ = 0;
  size_t bytes_ = 0;
  std::vector<std::string> targets_;
  ContentHash hash_;
};

// A range of a step's rows that use an adapter.
struct AdapterRows {
  int first_row, n_rows;
  const Adapter* adapter;
};

}  // namespace monolith
