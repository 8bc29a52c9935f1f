// The tower's parts, as one run after another uses them: weights, working memory, and the sums that their sizes come from.
// Threads: the backend's.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/tower_operations.h"
#include "vision/tower_weights.h"
#include "vision/vision.h"
#include "vision/vision_params.h"

namespace monolith {

// Sizes of working memory. Every operation takes at most chunk_rows rows at a time.
struct TowerSizes {
  int chunk_rows;  // a multiple of the patches that become one row of embeddings
  int most_rows;   // of the tower: patches and the class vector
  int64_t hidden;  // numbers of a row between the layers of the projector or of a deepstack part, at most
  // numbers of any product's inputs, rows of patches or of squares of them, which are copied where they are clamped
  int64_t clamped;
  int64_t most_cols;  // of any product's input
  bool fixed16;       // keys and values are 16-bit integers

  TowerSizes(const VisionParams& params, const TowerWeights& weights);
  // Without weights: not above what load() takes, but for the numbers between the projector's layers.
  int64_t floats(const VisionParams& params, const TowerOperations& operations) const;
  // Numbers of 4 bytes that keys and values of all rows take.
  int64_t key_floats(const VisionParams& params, const TowerOperations& operations) const;
};

// Working memory of one run.
struct TowerMemory {
  float* x = nullptr;                                                 // [most_rows][width], the residual stream
  float *own = nullptr, *partner = nullptr;                           // RowRotation, [most_rows][head_dim]
  float* patches = nullptr;                                           // [chunk][patch values]
  float *normed = nullptr, *q = nullptr, *k = nullptr, *v = nullptr;  // [chunk][width]; k and v serve the branches too
  float* clamped = nullptr;                                           // TowerSizes::clamped
  float *up = nullptr, *gate = nullptr;                               // [chunk][n_ff]
  float *hidden = nullptr, *result = nullptr;                         // of chunk / merge^2 rows
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

  // out = W x and bias, both clamped where the file says so. x and out dense.
  void apply(const TowerLinear& linear, float* x, int n_rows, float* out, bool add_to_out = false) const;
  // out may be x.
  void norm(const TowerNorm& norm, const float* x, float eps, int n_rows, int64_t dim, float* out) const;

 private:
  std::shared_ptr<const VisionModel> model_;
  Backend& backend_;
  TowerWeights weights_;
  TowerSizes sizes_;
  TowerMemory memory_;
};

}  // namespace monolith
