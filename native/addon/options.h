// Reads the two large option objects in addon-types.ts and checks every field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "addon/arguments.h"
#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/schedule/queue_room.h"
#include "engine/request.h"
#include "formats/hf/model_file.h"
#include "model/model.h"
#include "text/tokenizer/tokenizer.h"
#include "vision/vision.h"

namespace monolith {
class VisionModel;
}

namespace monolith::addon {

inline constexpr int kMaxBatchTokens = 65536;
inline constexpr int kMaxSequences = 4096;
inline constexpr int kMaxSnapshotTokens = 1 << 20;
inline constexpr int kMaxStepMs = 60'000;

struct LoadOptions {
  int threads = 0;
  std::string isa;
  std::string device;  // "auto", "cpu", "cuda" or "cuda:N" (see make_backend()).
  Arithmetic arithmetic = Arithmetic::kProduction;
  bool batch_invariant = true;  // GPU only: a token's result has the same bits whatever else is in the batch.
  std::string cublaslt;         // Path of cuBLASLt, or "auto" (see CudaBackendOptions).
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
  int max_context = 0;
  uint64_t kv_bytes = 0;
  bool profile = false;  // Record the cost of each operation in a step.
  EngineOptions engine;

  CpuBackendOptions cpu() const { return {threads, isa, arithmetic}; }  // The result refers to this object's `isa`.
  ModelFileOptions file() const { return {quantize, threads}; }
  ModelFileOptions draft_file() const { return {draft_quantize, threads}; }
  ModelLimits limits() const;  // Does not set the context length and the number of pages, which are chosen later.
  bool operator==(const LoadOptions&) const = default;
};

LoadOptions read_load_options(Arguments& arguments, const Named& options);

// All fields are optional.
EngineTunables read_tunables(Arguments& arguments, const Named& object);

// `vision`: the encoder for which the request's images must have been prepared; null if the model has none.
GenerationRequest read_submit_options(Arguments& arguments, const Named& options, const Engine& engine,
                                      const VisionModel* vision);

// Throws a TypeError for the first token ID that is not in the vocabulary.
void check_tokens(Arguments& arguments, const Named& named, std::span<const TokenId> tokens, int n_vocab);

struct TokenizeOptions {
  std::string text;
  EncodeOptions encode;
};

// JavaScript arguments: (text, {addSpecial, parseSpecial, guard}).
TokenizeOptions read_tokenize_options(Arguments& arguments);

// Maximum number of bytes that one call may tokenize, and maximum number of tokens that one call may detokenize.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;
inline constexpr size_t kMaxTokens = size_t{16} << 20;

}  // namespace monolith::addon
