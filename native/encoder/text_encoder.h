// Runs a text encoder: computes the vectors of a batch of texts, one slice of rows after another, so that its thread
// can check for cancellations and other work in between. Used on the backend's thread.
//
//   x = embedding * scale + token type + learned position, normalized   [tokens of all texts][n_embd]
//   pre-norms:   x += attention(norm(x));  x += network(norm(x))        the outputs optionally normalized
//   post-norms:  x = norm(x + attention(x));  x = norm(x + network(x))
//   vector = head(pool(norm(x)))
//
// The texts of a batch are packed into consecutive rows. Every operation works on rows, except for attention, which
// works on one text, so a vector has the same bits in every batch.
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

// Sizes of the working memory.
struct TextEncoderSizes {
  int batch_rows = 0;  // Maximum number of rows of a batch, with each text rounded up to a whole page.
  int slice_rows = 0;  // Maximum number of rows per slice.
};

class TextEncoder {
 public:
  // Rows of a batch, unless a single text is longer. More rows would not be faster, and the first texts would wait
  // longer.
  static constexpr int kBatchRows = 512;

  // `max_context`: limit for the tokens per text; 0: only the file's. Errors: kUnsupported if the backend lacks an
  // operation, and those of TextEncoderParams::read() and load_weights().
  static Result<std::unique_ptr<TextEncoder>> load(const GgufFile& file, Backend& backend, int max_context,
                                                   const Model::Progress& progress);
  // The memory that load() allocates, computed without allocating it.
  static Result<MemoryPlan> plan(const GgufFile& file, Backend& backend, int max_context);

  const TextEncoderParams& params() const { return params_; }
  const PoolingHead& head() const { return head_; }
  const MemoryPlan& memory() const { return plan_; }
  Backend& backend() const { return backend_; }

  // Number of rows that a text takes in a batch.
  static int rows_of(size_t n_tokens);
  int batch_rows() const { return sizes_.batch_rows; }
  int slice_rows() const { return sizes_.slice_rows; }
  // Limits the number of rows per slice further. For tests. Called while there is no batch.
  void limit_slices(int rows) { sizes_.slice_rows = std::clamp(rows, 1, sizes_.slice_rows); }

  // Starts a batch and discards the previous one. The texts' rows must fit in batch_rows(), or there must be a single
  // text of at most TextEncoderParams::max_tokens tokens. The tokens must be in range and stay valid until the batch is
  // done.
  void begin(std::span<const std::span<const int32_t>> texts);
  // Computes the next slice. Returns true if the batch is done.
  bool advance();
  // Result of a text of a batch that is done.
  std::vector<float> take_result(size_t text) { return std::move(results_[text]); }

 private:
  enum class Phase : uint8_t { kEmbed, kKeys, kLayer, kDone };

  struct Text {
    std::span<const int32_t> tokens;
    int first_row = 0;
    int64_t keys_at = 0;  // Offset of its keys and values in `keys_`.
    int n_rows() const { return static_cast<int>(tokens.size()); }
  };
  // Consecutive rows of one text within a slice.
  struct Part {
    const Text& text;
    int first = 0;  // Position of the first row in the text.
    int n_rows = 0;
    int at = 0;  // Index of the first row in the slice.
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
  // Returns the current layer's bias for the first head and a distance of 0; null: none.
  const float* current_bias() const;
  const EncoderLayerParams& current_params() const { return params_.layers[static_cast<size_t>(layer_)]; }
  const float* norm_before(const NormWeights& norm, const float* x, int count);
  void add_branch(const float* branch, const NormWeights& branch_norm, int count, float* x);
  // Multiplies one input by several matrices, each with the arithmetic of its type.
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
  std::unordered_set<const Matrix*> fixed16_;  // The matrices from EncoderOperations::fixed16_matrix().
  PoolingHead head_;
  MemoryPlan plan_{};

  float* x_ = nullptr;     // [batch rows][n_embd], the residual stream.
  float* keys_ = nullptr;  // Keys and values of the current layer.
  // [slice rows] times the widths n_embd, q_dim, kv_dim, kv_dim, q_dim, n_ff, n_ff, n_experts.
  float *normed_ = nullptr, *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *attended_ = nullptr;
  float *branch_ = nullptr, *gate_ = nullptr, *up_ = nullptr, *router_ = nullptr;
  // RoPE factors, [max_tokens][head_dim], for layers without and with a window.
  struct Rotation {
    float *own = nullptr, *partner = nullptr;
  };
  Rotation rotation_, windowed_rotation_;
  // The tables from position_bias(), by layer. Layers without a table use the first one. Empty: there is no bias.
  std::vector<std::vector<float>> biases_;
  std::vector<int32_t> starts_, limits_;  // Of the rows of a part, for attention.
  std::vector<int32_t> tokens_, positions_, types_;

  std::vector<Text> texts_;
  std::vector<std::vector<float>> results_;
  int n_rows_ = 0;
  Phase phase_ = Phase::kDone;
  int layer_ = 0, next_row_ = 0;
};

}  // namespace monolith
