// What the tensors of checkpoints are called in GGUF. Constant tables; any thread.
#pragma once

#include <string_view>

namespace monolith::hf {

// Stems ("self_attn.q_proj") of the whole and within a layer, of one expert, of gate and up in one matrix ("exps" or
// "shexp"); and whole names within a layer. Empty if there is none.
std::string_view name_of_model(std::string_view stem);
std::string_view name_of_layer(std::string_view stem);
std::string_view name_of_expert(std::string_view stem);
std::string_view name_of_guesses(std::string_view stem);  // of what lies beside layers that guess
std::string_view kind_of_fused(std::string_view stem);
std::string_view plain_name_of_layer(std::string_view name);

bool is_output(std::string_view name);       // of the whole, without the prefix
bool is_choice_bias(std::string_view name);  // within a layer
// What computes nothing of the text's network.
bool is_left_out(std::string_view name);
// Takes what stands before an expert's number off `stem`; false if it has none.
bool take_expert_prefix(std::string_view& stem);

}  // namespace monolith::hf
