// Finds the MTP layers of a folder: the names of their tensors and the number of layers. Can be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/hf/architecture.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

struct DraftName {
  int64_t level = -1;     // Index of the MTP layer, from 0. -1: a tensor outside the layers that all MTP layers share.
  std::string_view rest;  // The tensor name within the layer, or after the prefix for shared tensors.
};

// Parses a tensor name that starts with "mtp."; nullopt if the tensor belongs to the network itself. Only for
// MtpPlacement::kMtp.
std::optional<DraftName> mtp_name(std::string_view name);

// Returns the number of MTP layers after the network's `layers` layers. Returns 0 if the tensors of the first MTP layer
// are missing, because many folders declare MTP layers that they do not contain. The result is at most `stated`.
int64_t count_mtp_layers(const std::vector<Safetensor>& tensors, MtpPlacement drafts, int64_t layers,
                         std::optional<int64_t> stated);

}  // namespace monolith::hf
