// Builds a complete small model as a GGUF image. Tests may change any part before the image is written. For tests only.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_builder.h"

namespace monolith::testing {

struct TinyModel {
  using Value =
      std::variant<uint32_t, float, bool, std::string, std::vector<uint32_t>, std::vector<bool>, std::vector<float>>;
  struct Tensor {
    std::vector<uint64_t> dims;  // One to four dimensions, row length first.
    TensorType type = TensorType::kF32;
    float scale = 0.2f;  // Weights are uniformly distributed in ±scale.
    float offset = 0;
    Bytes data = {};  // Tensor data in the file's format. Generated if empty.
  };

  static constexpr uint32_t kEmbedding = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFeedForward = 96;
  static constexpr uint32_t kVocab = 40, kLayers = 2;

  std::string architecture;
  std::map<std::string, Value> keys;  // Metadata keys as in the file, with the architecture prefix.
  std::map<std::string, Tensor> tensors;

  uint32_t layers;

  explicit TinyModel(std::string name = "llama", uint32_t n_layers = kLayers);

  void key(const std::string& name, Value value) { keys[architecture + "." + name] = std::move(value); }
  void matrix(const std::string& name, uint64_t rows, uint64_t cols) { tensors[name] = {{cols, rows}}; }
  void norm(const std::string& name, uint64_t count) { tensors[name] = {{count}, TensorType::kF32, 0.2f, 1.0f}; }
  void bias(const std::string& name, uint64_t count) { tensors[name] = {{count}}; }
  void experts(const std::string& name, uint64_t count, uint64_t rows, uint64_t cols);

  Bytes build() const;

  // Returns the values of a tensor. The tensor must be F32 or have data that the test has set.
  std::vector<float> floats(const std::string& name) const;

 private:
  // Returns tensor data that depends only on the tensor's name. F32 tensors get random numbers. Other types get valid
  // blocks with small values, which is enough to test shapes and sizes.
  static Bytes values_of(const std::string& name, const Tensor& tensor);

 private:
  void add_layer(const std::string& block);
};

// A parsed image and its bytes.
struct ParsedModel {
  explicit ParsedModel(const TinyModel& model);
  Bytes bytes;
  std::unique_ptr<const GgufFile> file;  // Null if parsing failed; `error` then has the message.
  std::string error;
};

// Writes an image to a temporary file. The file is deleted together with this object.
class ModelFile {
 public:
  explicit ModelFile(const TinyModel& model);
  ~ModelFile();
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  const std::string& path() const { return path_; }  // Empty if the file could not be written.

 private:
  std::string path_;
};

}  // namespace monolith::testing
