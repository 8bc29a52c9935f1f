// Tests that a published EAGLE-3 head produces the same draft tokens, bit for bit, when loaded from its directory as
// from a GGUF file with the same weights. Names and tensor layout follow SpecForge's LlamaForCausalLMEagle3. vLLM's
// speculators format stores the layer's settings separately and gives the layer the number 0.
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "formats/hf/model_file.h"
#include "support/eagle_file.h"
#include "support/fed_sequence.h"
#include "support/hf_folder.h"

namespace monolith::testing {
namespace {

constexpr const char* kModel = "models/llama.q8_0.gguf";

// GGUF applies RoPE to adjacent pairs, whereas the checkpoint applies it to the two halves of a head.
std::vector<float> with_halves(const std::vector<float>& rows, uint64_t n_rows) {
  const size_t cols = rows.size() / n_rows;
  std::vector<float> out;
  for (uint64_t row = 0; row < n_rows; ++row) {
    const uint64_t from = row < n_rows / 2 ? 2 * row : 2 * (row - n_rows / 2) + 1;
    out.insert(out.end(), rows.begin() + static_cast<ptrdiff_t>(from * cols),
               rows.begin() + static_cast<ptrdiff_t>((from + 1) * cols));
  }
  return out;
}

template <typename T>
std::string as_text(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void write_folder(const ScratchFolder& folder, const EagleFile& head, bool speculators) {
  const std::string layer = speculators ? "layers.0." : "midlayer.";
  const std::map<std::string, std::string> names = {
      {"fc.weight", "fc.weight"},
      {"output_norm.weight", "norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"token_embd.weight", "embed_tokens.weight"},
      {"blk.0.attn_norm.weight", layer + "input_layernorm.weight"},
      {"blk.0.attn_norm_2.weight", layer + "hidden_norm.weight"},
      {"blk.0.attn_q.weight", layer + "self_attn.q_proj.weight"},
      {"blk.0.attn_k.weight", layer + "self_attn.k_proj.weight"},
      {"blk.0.attn_v.weight", layer + "self_attn.v_proj.weight"},
      {"blk.0.attn_output.weight", layer + "self_attn.o_proj.weight"},
      {"blk.0.ffn_norm.weight", layer + "post_attention_layernorm.weight"},
      {"blk.0.ffn_gate.weight", layer + "mlp.gate_proj.weight"},
      {"blk.0.ffn_up.weight", layer + "mlp.up_proj.weight"},
      {"blk.0.ffn_down.weight", layer + "mlp.down_proj.weight"}};
  std::vector<SafetensorData> tensors;
  for (const auto& [name, dims] : head.shapes()) {
    const bool turns = name == "blk.0.attn_q.weight" || name == "blk.0.attn_k.weight";
    const std::vector<float> values = turns ? with_halves(head.values.at(name), head.n_embd) : head.values.at(name);
    tensors.push_back({names.at(name), "F32", {dims.rbegin(), dims.rend()}, as_text(values)});
  }
  std::vector<int64_t> distances = head.tokens;
  for (size_t i = 0; i < distances.size(); ++i) distances[i] -= static_cast<int64_t>(i);
  const auto n = static_cast<int64_t>(distances.size());
  tensors.push_back({"d2t", "I64", {n}, as_text(distances)});
  tensors.push_back({"t2d", "BOOL", {static_cast<int64_t>(head.n_vocab)}, std::string(head.n_vocab, '\0')});
  folder.write("model.safetensors", safetensors_of(tensors));
  const std::string width = std::to_string(head.n_embd);
  const std::string of_layer =
      R"("hidden_size":)" + width + R"(,"intermediate_size":)" + std::to_string(2 * head.n_embd) +
      R"(,"num_attention_heads":1,"num_key_value_heads":1,"num_hidden_layers":1,"rms_norm_eps":1e-05,)"
      R"("max_position_embeddings":512,"hidden_act":"silu","rope_theta":10000.0,"vocab_size":)" +
      std::to_string(head.n_vocab);
  const std::string sources = R"("eagle_aux_hidden_state_layer_ids":[0,1,2])";
  folder.write("config.json", speculators
                                  ? R"({"architectures":["Eagle3Speculator"],"transformer_layer_config":{)" + of_layer +
                                        "}," + sources + R"(,"norm_before_residual":true,"target_hidden_size":)" +
                                        width + R"(,"draft_vocab_size":)" + std::to_string(n) + "}"
                                  : R"({"architectures":["LlamaForCausalLMEagle3"],)" + of_layer +
                                        R"(,"draft_vocab_size":)" + std::to_string(n) +
                                        R"(,"tie_word_embeddings":false,"eagle_config":{)" + sources + "}}");
}

std::vector<float> drafts_with(const GgufFile& model, const GgufFile& head) {
  auto backend = make_cpu_backend({.threads = 1});
  auto loaded = Model::load(model, **backend, draft_limits(false), {}, &head);
  if (!loaded) {
    check::fail(__FILE__, __LINE__, loaded.error().message);
    return {};
  }
  Fed sequence(**loaded, 0, 0);
  sequence.feed({5, 17, 200, 31, 8, 90, 4}, 3);
  std::vector<float> all = sequence.draft(33, 0);
  const std::vector<float> next = sequence.draft((*loaded)->draft_tokens()[1], 1);
  all.insert(all.end(), next.begin(), next.end());
  const std::span<const int32_t> tokens = (*loaded)->draft_tokens();
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

void check_folder(bool speculators) {
  const std::string path = check::vectors_path(kModel);
  if (path.empty()) return check::skip("golden models not found");
  auto model = GgufFile::open(path);
  REQUIRE(model.ok());
  EagleFile head(LooseModel(**model), {3, 8, 9, 120, 200, 300});
  head.rotated = static_cast<uint32_t>(head.n_embd);
  head.norm_before_residual = speculators;
  const Bytes image = head.build();
  auto file = GgufFile::parse(image);
  REQUIRE(file.ok());
  const ScratchFolder folder;
  write_folder(folder, head, speculators);
  auto opened = open_model_file(folder.path());
  if (!opened) return check::fail(__FILE__, __LINE__, opened.error().message);
  const std::vector<float> want = drafts_with(**model, **file);
  CHECK_EQ(want.size(), size_t{18});
  CHECK(want == drafts_with(**model, **opened));
}

TEST(eagle_folder_drafts_the_same_tokens_as_its_gguf_file) { check_folder(false); }
TEST(eagle_folder_of_speculators_drafts_the_same_tokens_as_its_gguf_file) { check_folder(true); }

}  // namespace
}  // namespace monolith::testing
