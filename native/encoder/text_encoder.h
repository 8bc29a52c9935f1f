// Runs a text encoder on a batch of texts. Every call to advance() computes one slice of the batch's rows, so that the
// engine thread can handle cancellations and other work between slices. Used only on the backend's thread.
//
//   x = embedding * scale + token type + learned position, normalized   [tokens of all texts][n_embd]
//   pre-norms:   x += attention(norm(x));  x += network(norm(x))        the outputs optionally normalized
//   post-norms:  x = norm(x + attention(x));  x = norm(x + network(x))
//   vector = head(pool(norm(x)))
//
// A row is one token. The texts of a batch are packed into consecutive rows. All operations work on each row
// independently, except for attention, which works within one text. A text's vector therefore has the same bits in
// every batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "backend/backend.h"
#include "backend/encoder_operations.h"
#include "encoder/encoder_params.h"
#include "encoder/text_encoder_weights.h"
#include "model/pooling.h"

namespace monolith {

// Sizes of the working memory that load() allocates.
struct TextEncoderSizes {
  int batch_rows = 0;  // Maximum sum of TextEncoder::rows_of() over the texts of a batch.
  int slice_rows = 0;  // Maximum number of rows per slice.
};

class TextEncoder {
 public:
  // Maximum number of rows of a batch, unless the batch is a single longer text. Larger batches would not be faster,
  // and short texts would wait longer for their batch to finish.
  static constexpr int kBatchRows = 512;

  // `max_context`: limit on the tokens per text, in addition to the file's limit; 0 = no additional limit. Errors:
  // kUnsupported if the backend lacks an operation, kOutOfMemory, and the errors of TextEncoderParams::read() and
  // load_weights().
  static Result<std::unique_ptr<TextEncoder>> load(const GgufFile& file, Backend& backend, int max_context,
                                                   const Model::Progress& progress);
  // Returns the memory that load() would allocate, without allocating it.
  static Result<MemoryPlan> plan(const GgufFile& file, Backend& backend, int max_context);

  const TextEncoderParams& params() const { return params_; }
  const PoolingHead& head() const { return head_; }
  const MemoryPlan& memory() const { return plan_; }
  Backend& backend() const { return backend_; }

  // Returns the number of batch rows that a text occupies: its number of tokens, rounded up to whole pages.
  static int rows_of(size_t n_tokens);
  int batch_rows() const { return sizes_.batch_rows; }
  int slice_rows() const { return sizes_.slice_rows; }
  // Reduces the maximum number of rows per slice. Only for tests, and only while no batch is running.
  void limit_slices(int rows) { sizes_.slice_rows = std::clamp(rows, 1, sizes_.slice_rows); }

  // Starts a batch and discards the previous one. The sum of rows_of() over the texts must not exceed batch_rows(), and
  // each text must have 1 to TextEncoderParams::max_tokens tokens. Token IDs must be in range. The token arrays must
  // stay valid until the batch is done.
  void begin(std::span<const std::span<const int32_t>> texts);
  // Computes the next slice of the batch. Returns true when the batch is complete.
  bool advance();
  // Moves out the vector or scores of one text. Called after advance() has returned true.
  std::vector<float> take_result(size_t text) { return std::move(results_[text]); }

 private:
  enum class Phase : uint8_t { kEmbed, kKeys, kLayer, kDone };

  struct Text {
    std::span<const int32_t> tokens;
    int first_row = 0;
    int64_t keys_at = 0;  // Offset of the text's keys and values in `keys_`, in floats.
    int n_rows() const { return static_cast<int>(tokens.size()); }
  };
  // The rows of one text that lie in the current slice.
  struct Part {
    const Text& text;
    int first = 0;  // Position in the text of the part's first row.
    int n_rows = 0;
    int at = 0;  // Index of the part's first row within the slice.
  };

  TextEncoder(TextEncoderParams params, Backend& backend) : params_(std::move(params)), backend_(backend) {}
  Status reserve();
  void compute(int first, int count);
  void embed(int first, int count);
  void store_keys(int first, int count);
  void run_layer(int first, int count);
  void attend(int first, int count, const float* input);
  void feed_forward(int count, const float* input, float* out);
  void pool();
  template <typename Work>
  void for_parts(int first, int count, Work&& work) const;

  const TextEncoderLayer& current() const { return weights_.layers[static_cast<size_t>(layer_)]; }
  // Returns a pointer to the current layer's position bias of head 0 at distance 0, or null without position bias.
  const float* current_bias() const;
  const EncoderLayerParams& current_params() const { return params_.layers[static_cast<size_t>(layer_)]; }
  const float* norm_before(const NormWeights& norm, const float* x, int count);
  void add_branch(const float* branch, const NormWeights& branch_norm, int count, float* x);
  // Multiplies `x` by several matrices, using 16-bit integers for the matrices in `fixed16_` and Operations::matmul()
  // for all others.
  void multiply(std::span<const MatmulTarget> targets, const float* x, int count);
  void project(const Matrix& weight, const float* bias, const float* x, int count, float* out);
  void normalize_qk(const NormWeights& norm, int n_heads, int count, float* x);
  void rotate(int first, int count, int n_heads, float* x);
  EncoderKeys keys_of(const Text& text) const;
  float* row(int index) const { return x_ + int64_t{index} * params_.base.n_embd; }
  int64_t key_floats_per_page() const;

  TextEncoderParams params_;
  Backend& backend_;
  TextEncoderSizes sizes_;
  TextEncoderWeights weights_;
  std::unordered_set<const Matrix*> fixed16_;  // Matrices created by EncoderOperations::fixed16_matrix().
  PoolingHead head_;
  MemoryPlan plan_{};

  float* x_ = nullptr;     // Residual stream, [batch rows][n_embd].
  float* keys_ = nullptr;  // Keys and values of all texts in the current layer.
  // Scratch memory for one slice, with shape [slice rows][width]. Widths: n_embd (normed_, branch_), q_dim (q_,
  // attended_), kv_dim (k_, v_), n_ff (gate_, up_), number of experts (router_).
  float *normed_ = nullptr, *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *attended_ = nullptr;
  float *branch_ = nullptr, *gate_ = nullptr, *up_ = nullptr, *router_ = nullptr;
  // RoPE factors with shape [max_tokens][head_dim], in the format of RowRotation. One table for layers without a
  // sliding window and one for layers with a window.
  struct Rotation {
    float *own = nullptr, *partner = nullptr;
  };
  Rotation rotation_, windowed_rotation_;
  // Tables from position_bias(), indexed by layer. Layers without their own table use the table of layer 0. Empty if
  // the model has no position bias.
  std::vector<std::vector<float>> biases_;
  std::vector<int32_t> starts_, limits_;  // RowAttention::starts and limits for the rows of a part.
  std::vector<int32_t> tokens_, positions_, types_;

  std::vector<Text> texts_;
  std::vector<std::vector<float>> results_;
  int n_rows_ = 0;
  Phase phase_ = Phase::kDone;
  int layer_ = 0, next_row_ = 0;
};

}  // namespace monolith
