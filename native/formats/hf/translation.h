// Asks config.json for settings as transformers does and says them in GGUF's keys; what the parts of the translation
// share. Used on the thread that opens the model.
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

inline constexpr int64_t kMost = int64_t{1} << 31;  // of any size; the model checks each more closely
inline constexpr int64_t kMostHeads = 1 << 16;      // and dimensions of a head
inline constexpr int64_t kMostLayers = 1024;        // as the model has it; Config::layers holds to it

// Looks keys up as transformers does: in the text part where a checkpoint has several (of a head by vLLM's speculators, in
// that of its layer), else in the whole, else as the class of the text part has it. Remembers the first error, so that the
// translation reads as a list.
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
    // One that says null means it.
    return outer.exists() || inner.is(JsonDocument::Kind::kNull) || !usual_[key].exists() ? outer : usual_[key];
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

  // An integer that must be there, under one of these names.
  int64_t needed(std::initializer_list<std::string_view> keys, int64_t most = kMost) {
    const JsonValue value = first_of(keys);
    if (!value.exists()) fail(value.invalid("is missing"));
    return take(value.integer(1, most), int64_t{1});
  }
  int64_t integer(std::string_view name, int64_t fallback) { return take(find(name).integer(0, kMost), fallback); }
  double number(std::string_view name, double fallback) { return take(find(name).number(), fallback); }
  double needed_number(std::string_view name) {
    if (!find(name).exists()) fail(find(name).invalid("is missing"));
    const double value = number(name, 1);
    if (!(value > 0)) fail(find(name).invalid("is not positive"));
    return value;
  }
  bool boolean(std::string_view name, bool fallback) { return take(find(name).boolean(), fallback); }

  // Copies a number or an integer, if it is there, to a key of the architecture.
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

// config_rope.cc: the base, the share of a head that turns, and the scaling, of heads of `head_dim`.
void translate_rope(Translation& t, int64_t context, int64_t head_dim);

// config_experts.cc
void translate_experts(Translation& t, Config& config);

// config_layers.cc: which layers have a window, where the checkpoint says so; nothing: as the architecture does it.
std::optional<std::vector<bool>> windowed_layers(Translation& t, size_t layers);
void translate_windows(Translation& t, const Config& config);

// config_families.cc: what only some architectures have; before all else, as a key's first value stays. What comes back is
// the width of heads that see all positions.
int64_t translate_family(Translation& t, Config& config, int64_t embedding, int64_t head_dim);
// config_hybrids.cc: networks of which some layers keep a state.
void translate_delta_nets(Translation& t, Config& config);
void translate_hybrid(Translation& t, Config& config, int64_t embedding);

}  // namespace monolith::hf
