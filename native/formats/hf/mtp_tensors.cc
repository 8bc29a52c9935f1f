#include "formats/hf/mtp_tensors.h"

#include <algorithm>

#include "formats/hf/tensor_names.h"
#include "formats/hf/translator.h"

namespace monolith::hf {
namespace {

constexpr int64_t kMaxMtpLayers = 16;  // The same limit as in the model.
constexpr std::string_view kLayers = "layers.";

// Parses the name of a tensor in an MTP layer that follows the model's regular layers. Accepts any prefix before the
// layer's part of the name.
std::optional<DraftName> behind_name(std::string_view name, int64_t layers) {
  const size_t at = name.find(kLayers);
  if (at == std::string_view::npos || is_left_out(name)) return std::nullopt;
  std::string_view rest = name.substr(at + kLayers.size());
  const int64_t layer = take_number(rest);
  if (layer < layers) return std::nullopt;
  return DraftName{layer - layers, rest};
}

}  // namespace

std::optional<DraftName> mtp_name(std::string_view name) {
  for (const std::string_view prefix : {"mtp.", "model.mtp."}) {
    if (!name.starts_with(prefix)) continue;
    std::string_view rest = name.substr(prefix.size());
    if (!rest.starts_with(kLayers)) return DraftName{-1, rest};
    rest.remove_prefix(kLayers.size());
    if (const int64_t level = take_number(rest); level >= 0) return DraftName{level, rest};
    return DraftName{-1, rest};
  }
  return std::nullopt;
}

int64_t count_mtp_layers(const std::vector<Safetensor>& tensors, MtpPlacement drafts, int64_t layers,
                         std::optional<int64_t> stated) {
  if (drafts == MtpPlacement::kNone) return 0;
  int64_t count = 0;
  bool has_first = false;
  for (const Safetensor& tensor : tensors) {
    const auto name = drafts == MtpPlacement::kMtp ? mtp_name(tensor.name) : behind_name(tensor.name, layers);
    if (!name) continue;
    has_first = has_first || (name->level == 0 && name->rest == "eh_proj.weight") ||
                (name->level < 0 && name->rest == "fc.weight");
    count = std::max(count, std::min(name->level, kMaxMtpLayers - 1) + 1);
  }
  return has_first ? std::min(count, stated.value_or(count)) : 0;
}

}  // namespace monolith::hf
