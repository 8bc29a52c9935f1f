// Finds a folder's MTP layers: the names of their tensors and the number of layers. May be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/hf/architecture.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

struct DraftName {
  int64_t level = -1;     // Index of the MTP layer; -1: a tensor shared by all MTP layers.
  std::string_view rest;  // Tensor name within the layer; for shared tensors, the name after the prefix.
};

// Parses a tensor name that starts with "mtp.". Returns nullopt for all other names, which belong to the model's
// regular layers. Only for MtpPlacement::kMtp.
std::optional<DraftName> mtp_name(std::string_view name);

// Returns the number of MTP layers in addition to the model's `layers` regular layers; at most `stated`. Returns 0 if
// tensors of the first MTP layer are missing, because many folders declare MTP layers that they do not contain.
int64_t count_mtp_layers(const std::vector<Safetensor>& tensors, MtpPlacement drafts, int64_t layers,
                         std::optional<int64_t> stated);

}  // namespace monolith::hf
