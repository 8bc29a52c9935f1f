// Maps tensor names of checkpoints to GGUF names. Constant tables; can be used from any thread.
#pragma once

#include <string_view>

namespace monolith::hf {

// Look up stems ("self_attn.q_proj") of the model, of a layer, of one expert, of shared MTP tensors and of fused gate
// and up matrices ("exps" or "shexp"), or full names within a layer. The result is empty if the name is not known.
std::string_view name_of_model(std::string_view stem);
std::string_view name_of_layer(std::string_view stem);
std::string_view name_of_expert(std::string_view stem);
std::string_view name_of_mtp(std::string_view stem);  // Tensors outside the MTP layers that they share.
std::string_view kind_of_fused(std::string_view stem);
std::string_view plain_name_of_layer(std::string_view name);

bool is_output(std::string_view name);       // Expects the name without the model prefix.
bool is_choice_bias(std::string_view name);  // Expects the name within a layer.
// Whether the text model does not use the tensor.
bool is_left_out(std::string_view name);
// Removes the prefix before an expert's number from `stem`. Returns false if there is no such prefix.
bool take_expert_prefix(std::string_view& stem);

}  // namespace monolith::hf
