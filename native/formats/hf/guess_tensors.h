// Layers that guess tokens, as folders have them: what their tensors are called, and how many there are. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/hf/architecture.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

struct GuessName {
  int64_t level = -1;     // of the layer, from 0 on; -1: what stands beside them and all of them share
  std::string_view rest;  // within the layer, or beside them
};

// Of a name below "mtp."; nothing: of the network itself. Of Guesses::kMtp alone.
std::optional<GuessName> mtp_name(std::string_view name);

// How many layers behind the network's `layers` there are, of which the first has what it is made of: many folders state some
// and leave them out. `stated`: no more than these.
int64_t count_guess_layers(const std::vector<Safetensor>& tensors, Guesses guesses, int64_t layers,
                           std::optional<int64_t> stated);

}  // namespace monolith::hf
