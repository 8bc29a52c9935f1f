// WHAT is computed: hyper-parameters and weights of one model, and the order of operations of its
// forward pass. Knows nothing of requests or scheduling.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/kv_layout.h"

namespace monolith {

// Where queries and keys pass a norm before they are rotated.
enum class QkNorm : uint8_t { kNone, kEachHead, kWholeRow };

// Which angles a layer turns queries and keys by; layers share them.
struct RopeSet {
  std::vector<float> inverse_frequency;   // rope_dims / 2, factors and scaling already applied
  float magnitude = 1.0f;                 // scales cos and sin (YaRN, LongRoPE)
};

// What one layer may do otherwise than its neighbours.
struct LayerParams {
  int n_kv_heads = 0, key_dim = 0, value_dim = 0;   // of what it keeps
  int window = 0;   // positions a row sees, its own included; 0: all up to its own
  int rope = 0;     // index into HyperParams::ropes; -1: nothing rotates
  bool mixture = false;   // experts in the place of its feed-forward network
};

// The experts of the layers that have them.
struct ExpertParams {
  int count = 0;             // 0: there are none, and the rest means nothing
  int used = 0;              // of each row
  int n_ff = 0;              // values inside an expert
  Router router;             // its bias is a layer's own
  bool choice_bias = false;  // Router::bias
  bool biases = false;       // of the router's logits and of every expert's three matrices
  int n_ff_shared = 0;       // of the network that all rows pass besides; 0: none
  bool shared_gate = false;  // its result is scaled by a sigmoid of the row
};

// What a network computes, in full: the forward pass asks for no architecture's name.
struct HyperParams {
  std::string architecture_name;   // as in the file
  int n_vocab, n_embd, n_layers, n_heads, n_kv_heads, head_dim;
  int n_ff;                        // of the feed-forward network of layers without experts
  int n_guess_layers = 0;          // further layers in the file, which guess tokens: not computed
  int context_length;              // what the file says the model was made for
  float rms_eps;

  RopeStyle rope_style;
  int rope_dims;
  std::vector<RopeSet> ropes;        // one or two
  std::vector<LayerParams> layers;   // n_layers

  float attention_scale;             // of scores
  float attention_soft_cap = 0.0f;   // of scores; 0: none
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;       // of what attention and feed-forward add
  float logit_scale = 1.0f;
  float logit_soft_cap = 0.0f;       // after the scale; 0: none

  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool pre_norm = true;    // a norm before attention and before the feed-forward network
  bool post_norm = false;  // a norm after each, before it is added
  std::string_view ffn_norm_name = "ffn_norm.weight";  // of the norm before the latter
  ExpertParams experts;

  bool tied_output;         // no output.weight: the embedding table is used
  bool qkv_bias;            // the architecture has them, or the file carries them
  bool attention_sinks = false;   // AttentionParams::sinks
  bool attention_bias;      // on attention's output; as all below, if the file carries it
  bool gate_bias, up_bias, down_bias;
  bool fused_qkv;           // one tensor holds Q, K and V, one below the other
  bool fused_gate_up;       // ffn_up holds gate and up

  // `max_context`: the positions one sequence may have, which decides between the frequencies that
  // LongRoPE keeps for short and long contexts; 0 stands for context_length. Errors name the key:
  // kInvalidFile (missing, out of range), kUnsupported (architecture, scaling kind).
  static Result<HyperParams> read(const GgufFile& file, int max_context = 0);
};

struct ModelLimits {
  int max_batch_tokens = 256;   // rows of one step
  int max_logit_rows = 64;      // rows whose logits one step may ask for
  int guess_rows = 0;           // of these, beyond one for each sequence that may run
  int max_context = 4096;       // positions of one sequence
  int64_t n_pages = 256;        // KV pages in the pool
  KvType kv_type = KvType::kF16;
  bool pages_by_window = false;  // see KvLayout; false: one page table for all layers
};

// What will be allocated, computed by the functions that allocate.
struct MemoryPlan {
  size_t weight_bytes, kv_bytes;
  size_t activation_bytes;      // buffers of one step, and the backend's scratch
  size_t page_bytes;            // one page
  size_t overhead_bytes = 0;    // what a device takes beside all these: an estimate, not in total()
  KvLayout layout = {};         // of keys and values over pages
  size_t total() const { return weight_bytes + kv_bytes + activation_bytes; }
};

// One step's input. Rows of a segment are consecutive; all host memory.
struct Batch {
  std::span<const int32_t> tokens;        // one per row
  // Cover all rows in order, and again for each further table of MemoryPlan::layout: the same runs of rows, with
  // that table's pages. Of tables of layers with a window, pages that no row sees any more are not looked at.
  std::span<const Segment> segments;
  std::span<const int32_t> logit_rows;    // rows whose logits are wanted, ascending
  bool leaves_logits = false;             // in the backend's memory, for its sample()
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
  // Whether positions may be rows of embedding spans in the place of tokens.
  virtual bool takes_embeddings() const { return false; }

  // Runs one step. Returns logits [logit_rows.size()][n_vocab], of the host unless the batch leaves them with the
  // backend, valid until the next call.
  // Does not allocate, but where logits are read from a backend that samples itself. The batch must respect limits();
  // tokens must be in range (asserted).
  virtual const float* forward(const Batch& batch) = 0;
};

}  // namespace monolith
