// WHAT is computed: hyper-parameters and weights of one model, and the order of operations of its
// forward pass. Knows nothing of requests or scheduling.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace monolith {

enum class Architecture : uint8_t { kLlama, kQwen2, kQwen3 };

struct HyperParams {
  Architecture architecture;
  std::string architecture_name;   // as in the file
  int n_vocab, n_embd, n_layers, n_heads, n_kv_heads, head_dim, n_ff;
  int context_length;              // what the file says the model was made for
  float rms_eps;
  RopeStyle rope_style;
  int rope_dims;
  std::vector<float> inverse_frequency;   // rope_dims / 2, frequency factors and scaling already applied
  float rope_magnitude = 1.0f;     // scales cos and sin (YaRN)
  bool tied_output;                // no output.weight: the embedding table is used
  bool qkv_bias;                   // qwen2 (and llama files that carry biases)
  bool qk_norm;                    // qwen3

  // Errors name the key: kInvalidFile (missing, out of range), kUnsupported (architecture, scaling kind).
  static Result<HyperParams> read(const GgufFile& file);
};

struct ModelLimits {
  int max_batch_tokens = 256;   // rows of one step
  int max_logit_rows = 64;      // rows whose logits one step may ask for
  int guess_rows = 0;           // of these, beyond one for each sequence that may run
  int max_context = 4096;       // positions of one sequence
  int64_t n_pages = 256;        // KV pages in the pool
  KvType kv_type = KvType::kF16;
};

// What will be allocated, computed by the functions that allocate.
struct MemoryPlan {
  size_t weight_bytes, kv_bytes;
  size_t activation_bytes;      // buffers of one step, and the backend's scratch
  size_t page_bytes;            // all layers of one page
  size_t total() const { return weight_bytes + kv_bytes + activation_bytes; }
};

// One step's input. Rows of a segment are consecutive; all host memory.
struct Batch {
  std::span<const int32_t> tokens;        // one per row
  std::span<const Segment> segments;      // cover all rows in order
  std::span<const int32_t> logit_rows;    // rows whose logits are wanted, ascending
};

class Model {
 public:
  using Progress = std::function<void(float fraction)>;   // called from the loading thread

  // `file` may be destroyed after return unless the backend maps it. Every missing, surplus-shaped or
  // wrongly typed tensor is named in the Error.
  static Result<std::unique_ptr<Model>> load(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                             const Progress& progress);
  static Result<MemoryPlan> plan(const GgufFile& file, const Backend& backend, const ModelLimits& limits);

  virtual ~Model() = default;
  virtual const HyperParams& params() const = 0;
  virtual const ModelLimits& limits() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual KvCache& kv() = 0;
  virtual Backend& backend() = 0;

  // Runs one step. Returns host logits [logit_rows.size()][n_vocab], valid until the next call.
  // Does not allocate. The batch must respect limits(); tokens must be in range (asserted).
  virtual const float* forward(const Batch& batch) = 0;
};

}  // namespace monolith
