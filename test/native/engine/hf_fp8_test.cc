// Tests an FP8 checkpoint with one scale per 128 x 128 block. On every instruction set, the logits are bit-identical to
// logits computed from the same values in float32. A backend without FP8 support loads the values as floats; with FP8
// support, each weight takes little more than a byte.
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/isa.h"
#include "base/float8.h"
#include "check.h"
#include "formats/hf/model_file.h"
#include "model/model.h"
#include "backend/forwarding_backend.h"
#include "support/fed_sequence.h"
#include "support/hf_folder.h"

namespace monolith {
namespace {

using namespace testing;

constexpr int64_t kEmbd = 256, kFf = 384, kVocab = 300, kLayers = 2, kBlock = 128;

const std::string kConfig =
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("head_dim":64,"intermediate_size":384,"max_position_embeddings":512,"rms_norm_eps":1e-5,"tie_word_embeddings":false)";

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct Folder {
  ScratchFolder codes, floats;
  Folder() {
    std::vector<SafetensorData> as_codes, as_floats;
    uint32_t state = 9;
    const auto next = [&state] { return (state = state * 1664525 + 1013904223) >> 8; };
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
      std::vector<uint8_t> codes_of;
      std::vector<float> scales, values;
      const int64_t across = cols / kBlock;
      for (int64_t i = 0; i < (rows + kBlock - 1) / kBlock * across; ++i)
        scales.push_back(1e-4f * static_cast<float>(1 + next() % 9));
      for (int64_t i = 0; i < rows * cols; ++i) {
        codes_of.push_back(static_cast<uint8_t>((next() % 2) << 7 | next() % 127));
        values.push_back(e4m3_to_float(codes_of.back()) *
                         scales[static_cast<size_t>(i / cols / kBlock * across + i % cols / kBlock)]);
      }
      as_codes.push_back({name, "F8_E4M3", {rows, cols}, bytes_of(codes_of)});
      as_codes.push_back(
          {name + "_scale_inv", "F32", {static_cast<int64_t>(scales.size()) / across, across}, bytes_of(scales)});
      as_floats.push_back({name, "F32", {rows, cols}, bytes_of(values)});
    };
    const auto plain = [&](const std::string& name, std::vector<int64_t> shape, float scale, float offset) {
      std::vector<float> values(static_cast<size_t>(shape.size() == 1 ? shape[0] : shape[0] * shape[1]));
      for (float& value : values) value = offset + scale * (static_cast<float>(next() % 2001) / 1000 - 1);
      as_codes.push_back({name, "F32", shape, bytes_of(values)});
      as_floats.push_back(as_codes.back());
    };
    plain("model.embed_tokens.weight", {kVocab, kEmbd}, 0.5f, 0);
    plain("model.norm.weight", {kEmbd}, 0.2f, 1);
    plain("lm_head.weight", {kVocab, kEmbd}, 0.3f, 0);
    for (int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      plain(layer + "input_layernorm.weight", {kEmbd}, 0.2f, 1);
      plain(layer + "post_attention_layernorm.weight", {kEmbd}, 0.2f, 1);
      matrix(layer + "self_attn.q_proj.weight", 256, kEmbd);
      matrix(layer + "self_attn.k_proj.weight", 128, kEmbd);
      matrix(layer + "self_attn.v_proj.weight", 128, kEmbd);
      matrix(layer + "self_attn.o_proj.weight", kEmbd, 256);
      matrix(layer + "mlp.gate_proj.weight", kFf, kEmbd);
      matrix(layer + "mlp.up_proj.weight", kFf, kEmbd);
      matrix(layer + "mlp.down_proj.weight", kEmbd, kFf);
    }
    const char* const tokenizer = R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                                  R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})";
    codes.write("config.json",
                kConfig + R"(,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})");
    codes.write("tokenizer.json", tokenizer);
    codes.write("model.safetensors", safetensors_of(as_codes));
    floats.write("config.json", kConfig + "}");
    floats.write("tokenizer.json", tokenizer);
    floats.write("model.safetensors", safetensors_of(as_floats));
  }
};

class WithoutFp8 : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status supports(const Requirement& requirement) const override {
    const auto* const type = std::get_if<TensorType>(&requirement);
    return type && *type == TensorType::kF8Scaled ? unsupported(*type) : ForwardingBackend::supports(requirement);
  }
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override {
    if (source.type == TensorType::kF8Scaled) check::fail(__FILE__, __LINE__, "the backend was given FP8");
    return ForwardingBackend::matrix(source);
  }
};

struct Computed {
  std::vector<float> logits;
  size_t weight_bytes = 0;
};

Computed compute(const GgufFile& file, Backend& backend) {
  auto model = Model::load(file, backend, draft_limits(false), {});
  if (!model) {
    check::fail(__FILE__, __LINE__, model.error().message);
    return {};
  }
  Fed sequence(**model, 0, 0);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 45; ++i) tokens.push_back(i * 37 % static_cast<int>(kVocab));
  std::vector<float> logits = sequence.feed(tokens, 33);  // A prompt of several tiles, then steps of one token.
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> more = sequence.feed({7 * i}, 1);
    logits.insert(logits.end(), more.begin(), more.end());
  }
  return {logits, (*model)->memory().weight_bytes};
}

}  // namespace

TEST(fp8_folders_match_the_same_values_in_floats) {
  const Folder folder;
  const auto codes = open_model_file(folder.codes.path()), floats = open_model_file(folder.floats.path());
  REQUIRE(codes.ok() && floats.ok());
  CHECK((*codes)->tensor("blk.1.ffn_down.weight")->type == TensorType::kF8Scaled);
  constexpr size_t kCodes = kLayers * (2 * 256 * kEmbd + 2 * 128 * kEmbd + 3 * kFf * kEmbd);
  for (const CpuIsa isa : available_cpu_isas()) {
    auto backend = make_cpu_backend({.threads = 2, .isa = cpu_isa_name(isa)}),
         other = make_cpu_backend({.threads = 1, .isa = cpu_isa_name(isa)});
    REQUIRE(backend.ok() && other.ok());
    WithoutFp8 without(**other);
    const Computed want = compute(**floats, **backend), got = compute(**codes, **backend),
                   wide = compute(**codes, without);
    if (want.logits.empty() || got.logits != want.logits)
      check::fail(__FILE__, __LINE__, std::string(cpu_isa_name(isa)) + ": the logits differ");
    if (wide.logits != want.logits)
      check::fail(__FILE__, __LINE__, std::string(cpu_isa_name(isa)) + ": the logits of the float weights differ");
    CHECK_EQ(want.weight_bytes - got.weight_bytes, kCodes * 4 - kCodes / 128 * 132);
    CHECK_EQ(want.weight_bytes, wide.weight_bytes);
  }
}

}  // namespace monolith
