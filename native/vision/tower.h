// The vision encoder as used by consecutive runs: weights, working memory, and the computation of their sizes. Used by
// the backend's thread.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/tower_operations.h"
#include "vision/tower_weights.h"
#include "vision/vision.h"
#include "vision/vision_params.h"

namespace monolith {

// Sizes of the working memory. Every operation processes at most chunk_rows rows at a time.
struct TowerSizes {
  int chunk_rows;  // A multiple of the number of patches per embedding.
  int most_rows;   // Maximum number of encoder rows: patches and the class token.
  int64_t hidden;  // Maximum width of a row between the layers of the projector or of a deepstack layer.
  // Maximum number of input values of a linear layer over a chunk of patches or merge blocks. Inputs are copied if they
  // are clamped.
  int64_t clamped;
  int64_t most_cols;  // Maximum input width of any linear layer.
  bool fixed16;       // Keys and values are 16-bit integers.

  TowerSizes(const VisionParams& params, const TowerWeights& weights);
  // Returns the working memory in floats. Without weights the result is a lower bound that lacks the values between the
  // projector's layers.
  int64_t floats(const VisionParams& params, const TowerOperations& operations) const;
  // Returns the memory for keys and values of all rows, in units of 4 bytes.
  int64_t key_floats(const VisionParams& params, const TowerOperations& operations) const;
};

// Working memory of one run.
struct TowerMemory {
  float* x = nullptr;                        // [most_rows][width], the residual stream.
  float *own = nullptr, *partner = nullptr;  // RowRotation, [most_rows][head_dim].
  float* patches = nullptr;                  // [chunk][patch values].
  // [chunk][width]. k and v are also used for the outputs of attention and the MLP.
  float *normed = nullptr, *q = nullptr, *k = nullptr, *v = nullptr;
  float* clamped = nullptr;                    // Size: TowerSizes::clamped.
  float *up = nullptr, *gate = nullptr;        // [chunk][n_ff].
  float *hidden = nullptr, *result = nullptr;  // chunk / merge^2 rows.
  TowerKeys keys{};
};

class Tower final : public VisionTower {
 public:
  Tower(std::shared_ptr<const VisionModel> model, Backend& backend, TowerWeights weights);
  Status reserve();
  std::unique_ptr<TowerRun> begin(const PreparedPiece& piece) override;

  const VisionParams& params() const { return model_->params(); }
  const TowerWeights& weights() const { return weights_; }
  const TowerSizes& sizes() const { return sizes_; }
  const TowerMemory& memory() const { return memory_; }
  Backend& backend() const { return backend_; }
  TowerOperations& operations() const { return *backend_.towers(); }

  // out = W x + bias, with input and output clamped if the file specifies clamps. x and out are contiguous.
  void apply(const TowerLinear& linear, float* x, int n_rows, float* out, bool add_to_out = false) const;
  // `out` may be `x`.
  void norm(const TowerNorm& norm, const float* x, float eps, int n_rows, int64_t dim, float* out) const;

 private:
  std::shared_ptr<const VisionModel> model_;
  Backend& backend_;
  TowerWeights weights_;
  TowerSizes sizes_;
  TowerMemory memory_;
};

}  // namespace monolith
