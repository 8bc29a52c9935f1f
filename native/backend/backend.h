// HOW the forward pass computes: one small interface that the CPU and CUDA backends implement. The
// model calls these operations in order, once per step; a kernel never sees a request.
//
// Pointers named `float*` point into memory the backend allocated (Backend::allocate): host memory on
// CPU, device memory on CUDA. Only read_floats() and the arguments marked "host" cross that line.
//
// Batch invariance is part of this contract: every output row of every operation is computed by an
// order of floating-point operations that depends on that row's own inputs (and, for attention, on its
// absolute position) and never on which other rows share the call, on how a sequence was cut into
// segments, or on the number of threads.
//
// Threads: one thread (the engine's) calls a backend at a time. After construction nothing allocates
// except the functions that say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/sampling.h"
#include "base/result.h"
#include "formats/gguf/tensor_type.h"

namespace monolith {

// Tokens per KV page. 16 floats fill one 512-bit vector: keys are stored position-innermost.
inline constexpr int kPageTokens = 16;

// A weight matrix [rows, cols] in the backend's own layout. Computes y = W x.
class Matrix {
 public:
  virtual ~Matrix() = default;
  int64_t rows = 0;    // outputs
  int64_t cols = 0;    // inputs
  TensorType type = TensorType::kF32;
  size_t bytes = 0;    // memory held
};

// Row-major source as GGUF stores it: `rows` rows of `cols` values of `type`. Host memory.
struct MatrixSource {
  TensorType type;
  int64_t rows;
  int64_t cols;
  std::span<const std::byte> data;
  bool fp8 = false;   // floats, to be kept as TensorType::kF8E4M3: keeps_fp8() only
};

// kQ8_0: 8-bit numbers, each 32 dimensions of a position and head with a binary16 scale. kFp8: e4m3 (OCP 8-bit
// floating point), each position and head with a power of two.
enum class KvType : uint8_t { kF16, kF32, kQ8_0, kFp8 };

struct KvShape {
  int n_layers;
  int n_kv_heads;
  int head_dim;
  int64_t n_pages;
  KvType type;
};

// Paged keys and values of all layers. A page holds kPageTokens positions of one sequence.
class KvCache {
 public:
  virtual ~KvCache() = default;
  KvShape shape{};
  size_t bytes = 0;
};

// A run of consecutive tokens of one sequence within a step.
struct Segment {
  int first_row;            // row of its first token in the step's activations
  int n_tokens;
  int first_position;       // absolute position of that first token
  const int32_t* pages;     // host; page of position p is pages[p / kPageTokens]; covers all positions used
};

enum class RopeStyle : uint8_t { kAdjacentPairs, kHalves };   // Llama GGUF layout; NeoX layout

struct RopeParams {
  RopeStyle style;
  int n_dims;                      // leading dimensions of each head that rotate
  const float* inverse_frequency;  // host, n_dims/2 values: angle = position * inverse_frequency[i]
  float magnitude = 1.0f;          // scales cos and sin (YaRN); 1 otherwise
};

// How one layer attends.
struct AttentionParams {
  float scale;               // of the scores: usually 1 / sqrt(head_dim)
  int window = 0;            // a row at position p sees p - window + 1 .. p; 0: all positions before it
  float soft_cap = 0.0f;     // scores become soft_cap * tanh(score / soft_cap); 0: none
  // Backend memory: of each query head a score that takes part in the softmax and has no value; null: none.
  const float* sinks = nullptr;
};

// One product of a matmul group: out[row * out_stride + r] = (add_to_out ? out : 0) + bias[r] + W x[row].
struct MatmulTarget {
  const Matrix* weight;
  float* out;
  int64_t out_stride;               // floats between rows of `out`
  const float* bias = nullptr;      // backend memory, `rows` floats
  bool add_to_out = false;          // residual connection
};

// Whether an operation's input is read again before it is written anew. If not, its memory may be left as it is or
// undefined, from before the operation on: a backend then need not have written it.
enum class InputUse : uint8_t { kAgain, kLast };

// Of a gated feed-forward network: act(gate) * up.
enum class Activation : uint8_t {
  kSilu,   // x / (1 + exp(-x))
  kGelu,   // x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3): GELU in its tanh form
  // Of a mixture only: x / (1 + exp(-1.702 x)) * (up + 1), x at most 7 and up within -7 and 7 (gpt-oss).
  kClampedSilu,
};

// A mixture of experts has so many rows of each weight per expert, or a multiple: where one expert's rows
// end, the next one's begin without a gap in any backend's layout.
inline constexpr int kExpertRowMultiple = 16;

// What the scratch of mixture() is sized for; all 0: there is none.
struct MixtureShape {
  int n_experts = 0;
  int n_used = 0;        // experts that compute each row
  int n_embd = 0;        // values of a row
  int n_ff = 0;          // values inside an expert
  bool operator==(const MixtureShape&) const = default;
};

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };   // over all experts; of each logit

// How a row chooses among experts, and how much each counts: by its score, whatever it was chosen by.
struct Router {
  RouterScore score = RouterScore::kSoftmax;
  // Backend memory, n_experts: added to the scores for the choice only (DeepSeek-V3, arXiv:2412.19437); null: none.
  const float* bias = nullptr;
  // Experts are chosen from `groups_used` of `groups` groups of equal size: those whose best two have the largest
  // sum. A group has two experts or more. 1 and 1: from all.
  int groups = 1, groups_used = 1;
  bool normalized = true;   // scores are divided by the sum of those chosen
  float scale = 1.0f;       // then all are multiplied by this
};

// One layer's mixture of experts. Matrices hold all experts, one below the other; biases likewise, in backend memory,
// null where there are none.
struct Mixture {
  MixtureShape shape;
  const Matrix* gate;      // [n_experts * n_ff, n_embd]
  const Matrix* up;        // the same
  const Matrix* down;      // [n_experts * n_embd, n_ff]
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  Activation activation = Activation::kSilu;
  Router router = {};
};

// What the operations of one step refer to. Host memory, the same until end_step().
struct StepInput {
  const void* model;                          // whose step this is: recorded steps are told apart by it
  std::span<const int32_t> tokens;            // one per row
  std::span<const int32_t> logit_rows;        // rows of `tokens`, ascending
  std::span<const std::span<const Segment>> segment_lists;   // every list that the operations name
  int max_rows;                               // that every buffer of the model has room for
  bool recordable = true;                     // its operations depend on nothing but this and on the model
};
inline constexpr size_t kMostSegmentLists = 16;

struct BackendInfo {
  std::string name;       // "cpu", "cuda"
  std::string isa;        // "plain", "avx2", "avx512", ...: the kernels that really run
  int threads;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  // What an operator should know of how it runs by now; empty: nothing. May be asked by any thread at any time.
  virtual std::string note() const { return {}; }

  // Bytes of memory of the device's own that are free; 0: it computes in the machine's memory.
  virtual uint64_t free_memory() const { return 0; }

  // What an allocation of `bytes` takes of free_memory(), and what running a model of so many layers takes of it beside
  // what is allocated for that (code, recorded steps): an estimate, and none too small is meant.
  virtual size_t memory_of(size_t bytes) const { return bytes; }
  virtual size_t overhead_bytes(int n_layers) const {
    static_cast<void>(n_layers);
    return 0;
  }

  // Whether it keeps matrices in FP8, a scale for each row, if it is asked to.
  virtual bool keeps_fp8() const { return false; }

  // --- loading: these allocate -----------------------------------------------------------------
  // Bytes matrix()/kv_cache() will hold for this shape; the memory plan asks here.
  virtual size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const = 0;
  virtual size_t kv_cache_bytes(const KvShape& shape) const = 0;
  // Copies and repacks. Errors: kUnsupported (shape), kOutOfMemory.
  virtual Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) = 0;
  virtual Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) = 0;
  // `count` floats, 64-byte aligned, zeroed, owned by the backend until it is destroyed.
  virtual Result<float*> allocate(int64_t count) = 0;
  virtual void write_floats(float* to, const float* host_from, int64_t count) = 0;
  virtual void read_floats(float* host_to, const float* from, int64_t count) = 0;
  // Whether allocate() gives host memory: then its floats are read where they lie once end_step() has returned.
  virtual bool is_host_memory() const { return false; }
  // Bytes reserve() will take for these sizes; the memory plan asks here.
  virtual size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                               const MixtureShape& mixture = {}) const = 0;
  // Sizes internal scratch for the largest step of any model here. Called after loading, before the first step.
  virtual Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                         const MixtureShape& mixture = {}) = 0;

  // Whether kv_cache() keeps keys and values so; asked before anything is loaded. kUnsupported names the setting.
  virtual Status can_keep(KvType) const { return {}; }
  // Whether mixture() computes such a layer; asked while loading. kUnsupported names what it does not.
  virtual Status can_mix(const Mixture&) const { return {}; }

  // --- one step: nothing below allocates -------------------------------------------------------
  // True: the backend has such a step recorded and computes it by itself in end_step(); the caller leaves its
  // operations out. A device's backend moves everything in `input` there before the first of them; operations may name other
  // segments or rows than these, which then cost a copy each.
  virtual bool begin_step(const StepInput& input) = 0;
  virtual void end_step() = 0;   // on return all results are visible to read_floats
  // Whether end_step() and begin_sample() return before the device has computed what was asked for: the engine then
  // uses that time for the host's part of the work. Operations of the next step may be asked for at any time: the
  // device does one after the other.
  virtual bool is_asynchronous() const { return false; }
  // Returns when all that was asked for is computed. Throws std::runtime_error if the device has failed.
  virtual void wait() {}

  // out[row] = row token[row] of `table`, dequantized. `tokens` host, each in [0, table.rows).
  virtual void embed(const Matrix& table, const int32_t* tokens, int n_rows, float* out) = 0;
  // out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight. In place allowed.
  virtual void rms_norm(const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out) = 0;
  // The same over each head of each row: x is [n_rows][n_heads][head_dim] with row_stride floats per row.
  virtual void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                              int n_heads, int head_dim) = 0;
  // Products of one input with several matrices of equal `cols`. x is [n_rows][cols], dense; `use` is what becomes of it.
  virtual void matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows,
                      InputUse use = InputUse::kAgain) = 0;
  // Rotates q [n_rows][n_heads][head_dim] and k [n_rows][n_kv_heads][head_dim] in place (dense rows given
  // by the strides), each row at its absolute position, then stores k and v into the pages of `layer`. With
  // n_dims 0 nothing rotates.
  virtual void rope_and_store(const RopeParams& rope, std::span<const Segment> segments, float* q,
                              int64_t q_stride, int n_heads, float* k, int64_t k_stride, const float* v,
                              int64_t v_stride, int layer, KvCache& cache) = 0;
  // Causal attention of each row over positions 0 .. its own (or its window), keys and values from the pages.
  // q and out: [n_rows][n_heads][head_dim]. Query head h uses KV head h / (n_heads / n_kv_heads).
  virtual void attention(std::span<const Segment> segments, const float* q, int64_t q_stride, int n_heads,
                         int layer, const KvCache& cache, const AttentionParams& params, float* out,
                         int64_t out_stride) = 0;
  // out[row][i] = activation(gate[row][i]) * up[row][i]; dense, out may be gate.
  virtual void gated(Activation activation, const float* gate, const float* up, int n_rows, int64_t dim,
                     float* out) = 0;
  // x[i] *= factor.
  virtual void scale(float* x, int64_t count, float factor) = 0;
  // x[i] = cap * tanh(x[i] / cap).
  virtual void soft_cap(float* x, int64_t count, float cap) = 0;
  // x[row] += factor * y[row], and where `gate` is given (one value per row) that times sigmoid(gate[row]).
  virtual void add_rows(float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) = 0;
  // out[row] = (add_to_out ? out[row] : 0) + sum over the experts e chosen for the row, the first choice first, of
  // weight_e * down_e (activation(gate_e x[row]) * up_e x[row]). The router chooses by router_logits[row][n_experts],
  // the lower index first among equals. Must have been reserved for; x, router_logits and out dense, out not x.
  virtual void mixture(const Mixture& mixture, const float* router_logits, const float* x, int n_rows,
                       float* out, bool add_to_out) = 0;
  // out[i] = x[rows[i]]; `rows` host.
  virtual void gather_rows(const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) = 0;

  // Copies one page of all layers (copy on write for forks).
  virtual void copy_page(KvCache& cache, int32_t from, int32_t to) = 0;

  // --- between steps -----------------------------------------------------------------------------
  // Calls work(context, i, thread) for 0 <= i < n, begun in this order, on up to host_threads() threads with as many
  // `thread` numbers from 0, and returns when all are done. For work of the host's own that the next step waits for,
  // like sampling: the threads of a backend that computes on the host lie idle then. `work` may not throw.
  using HostWork = void (*)(const void* context, int64_t i, int thread);
  virtual int host_threads() const { return 1; }
  virtual void run_on_host(int64_t n, HostWork work, const void* context) {
    for (int64_t i = 0; i < n; ++i) work(context, i, 0);
  }

  // Whether sample() may be called for rows of `n_vocab` logits. If not, the host samples them.
  virtual bool can_sample(int n_vocab) const {
    static_cast<void>(n_vocab);
    return false;
  }
  // Allocates what sample() needs for rows of `n_vocab` logits, `most_tasks` of them at a time: more are no error, but
  // may take longer. Errors: kOutOfMemory.
  virtual Status reserve_samples(int n_vocab, int most_tasks) {
    static_cast<void>(n_vocab), static_cast<void>(most_tasks);
    return Error{ErrorCode::kUnsupported, "this backend does not sample"};
  }
  // results[i] = the answer to tasks[i] (sampling.h), whose logits are this backend's memory.
  virtual void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
    static_cast<void>(n_vocab), static_cast<void>(tasks), static_cast<void>(results);
  }
  // The same in two parts: the first may return before anything is computed, the second, with the same tasks, waits for
  // the answers. Nothing else is sampled in between; whoever begins anew, or calls sample(), gives up what was begun.
  virtual void begin_sample(int n_vocab, std::span<const SampleTask> tasks) {
    static_cast<void>(n_vocab), static_cast<void>(tasks);
  }
  virtual void end_sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
    sample(n_vocab, tasks, results);
  }
};

}  // namespace monolith
