#include "backend/kv_cache.h"

#include <algorithm>
#include <string>

namespace monolith {

KvShape KvShape::of_equal_layers(int n_layers, int n_kv_heads, int head_dim, int64_t n_pages, KvType type) {
  KvShape shape{{}, n_pages, type};
  for (int i = 0; i < n_layers; ++i)
    shape.layers.push_back({StateKind::kKeysAndValues, n_kv_heads, head_dim, head_dim, i});
  return shape;
}

int KvShape::n_slots() const {
  int n = 0;
  for (const LayerState& layer : layers)
    if (layer.kind != StateKind::kNothing) n = std::max(n, layer.slot + 1);
  return n;
}

int KvShape::most_kv_heads() const {
  int n = 0;
  for (const LayerState& layer : layers) n = std::max(n, layer.n_kv_heads);
  return n;
}

Status check_shape(const KvShape& shape, const KeptStates& keeps) {
  const auto invalid = [&](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument, "KV cache of " + std::to_string(shape.layers.size()) + " layers, " +
                                                  std::to_string(shape.n_pages) + " pages" + what +
                                                  ": all sizes must be positive and the total size addressable"};
  };
  if (shape.layers.empty() || shape.n_pages <= 0) return invalid("");
  const auto n_layers = static_cast<int>(shape.layers.size());
  for (int i = 0; i < n_layers; ++i) {
    const LayerState& layer = shape.layers[static_cast<size_t>(i)];
    const std::string name = "layer " + std::to_string(i);
    if (layer.kind == StateKind::kNothing) continue;
    const bool latents = layer.kind == StateKind::kLatents;
    if (layer.kind != StateKind::kKeysAndValues && !(latents && keeps.latents))
      return Error{ErrorCode::kUnsupported, name + " keeps " + (latents ? "latents" : "recurrent state") +
                                                ", which this backend does not support"};
    if (layer.n_kv_heads <= 0 || layer.key_dim <= 0 || layer.value_dim <= 0 || layer.slot < 0 || layer.slot >= n_layers)
      return invalid(", " + name + " of " + std::to_string(layer.n_kv_heads) + " KV heads, head size " +
                     std::to_string(layer.key_dim) + ", slot " + std::to_string(layer.slot));
    if (latents && (layer.n_kv_heads != 1 || layer.value_dim > layer.key_dim))
      return invalid(", " + name + " with latents of " + std::to_string(layer.key_dim) + " numbers, " +
                     std::to_string(layer.value_dim) + " of them the value, for " + std::to_string(layer.n_kv_heads) +
                     " heads");
    if (layer.place < 0 || layer.place >= n_layers)
      return invalid(", " + name + " at index " + std::to_string(layer.place) + " of its page slot");
    if (layer.place > 0 && !keeps.places)
      return Error{ErrorCode::kUnsupported,
                   name + " shares a page slot with other layers, which this backend does not support"};
    if (layer.page_rows != kPageTokens) {
      if (!latents || layer.page_rows <= 0 || kPageTokens % layer.page_rows != 0)
        return invalid(", " + name + " of " + std::to_string(layer.page_rows) + " rows a page");
      if (!keeps.blocks)
        return Error{ErrorCode::kUnsupported,
                     name + " keeps latents of blocks of positions, which this backend does not support"};
    }
    if (layer.key_dim != layer.value_dim && !latents && !keeps.other_values)
      return Error{ErrorCode::kUnsupported, name + " has keys of " + std::to_string(layer.key_dim) +
                                                " dimensions and values of " + std::to_string(layer.value_dim) +
                                                ", which this backend does not support"};
  }
  return {};
}

}  // namespace monolith
