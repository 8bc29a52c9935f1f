#include "engine/tiers/cache_identity.h"

#include <cstdio>

namespace monolith {
namespace {

class Description {
 public:
  Description& add(const char* name, std::string_view value) {
    text_.append(name).append("=").append(value).append(";");
    return *this;
  }
  Description& add(const char* name, int64_t value) { return add(name, std::to_string(value)); }
  Description& add_float(const char* name, float value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%a", static_cast<double>(value));
    return add(name, digits);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string cache_identity(Model& model) {
  Description text;
  const BackendInfo backend = model.backend().info();
  const KvLayout& layout = model.memory().layout;
  const KvShape& shape = model.kv().shape;
  text.add("numerics", kNumericsVersion).add("backend", backend.name).add("isa", backend.isa);
  text.add("page_tokens", kPageTokens).add("kv_type", static_cast<int64_t>(shape.type));
  text.add("tables", layout.full).add("windowed", layout.windowed).add("window", layout.window);
  text.add("page_bytes", static_cast<int64_t>(model.kv().page_bytes));
  text.add("slot_bytes", static_cast<int64_t>(model.memory().slot_bytes));
  for (const LayerState& layer : shape.layers) {
    text.add("layer", static_cast<int64_t>(layer.kind)).add("heads", layer.n_kv_heads);
    text.add("key", layer.key_dim).add("value", layer.value_dim);
    text.add("slot", layer.slot).add("place", layer.place).add("rows", layer.page_rows);
  }
  for (const RopeSet& rope : model.params().ropes) {
    text.add("rope", rope.n_dims).add_float("magnitude", rope.magnitude).add_float("score", rope.score_factor);
    for (const float frequency : rope.inverse_frequency) text.add_float("f", frequency);
  }
  return text.take();
}

}  // namespace monolith
