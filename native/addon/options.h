// The two large option objects of addon-types.ts, checked field by field.
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
  std::string device;  // "auto", "cpu", "cuda" or "cuda:N", as make_backend() reads it
  Arithmetic arithmetic = Arithmetic::kProduction;
  bool batch_invariant = true;  // of GPUs: a row's bits never depend on the rows beside it
  std::string cublaslt;         // as CudaBackendOptions has it
  KvType kv_type = KvType::kF16;
  std::optional<TensorType> quantize;
  std::string draft_path;  // of a smaller model that guesses; empty: there is none
  std::optional<TensorType> draft_quantize;
  std::string vision_path;        // of the tower that sees for the model; empty: there is none
  bool vision_optional = false;   // left out if it does not fit
  int64_t vision_max_pixels = 0;  // of a picture as it was sent; 0: as the tower's room has it
  int vision_max_tiles = 0;       // 0: as its file has it
  VisionPrecision vision_precision = VisionPrecision::kFast;
  std::optional<VisionResize> vision_resize;  // nothing: as resize_of() says
  int max_context = 0;
  uint64_t kv_bytes = 0;
  bool profile = false;  // note what each operation of a step costs
  EngineOptions engine;

  CpuBackendOptions cpu() const { return {threads, isa, arithmetic}; }  // views isa
  ModelFileOptions file() const { return {quantize, threads}; }
  ModelFileOptions draft_file() const { return {draft_quantize, threads}; }
  ModelLimits limits() const;  // context and pages yet to be chosen
  bool operator==(const LoadOptions& other) const;
};

LoadOptions read_load_options(Arguments& arguments, const Named& options);

// All fields optional.
EngineTunables read_tunables(Arguments& arguments, const Named& object);

// `vision`: what its images must be prepared for; null: it has none.
GenerationRequest read_submit_options(Arguments& arguments, const Named& options, const Engine& engine,
                                      const VisionModel* vision);

// Refuses the first id that is not in the vocabulary.
void check_tokens(Arguments& arguments, const Named& named, std::span<const TokenId> tokens, int n_vocab);

struct TokenizeOptions {
  std::string text;
  EncodeOptions encode;
};

// (text, {addSpecial, parseSpecial, guard})
TokenizeOptions read_tokenize_options(Arguments& arguments);

// The most text one call may tokenize, and tokens one call may render.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;
inline constexpr size_t kMaxTokens = size_t{16} << 20;

}  // namespace monolith::addon
