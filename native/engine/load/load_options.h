// The options for loading a model, and the table that describes them: name, type, range, default and meaning. Frontends
// use this table to read the options.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "backend/cpu/cpu_backend.h"
#include "backend/registry/registry.h"
#include "engine/engine.h"
#include "formats/hf/model_file.h"
#include "model/model.h"
#include "vision/vision.h"

namespace monolith {

// Upper limits of options that can also be changed at run time.
inline constexpr int kMaxBatchTokens = 65536;
inline constexpr int kMaxSequences = 4096;
inline constexpr int kMaxStepMs = 60'000;

struct LoadOptions {
  BackendOptions backend;
  KvType kv_type = KvType::kF16;
  std::optional<TensorType> quantize;
  std::string draft_path;  // Path of a draft model or an EAGLE-3 head; empty = none.
  std::optional<TensorType> draft_quantize;
  std::string vision_path;  // Path of the vision encoder; empty = none.
  // Whether to ignore a vision encoder that does not match the model instead of failing the load.
  bool vision_optional = false;
  int64_t vision_max_pixels = 0;  // Maximum number of pixels in an input image; 0 = the default in VisionBounds.
  int vision_max_tiles = 0;       // Maximum number of tiles per image; 0 = as specified in the vision encoder's file.
  VisionPrecision vision_precision = VisionPrecision::kFast;
  std::optional<VisionResize> vision_resize;  // If missing, resize_of() decides.
  int max_context = 0;                        // 0 = as long as the model and the memory allow.
  uint64_t kv_bytes = 0;                      // 0 = automatic.
  bool profile = false;                       // Record the cost of each operation in a step.
  EngineOptions engine;

  // The returned value refers to this object's `backend.isa`, so this object must outlive it.
  CpuBackendOptions cpu() const { return {backend.threads, backend.isa, backend.arithmetic}; }
  ModelFileOptions file() const { return {quantize, backend.threads}; }
  ModelFileOptions draft_file() const { return {draft_quantize, backend.threads}; }
  ModelLimits limits() const;  // Does not set the context length and the number of pages, which are chosen later.
  bool operator==(const LoadOptions&) const = default;
};

// The value of an option: an integer, a boolean, the index of a choice (as an integer; -1 = none), or a text.
using OptionValue = std::variant<int64_t, bool, std::string>;

// One option. Its default is the value of its field in a default-constructed LoadOptions.
struct LoadOption {
  enum class Type : uint8_t { kInteger, kBoolean, kChoice, kPath, kDevice };
  const char* name;
  bool required;  // Whether frontends must always pass it.
  Type type;
  int64_t low, high;                          // The range of a kInteger.
  std::span<const std::string_view> choices;  // The names of a kChoice's values.
  OptionValue (*get)(const LoadOptions& options);
  void (*set)(LoadOptions& options, const OptionValue& value);  // Requires a value of the type and in range.
  std::string_view meaning;
};
// All options, in reading order.
std::span<const LoadOption> load_options();

}  // namespace monolith
