// How a model's hidden states become the vector of a text, and the dense layers after the pooling. Read from a GGUF
// file; immutable afterwards and usable from any thread.
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
  kNone,  // The model does not compute vectors.
  kMean,  // The mean of all hidden states.
  kCls,   // The first hidden state.
  kLast,  // The last hidden state.
  kRank,  // Scores, computed from one hidden state by the classification head.
};

// Which hidden states PooledText needs of a text.
enum class PooledRows : uint8_t { kAll, kFirst, kLast };

// Reads `<architecture>.pooling_type`. Returns `fallback` if the file has no such key. Errors: kInvalidFile if the value
// is unknown.
Result<Pooling> read_pooling(const GgufFile& file, std::string_view architecture, Pooling fallback);

// The properties of a model on which its pooling depends.
struct PooledModel {
  Pooling pooling = Pooling::kNone;
  int n_embd = 0;
  float norm_eps = 0;
  bool is_decoder = false;
};

// The layers after the pooling: the dense layers of an embedding model, or the classification head of a reranker. The
// weights are kept as F32 and multiplied on the calling thread, because a text passes through them only once.
class PoolingHead {
 public:
  // Reads the layers that the pooling uses; none are required except for kRank.
  static Result<PoolingHead> load(const GgufFile& file, const PooledModel& model);

  // Whether the head uses this tensor.
  static bool uses(std::string_view tensor);

  Pooling pooling() const { return pooling_; }
  PooledRows rows() const { return rows_; }
  // Number of values in a text's result: the dimensions of its vector, or the number of scores.
  int dimensions() const { return dimensions_; }
  int n_embd() const { return n_embd_; }
  const std::vector<std::string>& labels() const { return labels_; }  // Names of the scores; empty if not stated.
  size_t bytes() const;                                               // Memory of the weights.

  // Applies the layers to a pooled vector of n_embd values.
  std::vector<float> apply(std::vector<float> pooled) const;

 private:
  struct Layer {
    int64_t rows = 0, cols = 0;
    std::vector<float> weight, bias;  // [rows][cols]; [rows] or empty.
    enum class Function : uint8_t { kNone, kTanh, kGelu } function = Function::kNone;
    std::vector<float> norm;  // Weight of a layer norm after the function; empty: none.
  };

  Status add_layer(const GgufFile& file, std::string_view weight, std::string_view bias);

  Pooling pooling_ = Pooling::kNone;
  PooledRows rows_ = PooledRows::kAll;
  bool softmax_ = false;  // Whether the scores pass through a softmax.
  float norm_eps_ = 0;
  int n_embd_ = 0, dimensions_ = 0;
  std::vector<Layer> layers_;
  std::vector<std::string> labels_;
};

// Accumulates the hidden states of one text in order of position. The result does not depend on how the text was split.
class PooledText {
 public:
  // Number of positions added so far.
  int n_added() const { return n_added_; }
  // Adds consecutive hidden states, [n_rows][n_embd], that start at position `first`. Positions that were added before
  // are skipped. `length`: number of positions of the text.
  void add(const PoolingHead& head, const float* rows, int first, int n_rows, int length);
  // Returns the result after all positions were added.
  std::vector<float> finish(const PoolingHead& head) &&;

 private:
  std::vector<float> sum_;
  int n_added_ = 0;
};

}  // namespace monolith
