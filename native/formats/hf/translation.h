// Reads settings from config.json as transformers does and writes them as GGUF metadata. Shared by all config_*.cc
// files. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf/assembled_file.h"
#include "formats/hf/architecture.h"
#include "formats/hf/config.h"
#include "formats/hf/json_file.h"
#include "formats/hf/text_defaults.h"

namespace monolith::hf {

// Maximum value of any integer setting. When the model is loaded, each setting is checked against a stricter limit.
inline constexpr int64_t kMax = int64_t{1} << 31;
inline constexpr int64_t kMaxHeads = 1 << 16;  // Maximum number of heads, and maximum head size.
inline constexpr int64_t kMaxLayers = 1024;    // The same limit as in the model; Config::layers is checked against it.

// Looks up settings in the same order as transformers: the text section of a multimodal checkpoint (or the layer
// section of an EAGLE head from vLLM's speculators), the top level, and the defaults of the text model's class. Keeps
// only the first error, so that the translation code can be a plain list of calls.
class Translation {
 public:
  Translation(const JsonValue& whole, const Architecture& architecture, AssembledFile& out)
      : whole_(whole),
        text_(whole[whole["text_config"].exists() ? "text_config" : "transformer_layer_config"]),
        usual_(text_defaults(whole)),
        architecture_(architecture),
        out_(out) {}

  const Architecture& architecture() const { return architecture_; }
  AssembledFile& out() { return out_; }
  const Status& status() const { return status_; }
  void fail(Error error) {
    if (status_) status_ = std::move(error);
  }

  JsonValue find(std::string_view key) const {
    const JsonValue inner = text_[key], outer = whole_[key];
    if (inner.exists()) return inner;
    // An explicit null in the text section overrides the class default.
    return outer.exists() || inner.is(json::Document::Kind::kNull) || !usual_[key].exists() ? outer : usual_[key];
  }
  JsonValue first_of(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys)
      if (const JsonValue value = find(key); value.exists()) return value;
    return find(*keys.begin());
  }
  std::string key(std::string_view name) const { return std::string(architecture_.gguf) + "." + std::string(name); }

  template <typename T>
  T take(Result<std::optional<T>> value, T fallback = {}) {
    if (value) return value->value_or(fallback);
    fail(value.error());
    return fallback;
  }

  // Returns a required integer that is stored under one of `keys`.
  int64_t needed(std::initializer_list<std::string_view> keys, int64_t most = kMax) {
    const JsonValue value = first_of(keys);
    if (!value.exists()) fail(value.invalid("is missing"));
    return take(value.integer(1, most), int64_t{1});
  }
  int64_t integer(std::string_view name, int64_t fallback) { return take(find(name).integer(0, kMax), fallback); }
  double number(std::string_view name, double fallback) { return take(find(name).number(), fallback); }
  double needed_number(std::string_view name) {
    if (!find(name).exists()) fail(find(name).invalid("is missing"));
    const double value = number(name, 1);
    if (!(value > 0)) fail(find(name).invalid("is not positive"));
    return value;
  }
  bool boolean(std::string_view name, bool fallback) { return take(find(name).boolean(), fallback); }

  // These functions copy the setting `from`, if present, to the key `to` of the architecture.
  void copy_number(std::string_view from, std::string_view to) {
    if (find(from).exists()) out_.number(key(to), number(from, 0));
  }
  void copy_integer(std::string_view from, std::string_view to) {
    if (find(from).exists()) out_.integer(key(to), static_cast<uint64_t>(integer(from, 0)));
  }

 private:
  JsonValue whole_, text_, usual_;
  const Architecture& architecture_;
  AssembledFile& out_;
  Status status_;
};

// In config_rope.cc. Translates the RoPE base, the rotated fraction of each head of size `head_dim`, and the scaling.
void translate_rope(Translation& t, int64_t context, int64_t head_dim);

// In config_experts.cc.
void translate_experts(Translation& t, Config& config);

// In config_layers.cc. Returns for each layer whether it uses a sliding window, or nullopt if the checkpoint does not
// specify it and the architecture's default applies.
std::optional<std::vector<bool>> windowed_layers(Translation& t, size_t layers);
void translate_windows(Translation& t, const Config& config);

// In config_families.cc. Translates settings that only some architectures have. Must run before the general
// translation, because the first value added for a key is kept. Returns the head size of layers without a sliding
// window.
int64_t translate_family(Translation& t, Config& config, int64_t embedding, int64_t head_dim);
// In config_hybrids.cc. Translates models in which some layers have recurrent state.
void translate_delta_nets(Translation& t, Config& config);
void translate_hybrid(Translation& t, Config& config, int64_t embedding);

}  // namespace monolith::hf
