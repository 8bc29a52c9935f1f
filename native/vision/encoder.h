// State shared by consecutive runs of the vision encoder: its weights and its working memory, whose sizes are also
// computed here. Used on the backend's thread.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/encoder_operations.h"
#include "vision/encoder_weights.h"
#include "vision/vision.h"
#include "vision/vision_params.h"

namespace monolith {

// Sizes of the working memory. Each operation processes at most chunk_rows rows at a time.
struct EncoderSizes {
  int chunk_rows;  // A multiple of the number of patches per embedding.
  int most_rows;   // Maximum number of encoder rows: patches and the class token.
  int64_t hidden;  // Maximum width of a row between the layers of the projector or of a deepstack layer.
  // Size of the buffer for clamped inputs: the maximum number of input values that a linear layer reads for a chunk of
  // patches or merge blocks. The buffer is needed because the input of a linear layer is copied before it is clamped.
  int64_t clamped;
  int64_t most_cols;  // Maximum input width of any linear layer.
  bool fixed16;       // Keys and values are 16-bit integers.

  EncoderSizes(const VisionParams& params, const EncoderWeights& weights);
  // Returns the size of the working memory, in floats. Without weights, this is only a lower bound, because it excludes
  // the values between the projector's layers.
  int64_t floats(const VisionParams& params, const EncoderOperations& operations) const;
  // Returns the size of the keys and values of all rows, in units of 4 bytes.
  int64_t key_floats(const VisionParams& params, const EncoderOperations& operations) const;
};

// Working memory for one run.
struct EncoderMemory {
  float* x = nullptr;                        // [most_rows][width], the residual stream.
  float *own = nullptr, *partner = nullptr;  // RowRotation, [most_rows][head_dim].
  float* patches = nullptr;                  // [chunk][patch values].
  // Buffers of shape [chunk][width]. The buffers k and v also hold the outputs of attention and of the MLP.
  float *normed = nullptr, *q = nullptr, *k = nullptr, *v = nullptr;
  float* clamped = nullptr;                    // Size: EncoderSizes::clamped.
  float *up = nullptr, *gate = nullptr;        // [chunk][n_ff].
  float *hidden = nullptr, *result = nullptr;  // chunk / merge^2 rows.
  EncoderKeys keys{};
};

class Encoder final : public VisionEncoder {
 public:
  Encoder(std::shared_ptr<const VisionModel> model, Backend& backend, EncoderWeights weights);
  Status reserve();
  std::unique_ptr<EncoderRun> begin(const PreparedPiece& piece) override;

  const VisionParams& params() const { return model_->params(); }
  const EncoderWeights& weights() const { return weights_; }
  const EncoderSizes& sizes() const { return sizes_; }
  const EncoderMemory& memory() const { return memory_; }
  Backend& backend() const { return backend_; }
  EncoderOperations& operations() const { return *backend_.encoders(); }

  // Computes out = W x + bias. Input and output are clamped if the file specifies clamps. x and out are contiguous.
  void apply(const EncoderLinear& linear, float* x, int n_rows, float* out, bool add_to_out = false) const;
  // `out` may be `x`.
  void norm(const EncoderNorm& norm, const float* x, float eps, int n_rows, int64_t dim, float* out) const;

 private:
  std::shared_ptr<const VisionModel> model_;
  Backend& backend_;
  EncoderWeights weights_;
  EncoderSizes sizes_;
  EncoderMemory memory_;
};

}  // namespace monolith
