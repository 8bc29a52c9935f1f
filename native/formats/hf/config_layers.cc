// Which layer is of which kind.
#include <algorithm>

#include "formats/gguf/parser.h"
#include "formats/hf/translation.h"

namespace monolith::hf {

// Which layers have a window, where the checkpoint says so: by a list of names, a text of which each letter stands
// for a layer and which repeats, or a period. Nothing: as the architecture does it.
std::optional<std::vector<bool>> windowed_layers(Translation& t, size_t layers) {
  std::vector<bool> windowed(layers);
  if (const JsonValue types = t.find("layer_types"); types.exists()) {
    if (types.items().size() != layers) {
      t.fail(types.invalid("has not one name for each layer"));
      return windowed;
    }
    for (size_t i = 0; i < layers; ++i) {
      const std::string_view type = types.item(i).text();
      if (type != "sliding_attention" && type != "full_attention")
        t.fail(types.item(i).unsupported("is " + quoted(type) + ", which is not computed"));
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
  const auto period = static_cast<size_t>(t.take(pattern.integer(1, kMost), int64_t{1}));
  for (size_t i = 0; i < layers; ++i) windowed[i] = (i + 1) % period != 0;
  return windowed;
}

void translate_windows(Translation& t, int64_t layers) {
  const bool optional = t.architecture().gguf.starts_with("qwen");   // states a size and whether it is used
  if (optional && !t.boolean("use_sliding_window", false)) return;
  if (t.integer("sliding_window", 1) == 0 || layers > kMostLayers) return;
  const auto windowed = windowed_layers(t, static_cast<size_t>(layers));
  if (windowed) {
    const auto n = std::ranges::count(*windowed, true);
    if (n == 0) return;
    if (t.architecture().window_pattern)
      t.out().booleans(t.key("attention.sliding_window_pattern"), *windowed);
    else if (n != layers)
      t.fail(t.first_of({"layer_types", "sliding_window_pattern"}).unsupported("gives a window to some layers only"));
  }
  t.copy_integer("sliding_window", "attention.sliding_window");
}

}  // namespace monolith::hf
