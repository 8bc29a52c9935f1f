// Translates the settings that specify the kind of each layer.
#include <algorithm>

#include "formats/gguf/parser.h"
#include "formats/hf/translation.h"

namespace monolith::hf {

// Returns which layers use a sliding window. Checkpoints specify this as a list of names, a repeating string with one
// letter per layer, or a period. Returns nullopt if the checkpoint does not specify it; the architecture's default then
// applies.
std::optional<std::vector<bool>> windowed_layers(Translation& t, size_t layers) {
  std::vector<bool> windowed(layers);
  if (const JsonValue types = t.find("layer_types"); types.exists()) {
    if (types.items().size() != layers) {
      t.fail(types.invalid("does not have one name per layer"));
      return windowed;
    }
    for (size_t i = 0; i < layers; ++i) {
      const std::string_view type = types.item(i).text();
      if (type != "sliding_attention" && type != "full_attention")
        t.fail(types.item(i).unsupported("is " + in_quotes(type) + ", which is not supported"));
      windowed[i] = type == "sliding_attention";
    }
    return windowed;
  }
  const JsonValue pattern = t.first_of({"sliding_window_pattern", "_sliding_window_pattern"});
  if (!pattern.exists()) return std::nullopt;
  if (const std::string_view letters = pattern.text(); !letters.empty()) {
    for (size_t i = 0; i < layers; ++i) windowed[i] = letters[i % letters.size()] == 'L';
    return windowed;
  }
  const auto period = static_cast<size_t>(t.take(pattern.integer(1, kMax), int64_t{1}));
  for (size_t i = 0; i < layers; ++i) windowed[i] = (i + 1) % period != 0;
  return windowed;
}

namespace {

// Appends whether each MTP layer uses a sliding window: as specified in "mtp_layer_types" if present, otherwise like
// the first layers (as in vLLM's exaone_moe.py).
void add_draft_windows(Translation& t, int64_t count, std::vector<bool>& windowed) {
  const JsonValue types = t.find("mtp_layer_types"), sizes = t.find("mtp_sliding_windows");
  for (int64_t i = 0; i < count; ++i) {
    const JsonValue type = types.item(static_cast<size_t>(i)), size = sizes.item(static_cast<size_t>(i));
    const bool stated = type.exists();
    windowed.push_back(stated ? type.text() == "sliding_attention" : windowed[static_cast<size_t>(i)]);
    if (stated && !windowed.back() && type.text() != "full_attention")
      t.fail(type.unsupported("is " + in_quotes(type.text()) + ", which is not supported"));
    if (windowed.back() && size.exists() && t.take(size.integer(0, kMax), int64_t{0}) != t.integer("sliding_window", 0))
      t.fail(size.unsupported("differs from 'sliding_window'"));
  }
}

}  // namespace

void translate_windows(Translation& t, const Config& config) {
  const int64_t layers = config.layers;
  // Qwen configs specify a window size and, in a separate setting, whether the window is used.
  const bool optional = t.architecture().gguf.starts_with("qwen");
  if (optional && !t.boolean("use_sliding_window", false)) return;
  if (t.integer("sliding_window", 1) == 0) return;
  auto windowed = windowed_layers(t, static_cast<size_t>(layers));
  if (windowed) {
    const auto n = std::ranges::count(*windowed, true);
    if (n == 0) return;
    if (config.mtp_layers > 0) add_draft_windows(t, std::min(config.mtp_layers, layers), *windowed);
    if (t.architecture().window_pattern)
      t.out().booleans(t.key("attention.sliding_window_pattern"), *windowed);
    else if (n != layers)
      t.fail(t.first_of({"layer_types", "sliding_window_pattern"})
                 .unsupported("gives only some layers a window, which is not supported"));
  }
  t.copy_integer("sliding_window", "attention.sliding_window");
}

}  // namespace monolith::hf
