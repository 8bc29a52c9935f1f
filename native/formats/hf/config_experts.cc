// Translates the mixture-of-experts settings in config.json: number and size of experts, and routing.
#include "formats/gguf/parser.h"
#include "formats/hf/translation.h"

namespace monolith::hf {
namespace {

void translate_router(Translation& t, int64_t layers) {
  AssembledFile& out = t.out();
  if (const JsonValue lead =
          t.first_of({"first_k_dense_replace", "moe_layer_start_index", "first_last_k_dense_replace"});
      lead.exists()) {
    out.integer(t.key("leading_dense_block_count"), static_cast<uint64_t>(t.take(lead.integer(0, kMax), int64_t{0})));
  } else if (const JsonValue kinds = t.find("mlp_layer_types");
             kinds.exists() && t.architecture().family != Family::kBlocks) {
    size_t count = 0;
    while (count < kinds.items().size() && kinds.item(count).text() == "dense") ++count;
    for (size_t i = count; i < kinds.items().size(); ++i)
      if (kinds.item(i).text() != "sparse")
        t.fail(kinds.item(i).unsupported("is not 'sparse': dense layers after MoE layers are not supported"));
    out.integer(t.key("leading_dense_block_count"), count);
  }
  t.copy_integer("moe_layer_interval", "interleave_moe_layer_step");
  if (const JsonValue last = t.find("moe_layer_end_index"); last.exists()) {
    const double index = t.take(last.number(), -1.0);
    if (index != -1 && index != static_cast<double>(layers - 1))
      t.fail(last.unsupported("is not the last layer: dense layers after MoE layers are not supported"));
  }
  for (const auto& [groups, used] : {std::pair{"n_group", "topk_group"}, std::pair{"num_expert_group", "topk_group"}}) {
    if (t.integer(groups, 1) <= 1) continue;
    t.copy_integer(groups, "expert_group_count");
    t.copy_integer(used, "expert_group_used_count");
  }
  t.copy_number("routed_scaling_factor", "expert_weights_scale");
  if (const JsonValue score = t.first_of({"scoring_func", "score_function", "moe_router_activation_func"});
      score.exists()) {
    if (score.text() != "softmax" && score.text() != "sigmoid" && score.text() != "sqrtsoftplus")
      t.fail(score.unsupported("is " + in_quotes(score.text()) +
                               ", which is not supported (known: softmax, sigmoid, sqrtsoftplus)"));
    out.integer(t.key("expert_gating_func"), score.text() == "sigmoid" ? 2 : score.text() == "softmax" ? 1 : 4);
  } else if (!t.architecture().router.empty()) {
    out.integer(t.key("expert_gating_func"), t.architecture().router == "sigmoid" ? 2 : 1);
  }
}

}  // namespace

void translate_experts(Translation& t, Config& config) {
  const JsonValue count = t.first_of({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"});
  if (t.architecture().gguf == "gemma4" && !t.boolean("enable_moe_block", false)) return;
  // The config files of these dense models contain the expert settings of the larger MoE models in the same family.
  if (t.architecture().gguf == "nemotron_h" || t.architecture().gguf == "hunyuan-dense") return;
  config.experts = t.take(count.integer(0, 4096), int64_t{0});
  if (config.experts == 0) return;
  AssembledFile& out = t.out();
  out.integer(t.key("expert_count"), static_cast<uint64_t>(config.experts));
  if (!out.has(t.key("expert_used_count")))
    out.integer(
        t.key("expert_used_count"),
        static_cast<uint64_t>(t.needed({"num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts"})));
  if (!out.has(t.key("expert_feed_forward_length")))
    t.copy_integer("moe_intermediate_size", "expert_feed_forward_length");
  t.copy_integer("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  t.copy_integer("shared_intermediate_size", "expert_shared_feed_forward_length");
  if (const JsonValue shared = t.first_of({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"});
      shared.exists())
    out.integer(t.key("expert_shared_count"), static_cast<uint64_t>(t.take(shared.integer(0, 4096), int64_t{0})));
  for (const std::string_view name : {"norm_topk_prob", "moe_renormalize"})
    if (t.find(name).exists()) out.boolean(t.key("expert_weights_norm"), t.boolean(name, true));
  translate_router(t, config.layers);
  if (t.integer("decoder_sparse_step", 1) != 1)
    t.fail(t.find("decoder_sparse_step").unsupported("is not 1: dense layers between MoE layers are not supported"));
  if (!t.find("mlp_only_layers").items().empty())
    t.fail(t.find("mlp_only_layers").unsupported("is not empty: dense layers between MoE layers are not supported"));
}

}  // namespace monolith::hf
