#include "support/tiny_model.h"

namespace monolith::testing {

TinyModel::TinyModel(std::string name, uint32_t n_layers) : architecture(std::move(name)), layers(n_layers) {
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

void TinyModel::experts(const std::string& name, uint64_t count, uint64_t rows, uint64_t cols) {
  tensors[name] = {{cols, rows, count}};
}

Bytes TinyModel::build() const {
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

std::vector<float> TinyModel::floats(const std::string& name) const {
  const Tensor& tensor = tensors.at(name);
  const Bytes bytes = tensor.data.empty() ? values_of(name, tensor) : tensor.data;
  uint64_t count = 1;
  for (const uint64_t dim : tensor.dims) count *= dim;
  std::vector<float> values(count);
  dequantize(tensor.type, bytes.data(), static_cast<int64_t>(count), values.data());
  return values;
}

Bytes TinyModel::values_of(const std::string& name, const Tensor& tensor) {
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

void TinyModel::add_layer(const std::string& block) {
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

ParsedModel::ParsedModel(const TinyModel& model) : bytes(model.build()) {
  auto parsed = GgufFile::parse(bytes);
  if (parsed) {
    file = std::move(*parsed);
  } else {
    error = parsed.error().message;
  }
}

ModelFile::ModelFile(const TinyModel& model) {
  std::string name = (std::filesystem::temp_directory_path() / "monolith-model-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) return;
  close(file);
  path_ = std::move(name);
  const Bytes bytes = model.build();
  std::ofstream(path_, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

ModelFile::~ModelFile() {
  if (!path_.empty()) std::filesystem::remove(path_);
}

}  // namespace monolith::testing
