// Tests MiMo V2.5 in its published form: queries, keys and values are fused into one FP8 matrix, shard by shard. The
// scale blocks restart in each shard and are not aligned with the heads. The results are compared with separate
// float matrices that contain the same values.
#include <algorithm>
#include <cmath>

#include "base/float8.h"
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

constexpr int64_t kShards = 2, kBlock = 128;

// The golden network, changed to two KV heads in every layer. In the original, the middle layer has only one.
Bytes with_two_heads(const GgufFile& golden) {
  LooseModel model(golden);
  for (const char* name : {"blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
    const std::vector<uint64_t> dims = model.tensors.at(name).dims;
    std::vector<float> values = model.floats(name);
    const size_t count = values.size();
    for (size_t i = 0; i < count; ++i) values.push_back(values[count - 1 - i]);
    model.put_floats(name, {dims[0], 2 * dims[1]}, values);
  }
  Bytes heads = GgufBuilder::array_header(static_cast<uint32_t>(GgufValueType::kInt32), 3);
  for (int layer = 0; layer < 3; ++layer) put(heads, int32_t{2});
  model.keys[model.key("attention.head_count_kv")] = {static_cast<uint32_t>(GgufValueType::kArray), heads};
  return model.build();
}

uint8_t nearest_code(float value) {
  uint8_t best = 0;
  for (int code = 0; code < 256; ++code)
    if ((code & 0x7f) != 0x7f &&
        std::fabs(e4m3_to_float(static_cast<uint8_t>(code)) - value) < std::fabs(e4m3_to_float(best) - value))
      best = static_cast<uint8_t>(code);
  return best;
}

struct Fp8 {
  std::vector<uint8_t> codes;
  std::vector<float> scales;  // For each shard, the rows of its own blocks.
};

// Quantizes `matrix` to FP8 and replaces its values with the rounded values.
Fp8 as_fp8(FloatTensor& matrix) {
  const int64_t rows = matrix.shape[0] / kShards, cols = matrix.shape[1];
  Fp8 out{std::vector<uint8_t>(matrix.values.size()), {}};
  for (int64_t shard = 0; shard < kShards; ++shard)
    for (int64_t top = 0; top < rows; top += kBlock) {
      const auto first = static_cast<size_t>((shard * rows + top) * cols),
                 last = static_cast<size_t>((shard * rows + std::min(top + kBlock, rows)) * cols);
      float most = 0;
      for (size_t i = first; i < last; ++i) most = std::max(most, std::fabs(matrix.values[i]));
      out.scales.push_back(most / 448);
      for (size_t i = first; i < last; ++i) {
        out.codes[i] = nearest_code(matrix.values[i] / out.scales.back());
        matrix.values[i] = e4m3_to_float(out.codes[i]) * out.scales.back();
      }
    }
  return out;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

const std::string kConfig =
    R"({"architectures":["MiMoV2ForCausalLM"],"hidden_size":128,"num_attention_heads":4,"max_position_embeddings":8192,)"
    R"("num_key_value_heads":2,"num_hidden_layers":3,"intermediate_size":128,"head_dim":48,"v_head_dim":32,"swa_head_dim":48,)"
    R"("swa_v_head_dim":32,"swa_num_attention_heads":4,"swa_num_key_value_heads":2,"hidden_act":"silu","layernorm_epsilon":1e-05,)"
    R"("rope_theta":5000000,"swa_rope_theta":10000,"partial_rotary_factor":0.334,"sliding_window":64,"hybrid_layer_pattern":[1,0,1],)"
    R"("n_routed_experts":6,"n_shared_experts":null,"num_experts_per_tok":2,"moe_intermediate_size":32,"scoring_func":"sigmoid",)"
    R"("topk_method":"noaux_tc","norm_topk_prob":true,"n_group":1,"topk_group":1,"routed_scaling_factor":null,)"
    R"("tie_word_embeddings":false,"attention_projection_layout":"fused_qkv")";
constexpr std::string_view kQuantized =
    R"(,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]})";

}  // namespace

TEST(folders_of_fused_shards_match_their_gguf_files) {
  const std::string path = check::vectors_path("models/mimo2.q8_0.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto golden = GgufFile::open(path);
  REQUIRE(golden.ok());
  const Bytes image = with_two_heads(**golden);
  const auto file = GgufFile::parse(image);
  REQUIRE(file.ok());
  Weights apart = weights_of(**file), rest = apart;
  std::vector<SafetensorData> codes, floats;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".",
                      name = "model.layers." + std::to_string(layer) + ".self_attn.qkv_proj.weight";
    FloatTensor* const parts[] = {&apart.at(block + "attn_q.weight"), &apart.at(block + "attn_k.weight"),
                                  &apart.at(block + "attn_v.weight")};
    FloatTensor fused = join_rows({parts[0], parts[1], parts[2]}, kShards);
    CHECK_EQ(fused.shape[0] % (kShards * kBlock), 96);  // No shard ends at a block boundary.
    const Fp8 fp8 = as_fp8(fused);
    const auto cells = static_cast<int64_t>(fp8.scales.size());
    codes.push_back({name, "F8_E4M3", fused.shape, raw(fp8.codes)});
    codes.push_back({name + "_scale_inv", "F32", {cells, 1}, raw(fp8.scales)});
    floats.push_back({name, "F32", fused.shape, raw(fused.values)});
    int64_t at = 0;  // Splits the rounded values into separate matrices again.
    for (int64_t shard = 0; shard < kShards; ++shard)
      for (FloatTensor* part : parts) {
        const int64_t share = part->shape[0] / kShards;
        const FloatTensor own = rows_between(fused, at, share);
        std::ranges::copy(own.values, part->values.begin() + shard * static_cast<ptrdiff_t>(own.values.size()));
        at += share;
      }
    for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight"}) rest.erase(block + part);
  }
  for (const SafetensorData& tensor :
       renamed(rest, kDecoder + TensorNames{{"attn_sinks.weight", "self_attn.attention_sink_bias"}}, "model.layers.")) {
    codes.push_back(tensor);
    floats.push_back(tensor);
  }
  const ScratchFolder folder;
  const Bytes want_image = gguf_of(**file, apart);
  folder.write("want.gguf", {reinterpret_cast<const char*>(want_image.data()), want_image.size()});
  folder.write("tokenizer.json", kSmallTokenizer);
  const std::vector<float> want = family_logits(folder.path() + "/want.gguf", "as GGUF");
  folder.write("config.json", kConfig + "}");
  folder.write("model.safetensors", safetensors_of(floats));
  CHECK(!want.empty() && want == family_logits(folder.path(), "fused floats"));
  folder.write("config.json", kConfig + std::string(kQuantized) + "}");
  folder.write("model.safetensors", safetensors_of(codes));
  {
    const auto opened = open_model_file(folder.path());
    if (!opened) return check::fail(__FILE__, __LINE__, opened.error().message);
    compare_keys(**file, **opened, "fused");
    for (const char* name : {"blk.0.attn_k.weight", "blk.1.attn_v.weight"})
      CHECK((*opened)->tensor(name)->type == TensorType::kF8Scaled);
  }
  CHECK(want == family_logits(folder.path(), "fused FP8"));
  // Scales whose blocks continue across shards are rejected.
  codes[1].shape[0] = 3;
  codes[1].bytes.resize(3 * sizeof(float));
  folder.write("model.safetensors", safetensors_of(codes));
  const auto misfit = open_model_file(folder.path());
  REQUIRE(!misfit.ok());
  CHECK(misfit.error().message.find(
            "'model.layers.0.self_attn.qkv_proj.weight_scale_inv' has the shape [3, 1], expected [4, 1]") !=
        std::string::npos);
}

}  // namespace monolith
