// Pooling: combines the hidden states of a text's tokens into one vector, and applies the dense layers that follow. A
// PoolingHead is read from a GGUF file. After that, it is immutable and may be used from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith {

enum class Pooling : uint8_t {
  kNone,  // The model only generates text.
  kMean,  // Mean of all hidden states.
  kCls,   // Hidden state of the first token.
  kLast,  // Hidden state of the last token.
  kRank,  // Scores that a classification head computes from the first, last or mean hidden state.
};

// The tokens of a text whose hidden states are pooled.
enum class PooledRows : uint8_t { kAll, kFirst, kLast };

// Reads `<architecture>.pooling_type`. Returns `fallback` if the key is missing or -1 (unspecified). Errors:
// kInvalidFile if the value is unknown.
Result<Pooling> read_pooling(const GgufFile& file, std::string_view architecture, Pooling fallback);

// Properties of a model that PoolingHead::load() needs.
struct PooledModel {
  Pooling pooling = Pooling::kNone;
  int n_embd = 0;
  float norm_eps = 0;
  bool is_decoder = false;
};

// The layers after the pooling: the dense layers of an embedding model, or the classification head of a reranker. Their
// weights are stored as F32 and multiplied on the calling thread, because they are applied only once per text, not once
// per token.
class PoolingHead {
 public:
  // Reads the layers from the file. Only kRank requires layers. Errors: kInvalidFile if they are missing or a tensor
  // has the wrong shape.
  static Result<PoolingHead> load(const GgufFile& file, const PooledModel& model);

  // Returns true if a tensor of this name belongs to a pooling head.
  static bool uses(std::string_view tensor);

  Pooling pooling() const { return pooling_; }
  PooledRows rows() const { return rows_; }
  // Number of values per text: the dimensions of the embedding, or the number of scores.
  int dimensions() const { return dimensions_; }
  int n_embd() const { return n_embd_; }
  const std::vector<std::string>& labels() const { return labels_; }  // Names of the scores; may be empty.
  size_t bytes() const;                                               // Size of the weights and biases.

  // Applies the layers to a pooled vector of n_embd values and returns the embedding or the scores.
  std::vector<float> apply(std::vector<float> pooled) const;

 private:
  struct Layer {
    int64_t rows = 0, cols = 0;
    std::vector<float> weight, bias;  // [rows][cols]; [rows] or empty.
    enum class Function : uint8_t { kNone, kTanh, kGelu } function = Function::kNone;
    std::vector<float> norm;  // Weight of the layer norm after `function`; empty = no norm.
  };

  Status add_layer(const GgufFile& file, std::string_view weight, std::string_view bias);

  Pooling pooling_ = Pooling::kNone;
  PooledRows rows_ = PooledRows::kAll;
  bool softmax_ = false;  // Scores are normalized with a softmax.
  float norm_eps_ = 0;
  int n_embd_ = 0, dimensions_ = 0;
  std::vector<Layer> layers_;
  std::vector<std::string> labels_;
};

// Pools the hidden states of one text, which are added in order of position. The result has the same bits regardless of
// how the text is divided among calls to add().
class PooledText {
 public:
  // Number of tokens added so far.
  int n_added() const { return n_added_; }
  // Adds the hidden states of consecutive tokens, [n_rows][n_embd], starting at position `first`, which must not exceed
  // n_added(). Skips positions that an earlier call has added. `length`: number of tokens of the text.
  void add(const PoolingHead& head, const float* rows, int first, int n_rows, int length);
  // Returns the embedding or scores of the text. Called after all tokens have been added.
  std::vector<float> finish(const PoolingHead& head) &&;

 private:
  std::vector<float> sum_;
  int n_added_ = 0;
};

}  // namespace monolith
