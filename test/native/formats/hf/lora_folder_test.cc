// Tests reading LoRA adapters from PEFT folders: tensor names, scales, row order, and errors that name the key or
// tensor.
#include "check.h"
#include "formats/hf/lora_folder.h"
#include "support/hf_folder.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

const hf::LoraBase kLlama{.architecture = "llama", .n_heads = {2, 2}, .n_kv_heads = {1, 1}};
constexpr const char* kQ = "base_model.model.model.layers.0.self_attn.q_proj";

std::string zeros(size_t count) { return std::string(count * 4, '\0'); }

// Opens a folder that adapts `module`, a matrix of 8 x 4, with rank 2 and lora_alpha 16. `more` contains JSON members
// that are appended to adapter_config.json.
Result<LoraFile> open_pair(const std::string& module, const std::string& more = "", const hf::LoraBase& base = kLlama) {
  const ScratchFolder folder;
  folder.write("adapter_config.json", R"({"peft_type":"LORA","r":2,"lora_alpha":16)" + more + "}");
  folder.write("adapter_model.safetensors", safetensors_of({{module + ".lora_A.weight", "F32", {2, 4}, zeros(8)},
                                                            {module + ".lora_B.weight", "F32", {8, 2}, zeros(16)}}));
  return hf::open_lora_folder(folder.path(), base);
}

void check_opens(const Result<LoraFile>& lora, const std::string& target, float factor) {
  if (!lora) return check::fail(__FILE__, __LINE__, lora.error().message);
  CHECK_EQ(lora->pairs.at(0).target, target);
  CHECK_EQ(lora->pairs.at(0).factor, factor);
}

void check_refused(const Result<LoraFile>& lora, const std::string& part) {
  if (lora) return check::fail(__FILE__, __LINE__, "accepted, expected '" + part + "'");
  CHECK(lora.error().code == ErrorCode::kUnsupported);
  if (lora.error().message.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "expected '" + part + "', not: " + lora.error().message);
}

}  // namespace

TEST(lora_folder_refuses_initializations_that_change_the_base_model) {
  const auto with = [](const std::string& value) { return open_pair(kQ, ",\"init_lora_weights\":" + value); };
  for (const char* value : {"true", "false", "null", "\"gaussian\"", "\"Gaussian\"", "\"eva\"", "\"orthogonal\""})
    check_opens(with(value), "blk.0.attn_q.weight", 8.0f);
  for (const char* value : {"\"pissa\"", "\"pissa_niter_16\"", "\"olora\"", "\"corda\"", "\"loftq\"", "1"})
    check_refused(with(value), "adapter_config.json: 'init_lora_weights'");
}

TEST(lora_folder_takes_the_first_alpha_pattern_that_matches) {
  const auto with = [](const std::string& patterns) { return open_pair(kQ, ",\"alpha_pattern\":{" + patterns + "}"); };
  check_opens(with(R"("self_attn.q_proj":64,"q_proj":8)"), "blk.0.attn_q.weight", 32.0f);
  check_opens(with(R"("q_proj":8,"self_attn.q_proj":64)"), "blk.0.attn_q.weight", 4.0f);
  check_opens(with(R"("v_proj":8,"j":8,"attn.q_proj":8)"), "blk.0.attn_q.weight", 8.0f);  // Matches only after a dot.
}

TEST(lora_folder_refuses_modules_outside_the_text_model) {
  for (const char* prefix : {"", "base_model.model.", "base_model.model.model.", "model.language_model.",
                             "base_model.model.language_model.model.", "base_model.model.model.text_model."})
    check_opens(open_pair(prefix + std::string("layers.1.self_attn.v_proj")), "blk.1.attn_v.weight", 8.0f);
  for (const char* prefix : {"base_model.model.vision_tower.vision_model.encoder.", "base_model.model.model.visual.",
                             "base_model.model.audio_tower.", "base_model.model.mtp.",
                             "base_model.model.other_encoder.", "model.decoder."}) {
    const std::string module = prefix + std::string("layers.0.self_attn.v_proj");
    check_refused(open_pair(module), "'" + module + ".lora_A.weight'");
  }
}

TEST(lora_folder_supports_architectures_that_hybrid_models_share) {
  for (const char* architecture : {"granite", "granitemoe"}) {
    const auto lora = open_pair(kQ, "", {.architecture = architecture, .n_heads = {2}, .n_kv_heads = {1}});
    check_opens(lora, "blk.0.attn_q.weight", 8.0f);
    if (lora) CHECK_EQ(lora->pairs.at(0).heads, 2);
  }
  for (const char* architecture : {"granitehybrid", "qwen35", "unknown"})
    check_refused(open_pair(kQ, "", {.architecture = architecture, .n_heads = {2}, .n_kv_heads = {1}}),
                  "PEFT folders are not supported for models of architecture '" + std::string(architecture) + "'");
}

TEST(lora_folder_reorders_the_rows_of_heads) {
  const ScratchFolder folder;
  folder.write("adapter_config.json", R"({"peft_type":"LORA","r":1,"lora_alpha":1})");
  std::string b;
  for (int i = 0; i < 8; ++i) {
    const auto value = static_cast<float>(i);
    b.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const std::string module = kQ;
  folder.write("adapter_model.safetensors", safetensors_of({{module + ".lora_A.weight", "F32", {1, 4}, zeros(4)},
                                                            {module + ".lora_B.weight", "F32", {8, 1}, b}}));
  const auto lora = hf::open_lora_folder(folder.path(), kLlama);
  REQUIRE(lora);
  const auto values = lora->pairs.at(0).read_b();
  REQUIRE(values);
  CHECK(*values == std::vector<float>({0, 2, 1, 3, 4, 6, 5, 7}));
}
