// Builds a complete small model as a GGUF image. Tests may change any part before the image is written. Tests only.
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
    Bytes data = {};  // Tensor data in the file's format. Empty: generated.
  };

  static constexpr uint32_t kEmbedding = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFeedForward = 96;
  static constexpr uint32_t kVocab = 40, kLayers = 2;

  std::string architecture;
  std::map<std::string, Value> keys;  // Metadata keys as in the file, with the architecture prefix.
  std::map<std::string, Tensor> tensors;

  uint32_t layers;

  explicit TinyModel(std::string name = "llama", uint32_t n_layers = kLayers)
      : architecture(std::move(name)), layers(n_layers) {
    keys["general.architecture"] = architecture;
    key("context_length", 256u);
    key("embedding_length", kEmbedding);
    key("block_count", layers);
    key("feed_forward_length", kFeedForward);
    key("attention.head_count", kHeads);
    key("attention.head_count_kv", kKvHeads);
    key("attention.layer_norm_rms_epsilon", 1e-5f);
    matrix("token_embd.weight", kVocab, kEmbedding);
    matrix("output.weight", kVocab, kEmbedding);
    norm("output_norm.weight", kEmbedding);
    for (uint32_t layer = 0; layer < layers; ++layer) add_layer("blk." + std::to_string(layer) + ".");
  }

  void key(const std::string& name, Value value) { keys[architecture + "." + name] = std::move(value); }
  void matrix(const std::string& name, uint64_t rows, uint64_t cols) { tensors[name] = {{cols, rows}}; }
  void norm(const std::string& name, uint64_t count) { tensors[name] = {{count}, TensorType::kF32, 0.2f, 1.0f}; }
  void bias(const std::string& name, uint64_t count) { tensors[name] = {{count}}; }
  void experts(const std::string& name, uint64_t count, uint64_t rows, uint64_t cols) {
    tensors[name] = {{cols, rows, count}};
  }

  Bytes build() const {
    GgufBuilder builder;
    for (const auto& [name, value] : keys) {
      if (const auto* integer = std::get_if<uint32_t>(&value)) builder.scalar(name, *integer);
      if (const auto* number = std::get_if<float>(&value)) builder.scalar(name, *number);
      if (const auto* flag = std::get_if<bool>(&value)) builder.scalar(name, *flag);
      if (const auto* text = std::get_if<std::string>(&value)) builder.string(name, *text);
      if (const auto* list = std::get_if<std::vector<uint32_t>>(&value)) {
        builder.array<uint32_t>(name, std::span<const uint32_t>(*list));
      }
      if (const auto* numbers = std::get_if<std::vector<float>>(&value)) {
        builder.array<float>(name, std::span<const float>(*numbers));
      }
      if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
        const auto bytes = std::make_unique<bool[]>(flags->size());
        std::ranges::copy(*flags, bytes.get());
        builder.array<bool>(name, std::span<const bool>(bytes.get(), flags->size()));
      }
    }
    for (const auto& [name, tensor] : tensors) {
      const Bytes data = tensor.data.empty() ? values_of(name, tensor) : tensor.data;
      if (tensor.dims.size() == 1) builder.tensor(name, tensor.type, {tensor.dims[0]}, data);
      if (tensor.dims.size() == 2) builder.tensor(name, tensor.type, {tensor.dims[0], tensor.dims[1]}, data);
      if (tensor.dims.size() == 3)
        builder.tensor(name, tensor.type, {tensor.dims[0], tensor.dims[1], tensor.dims[2]}, data);
      if (tensor.dims.size() == 4)
        builder.tensor(name, tensor.type, {tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3]}, data);
    }
    return builder.build();
  }

  // Returns the values of a tensor that is F32 or has its own data.
  std::vector<float> floats(const std::string& name) const {
    const Tensor& tensor = tensors.at(name);
    const Bytes bytes = tensor.data.empty() ? values_of(name, tensor) : tensor.data;
    uint64_t count = 1;
    for (const uint64_t dim : tensor.dims) count *= dim;
    std::vector<float> values(count);
    dequantize(tensor.type, bytes.data(), static_cast<int64_t>(count), values.data());
    return values;
  }

 private:
  // Returns tensor data that depends only on the tensor's name. F32 tensors get random numbers. Other types get valid
  // blocks with small values, which is enough to test shapes and sizes.
  static Bytes values_of(const std::string& name, const Tensor& tensor) {
    uint64_t count = 1;
    for (const uint64_t dim : tensor.dims) count *= dim;
    uint64_t state = 88172645463325252u;
    for (const char c : name) state = state * 31 + static_cast<unsigned char>(c);
    Bytes bytes;
    if (tensor.type != TensorType::kF32) {
      const TensorTypeTraits& traits = traits_of(tensor.type);
      bytes.resize(count / static_cast<uint64_t>(traits.block_values) * static_cast<uint64_t>(traits.block_bytes));
      return bytes;
    }
    for (uint64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const float unit = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f;
      put(bytes, tensor.offset + tensor.scale * unit);
    }
    return bytes;
  }

 private:
  void add_layer(const std::string& block) {
    norm(block + "attn_norm.weight", kEmbedding);
    matrix(block + "attn_q.weight", kHeads * kHeadDim, kEmbedding);
    matrix(block + "attn_k.weight", kKvHeads * kHeadDim, kEmbedding);
    matrix(block + "attn_v.weight", kKvHeads * kHeadDim, kEmbedding);
    matrix(block + "attn_output.weight", kEmbedding, kHeads * kHeadDim);
    norm(block + "ffn_norm.weight", kEmbedding);
    matrix(block + "ffn_gate.weight", kFeedForward, kEmbedding);
    matrix(block + "ffn_up.weight", kFeedForward, kEmbedding);
    matrix(block + "ffn_down.weight", kEmbedding, kFeedForward);
    if (architecture == "qwen2") {
      bias(block + "attn_q.bias", kHeads * kHeadDim);
      bias(block + "attn_k.bias", kKvHeads * kHeadDim);
      bias(block + "attn_v.bias", kKvHeads * kHeadDim);
    }
    if (architecture == "qwen3") {
      norm(block + "attn_q_norm.weight", kHeadDim);
      norm(block + "attn_k_norm.weight", kHeadDim);
    }
  }
};

// A parsed image together with its bytes.
struct ParsedModel {
  explicit ParsedModel(const TinyModel& model) : bytes(model.build()) {
    auto parsed = GgufFile::parse(bytes);
    if (parsed) {
      file = std::move(*parsed);
    } else {
      error = parsed.error().message;
    }
  }
  Bytes bytes;
  std::unique_ptr<const GgufFile> file;  // Null if parsing failed; `error` then has the message.
  std::string error;
};

// Writes an image to a temporary file, which is deleted together with this object.
class ModelFile {
 public:
  explicit ModelFile(const TinyModel& model) {
    std::string name = (std::filesystem::temp_directory_path() / "monolith-model-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) return;
    close(file);
    path_ = std::move(name);
    const Bytes bytes = model.build();
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~ModelFile() {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  const std::string& path() const { return path_; }  // Empty if the file could not be written.

 private:
  std::string path_;
};

}  // namespace monolith::testing
