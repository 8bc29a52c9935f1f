#include "engine/load/load_options.h"

#include <algorithm>
#include <limits>
#include <iterator>

#include "engine/schedule/queue_room.h"
#include "engine/speculation/speculation.h"

namespace monolith {
namespace {

using Type = LoadOption::Type;

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxSafeInteger = (int64_t{1} << 53) - 1;  // JavaScript's Number.MAX_SAFE_INTEGER.
constexpr int64_t kMaxSnapshotTokens = 1 << 20;
constexpr int64_t kMaxSourcePixels = 1'000'000'000, kMaxTiles = 1000;

constexpr std::string_view kIsas[] = {"auto", "plain", "avx2", "avx_vnni", "avx512", "amx", "neon", "neon_i8mm"};
constexpr std::string_view kQuantizeNames[] = {"q8_0", "q6_k", "q4_k", "q4_0", "fp8"};
constexpr TensorType kQuantizeTypes[] = {TensorType::kQ8_0, TensorType::kQ6_K, TensorType::kQ4_K, TensorType::kQ4_0,
                                         TensorType::kF8E4M3};
// The names of enumerators, in the order of their enumerations.
constexpr std::string_view kArithmetics[] = {"production", "fast", "exact"};
constexpr std::string_view kKvTypes[] = {"f16", "f32", "q8_0", "fp8", "q4_0", "q5_0"};
constexpr std::string_view kVisionPrecisions[] = {"fast", "exact"};
constexpr std::string_view kVisionResizes[] = {"llama.cpp", "original"};
constexpr std::string_view kSpeculations[] = {"off", "auto", "always"};

// Follows a path of member pointers and returns the field that it leads to.
template <auto First, auto... Rest>
auto& field_of(auto& object) {
  if constexpr (sizeof...(Rest) == 0)
    return object.*First;
  else
    return field_of<Rest...>(object.*First);
}

// Converts a field to its representation in an OptionValue.
template <typename T>
int64_t to_value(T number) {
  return static_cast<int64_t>(number);
}
template <typename T>
int64_t to_value(const std::optional<T>& choice) {
  return choice ? static_cast<int64_t>(*choice) : -1;
}
int64_t to_value(const std::string& isa) { return std::ranges::find(kIsas, isa) - std::begin(kIsas); }
int64_t to_value(const std::optional<TensorType>& type) {
  return type ? std::ranges::find(kQuantizeTypes, *type) - std::begin(kQuantizeTypes) : -1;
}

template <typename T>
void from_value(int64_t value, T& number) {
  number = static_cast<T>(value);
}
template <typename T>
void from_value(int64_t value, std::optional<T>& choice) {
  choice = static_cast<T>(value);
}
void from_value(int64_t value, std::string& isa) { isa = kIsas[value]; }
void from_value(int64_t value, std::optional<TensorType>& type) { type = kQuantizeTypes[value]; }

enum Presence : bool { kOptional, kRequired };
using Text = std::string_view;

template <auto... Path>
constexpr LoadOption integer(const char* name, Presence presence, int64_t low, int64_t high, Text meaning) {
  return {.name = name,
          .required = presence == kRequired,
          .type = Type::kInteger,
          .low = low,
          .high = high,
          .choices = {},
          .get = [](const LoadOptions& options) { return OptionValue(to_value(field_of<Path...>(options))); },
          .set = [](LoadOptions& options,
                    const OptionValue& value) { from_value(std::get<int64_t>(value), field_of<Path...>(options)); },
          .meaning = meaning};
}
template <auto... Path>
constexpr LoadOption choice(const char* name, Presence presence, std::span<const Text> choices, Text meaning) {
  LoadOption option = integer<Path...>(name, presence, 0, 0, meaning);
  option.type = Type::kChoice;
  option.choices = choices;
  return option;
}
template <typename T, auto... Path>
constexpr LoadOption plain(const char* name, Presence presence, Type type, Text meaning) {
  return {
      .name = name,
      .required = presence == kRequired,
      .type = type,
      .low = 0,
      .high = 0,
      .choices = {},
      .get = [](const LoadOptions& options) { return OptionValue(field_of<Path...>(options)); },
      .set = [](LoadOptions& options, const OptionValue& value) { field_of<Path...>(options) = std::get<T>(value); },
      .meaning = meaning};
}
template <auto... Path>
constexpr LoadOption boolean(const char* name, Presence presence, Text meaning) {
  return plain<bool, Path...>(name, presence, Type::kBoolean, meaning);
}
template <auto... Path>
constexpr LoadOption path(const char* name, Presence presence, Text meaning) {
  return plain<std::string, Path...>(name, presence, Type::kPath, meaning);
}
template <auto... Path>
constexpr LoadOption device(const char* name, Presence presence, Text meaning) {
  return plain<std::string, Path...>(name, presence, Type::kDevice, meaning);
}

constexpr auto kBackend = &LoadOptions::backend;
constexpr auto kEngine = &LoadOptions::engine;

constexpr LoadOption kOptions[] = {
    integer<kBackend, &BackendOptions::threads>("threads", kRequired, 0, kMaxThreads, "CPU threads; 0 = one per core."),
    choice<kBackend, &BackendOptions::isa>("isa", kRequired, kIsas,
                                           "Instruction set of the CPU kernels; auto = the best available."),
    device<kBackend, &BackendOptions::device>("device", kRequired,
                                              "Device that computes the model; auto = a GPU if there is one."),
    choice<kBackend, &BackendOptions::arithmetic>(
        "arithmetic", kRequired, kArithmetics,
        "fast = BF16 for matmuls of many rows, on CPUs with AMX; exact = float32 throughout, for tests."),
    boolean<kBackend, &BackendOptions::batch_invariant>("batchInvariant", kOptional,
                                                        "Results do not depend on the other requests in the batch."),
    path<kBackend, &BackendOptions::cublaslt>("cublaslt", kOptional,
                                              "CUDA: path to cuBLASLt; auto = the system's installation."),
    choice<&LoadOptions::kv_type>("kvType", kRequired, kKvTypes, "Data type of the KV cache."),
    choice<&LoadOptions::quantize>("quantize", kOptional, kQuantizeNames, "Type that float matrices are converted to."),
    path<&LoadOptions::draft_path>("draftPath", kOptional, "Draft model or EAGLE-3 head."),
    choice<&LoadOptions::draft_quantize>("draftQuantize", kOptional, kQuantizeNames,
                                         "Type that the draft model's float matrices are converted to."),
    path<&LoadOptions::vision_path>("visionPath", kOptional, "Vision encoder."),
    boolean<&LoadOptions::vision_optional>("visionOptional", kOptional,
                                           "If the encoder does not match the model, load the model without it."),
    integer<&LoadOptions::vision_max_pixels>("visionMaxPixels", kOptional, 1, kMaxSourcePixels,
                                             "Maximum number of pixels in an input image; 0 = the built-in limit."),
    integer<&LoadOptions::vision_max_tiles>("visionMaxTiles", kOptional, 0, kMaxTiles,
                                            "Maximum tiles per image; 0 = as specified in the encoder's file."),
    choice<&LoadOptions::vision_precision>("visionPrecision", kOptional, kVisionPrecisions,
                                           "Arithmetic of the vision encoder."),
    choice<&LoadOptions::vision_resize>("visionResize", kOptional, kVisionResizes,
                                        "Image resizing method; default: depends on the file."),
    integer<kEngine, &EngineOptions::adapter_bytes_max>("adapterBytes", kOptional, 0, kMaxSafeInteger,
                                                        "Maximum size of all LoRA adapters together in bytes."),
    integer<kEngine, &EngineOptions::embedding_bytes_max>("embeddingBytes", kOptional, 0, kMaxSafeInteger,
                                                          "Size of the image-embedding cache in bytes."),
    integer<&LoadOptions::max_context>("maxContext", kRequired, 0, kMaxInt, "Context length in tokens; 0 = automatic."),
    integer<&LoadOptions::kv_bytes>("kvBytes", kRequired, 0, kMaxSafeInteger,
                                    "Size of the KV pool in bytes; 0 = automatic."),
    integer<kEngine, &EngineOptions::max_batch_tokens>("maxBatchTokens", kRequired, 0, kMaxBatchTokens,
                                                       "Maximum tokens per step; 0 = automatic."),
    integer<kEngine, &EngineOptions::max_sequences>("maxSequences", kRequired, 1, kMaxSequences,
                                                    "Maximum running sequences."),
    integer<kEngine, &EngineOptions::step_ms>("stepMs", kRequired, 0, kMaxStepMs,
                                              "Target duration in ms of a step that includes decoding; 0 = no limit."),
    integer<kEngine, &EngineOptions::queue_max>("queueMax", kRequired, 0, kQueueRequestsMost,
                                                "Maximum waiting requests."),
    integer<kEngine, &EngineOptions::queue_max_tokens>("queueMaxTokens", kRequired, 1, kQueueTokensMost,
                                                       "Maximum prompt tokens of waiting requests."),
    boolean<kEngine, &EngineOptions::prefix_cache>("prefixCache", kRequired, "Reuse the KV pages of common prefixes."),
    integer<kEngine, &EngineOptions::snapshot_tokens>(
        "snapshotTokens", kOptional, 1, kMaxSnapshotTokens,
        "Recurrent models: distance in tokens between the snapshots of a prompt."),
    boolean<&LoadOptions::profile>("profile", kOptional, "Record the cost of each operation in a step."),
    choice<kEngine, &EngineOptions::speculation>("speculation", kRequired, kSpeculations, "Speculative decoding."),
    choice<kEngine, &EngineOptions::mtp>("mtp", kOptional, kSpeculations,
                                         "Speculative decoding with the model's MTP layer."),
};

}  // namespace

std::span<const LoadOption> load_options() { return kOptions; }

ModelLimits LoadOptions::limits() const {
  ModelLimits limits;
  limits.max_batch_tokens = engine.max_batch_tokens;
  // A step samples at most once per running sequence.
  limits.max_logit_rows = std::min(engine.max_sequences, engine.max_batch_tokens);
  limits.draft_rows = engine.speculation == Speculation::kOff ? 0 : SequenceDrafts::kMax;
  limits.kv_type = kv_type;
  limits.mtp_layer = engine.speculation != Speculation::kOff && engine.mtp != Speculation::kOff && draft_path.empty();
  return limits;
}

}  // namespace monolith
