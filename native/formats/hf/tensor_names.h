// Maps the tensor names of checkpoints to GGUF names. Constant tables that may be used from any thread.
#pragma once

#include <string_view>

namespace monolith::hf {

// These functions return the GGUF name for the stem of a tensor name, such as "self_attn.q_proj". There is one function
// each for tensors of the model, a layer, an expert and the shared MTP tensors. kind_of_fused() returns "exps" or
// "shexp" for a fused gate and up matrix. plain_name_of_layer() takes the full name within a layer. All return an empty
// view for unknown names.
std::string_view name_of_model(std::string_view stem);
std::string_view name_of_layer(std::string_view stem);
std::string_view name_of_expert(std::string_view stem);
std::string_view name_of_mtp(std::string_view stem);  // Tensors outside the MTP layers, which all MTP layers share.
std::string_view kind_of_fused(std::string_view stem);
std::string_view plain_name_of_layer(std::string_view name);

bool is_output(std::string_view name);       // Takes the name without the model prefix.
bool is_choice_bias(std::string_view name);  // Takes the name within a layer.
// Removes the prefix that checkpoints put before the names of the text model's tensors, such as "model.".
std::string_view without_model_prefix(std::string_view name);
// Whether the tensor is not used by the text model.
bool is_left_out(std::string_view name);
// Removes the prefix before an expert's number from `stem`. Returns false if there is no such prefix.
bool take_expert_prefix(std::string_view& stem);

}  // namespace monolith::hf
