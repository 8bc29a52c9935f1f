#include "engine/lora_adapters.h"

#include <algorithm>
#include <bit>
#include <random>

#include "base/half.h"
#include "check.h"

namespace monolith::testing {
namespace {

Bytes stored(const std::vector<float>& values, TensorType type) {
  Bytes bytes;
  if (type == TensorType::kF16)
    for (const float value : values) put(bytes, float_to_half(value));
  else if (type == TensorType::kBF16)
    for (const float value : values) put(bytes, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  else
    for (const float value : values) put(bytes, value);
  return bytes;
}

}  // namespace

RandomAdapter::RandomAdapter(const std::string& model, int of_rank, uint32_t seed) : rank(of_rank) {
  const std::string path = check::vectors_path(model);
  if (path.empty()) return;
  const auto file = GgufFile::open(path);
  REQUIRE(file);
  architecture = std::string((*file)->string("general.architecture")->value_or(""));
  n_heads = static_cast<int64_t>(stated(**file, architecture + ".attention.head_count"));
  n_kv_heads = static_cast<int64_t>(stated(**file, architecture + ".attention.head_count_kv"));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.04f);
  for (const GgufTensor& tensor : (*file)->tensors()) {
    const std::string name(tensor.name);
    constexpr std::string_view kKinds[] = {"attn_q",      "attn_k",   "attn_v", "attn_qkv",
                                           "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
    const bool is_adapted = std::ranges::any_of(
        kKinds, [&](std::string_view kind) { return name.ends_with("." + std::string(kind) + ".weight"); });
    if (!is_adapted) continue;
    Matrix& matrix = matrices[name];
    matrix.rows = tensor.shape[1];
    matrix.cols = tensor.shape[0];
    // Values with few significant bits, which F16, BF16 and F32 all represent exactly.
    const auto fill = [&](std::vector<float>& values, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        values.push_back(
            std::bit_cast<float>(std::bit_cast<uint32_t>(half_to_float(float_to_half(normal(random)))) & 0xffff0000u));
    };
    fill(matrix.a, matrix.cols * rank);
    fill(matrix.b, matrix.rows * rank);
  }
}

Bytes RandomAdapter::gguf() const {
  GgufBuilder builder;
  builder.string("general.architecture", architecture)
      .string("general.type", "adapter")
      .string("adapter.type", "lora")
      .scalar("adapter.lora.alpha", alpha);
  for (const auto& [name, matrix] : matrices) {
    const auto cols = static_cast<uint64_t>(matrix.cols), rows = static_cast<uint64_t>(matrix.rows);
    builder.tensor(name + ".lora_a", type, {cols, static_cast<uint64_t>(rank)}, stored(matrix.a, type));
    builder.tensor(name + ".lora_b", type, {static_cast<uint64_t>(rank), rows}, stored(matrix.b, type));
  }
  return builder.build();
}

void RandomAdapter::write_folder(const ScratchFolder& folder, const std::string& more) const {
  folder.write("adapter_config.json", "{\"peft_type\":\"LORA\",\"r\":" + std::to_string(rank) + ",\"lora_alpha\":" +
                                          std::to_string(alpha) + ",\"bias\":\"none\"" + more + "}");
  std::vector<SafetensorData> tensors;
  for (const auto& [name, matrix] : matrices) {
    std::string module = checkpoint_name(name);
    module = "base_model.model." + module.substr(0, module.size() - std::string(".weight").size());
    const auto text = [&](const std::vector<float>& values) {
      const Bytes bytes = stored(values, type);
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    std::string b = text(matrix.b);
    const bool is_q = name.find(".attn_q.") != std::string::npos;
    if (architecture == "llama" && (is_q || name.find(".attn_k.") != std::string::npos))
      b = with_halves(b, is_q ? n_heads : n_kv_heads, matrix.rows);
    const std::string type_name = type == TensorType::kF16 ? "F16" : type == TensorType::kBF16 ? "BF16" : "F32";
    tensors.push_back({module + ".lora_A.weight", type_name, {rank, matrix.cols}, text(matrix.a)});
    tensors.push_back({module + ".lora_B.weight", type_name, {matrix.rows, rank}, b});
  }
  folder.write("adapter_model.safetensors", safetensors_of(tensors));
}

std::string write_bytes(const ScratchFolder& folder, const std::string& name, const Bytes& bytes) {
  folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return folder.path() + "/" + name;
}

}  // namespace monolith::testing
