// WHAT is computed: hyper-parameters and weights of one model, and the order of operations of its
// forward pass. Knows nothing of requests or scheduling.
#pragma once

#include <algorithm>
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

// Where queries and keys pass a norm before they are rotated, or after that.
enum class QkNorm : uint8_t {
  kNone,
  kEachHead,
  kEachHeadApart,  // of each head, with a mean and weights of its own
  kWholeRow,
  kEachHeadRotated,
  kUnweightedRotated,  // of each head, without weights, in layers that rotate
};

enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * weight
  kLayer,  // (x - mean) / deviation * weight
};

// The part of a layer that lets positions see each other.
enum class MixerKind : uint8_t {
  kAttention,
  kLatentAttention,  // MLA: keys and values of all heads from one row of latents
  kBlockAttention,   // of one row of latents as well, to a window and to blocks of positions before it
  kDeltaNet,
  kMamba2,
  kShortConvolution,
  kAttentionAndMamba2,  // side by side on one norm, added
  kNone,
};

// The part that computes each position by itself.
enum class FeedForwardKind : uint8_t {
  kGated,    // W_down (activation(W_gate x) * W_up x)
  kPlain,    // W_down activation(W_up x)
  kMixture,  // experts, with or without a network that all rows pass
  // A gated network and experts, each between norms of its own, added (Gemma 4).
  kGatedAndMixture,
  kNone,
};

// Which angles a layer turns queries and keys by; layers share them.
struct RopeSet {
  int n_dims = 0;                        // leading dimensions of a head that turn
  std::vector<float> inverse_frequency;  // n_dims / 2, factors and scaling already applied
  float magnitude = 1.0f;                // scales cos and sin (YaRN, LongRoPE)
  float score_factor = 1.0f;             // scales the scores of latent attention besides (YaRN)
  std::vector<uint8_t> axes;             // RopeParams::axes; empty: one number turns all
};

// Of layers whose mixer is a delta net (DeltaRule): all alike.
struct DeltaNetParams {
  int n_key_heads = 0, n_value_heads = 0, key_dim = 0, value_dim = 0;
  int n_taps = 0;              // of the convolution that queries, keys and values pass
  bool tiled = false;          // DeltaRule::tiled
  bool channel_decay = false;  // DeltaRule::channel_decay
  bool apart = false;          // each of queries, keys and values has a matrix and a convolution; gate and decay come
  int low_rank = 0;            // through so many values
  bool grouped_beta = false;   // beta and decay lie in one matrix, by key head
  bool grouped_mixed = false;  // and so do queries, keys, values and the gate, in files from before they did not
  Activation gate = Activation::kSilu;  // of the result

  int64_t keys() const { return int64_t{n_key_heads} * key_dim; }
  int64_t values() const { return int64_t{n_value_heads} * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  // Without weights. `eps`: the network's norms'.
  DeltaRule rule(float eps) const {
    return {.n_key_heads = n_key_heads,
            .n_value_heads = n_value_heads,
            .key_dim = key_dim,
            .value_dim = value_dim,
            .tiled = tiled,
            .channel_decay = channel_decay,
            .norm_eps = eps};
  }
  int64_t decays() const { return rule(0).decays(); }
};

// Of layers whose mixer is a state space (StateSpace), or has one: all alike.
struct StateSpaceParams {
  int n_heads = 0, n_groups = 0, head_dim = 0, state_dim = 0;
  int n_taps = 0;         // of the convolution that x, B and C pass
  bool out_norm = false;  // of the gated result, in as many groups
  bool convolution_bias = true;

  // Without weights.
  StateSpace space() const {
    return {.n_heads = n_heads, .n_groups = n_groups, .head_dim = head_dim, .state_dim = state_dim};
  }
  int64_t width() const { return space().width(); }
  int64_t channels() const { return width() + 2 * space().group_width(); }  // x, B and C
};

// What one layer may do otherwise than its neighbours.
struct LayerParams {
  MixerKind mixer = MixerKind::kAttention;
  FeedForwardKind feed_forward = FeedForwardKind::kGated;
  // Of attention; of latent attention what its queries see: one head, whose key is a row of latents. See LatentParams.
  int n_heads = 0, n_kv_heads = 0, key_dim = 0, value_dim = 0;
  int n_ff = 0;    // values inside its feed-forward network; of the experts' see ExpertParams
  int window = 0;  // positions a row sees, its own included; 0: all up to its own
  int rope = 0;    // index into HyperParams::ropes; -1: nothing rotates
  int kv_of = -1;  // attends to the keys and values that this earlier layer keeps, and keeps none; -1: its own
  float attention_scale = 1.0f;    // of scores
  bool sinks = false;              // AttentionParams::sinks
  bool chunked = false;            // AttentionParams::chunked
  Xielu xielu = {};                // of Activation::kXielu
  float temperature_scale = 0.0f;  // as AttentionParams has them
  int temperature_length = 1, temperature_offset = 0;
  // Of block attention: positions that one row stands for, 0: there is the window alone; and BlockPool::overlap.
  int block = 0;
  bool blocks_overlap = false;
  bool chooses = false;       // it has an index of its own (IndexParams), by which rows choose what they attend to
  bool output_gate = false;   // what attention gives is scaled by a sigmoid of the row, each number by its own
  bool value_is_key = false;  // no projection of values: they are the keys before their norm and rotation
  float output_scale = 1.0f;  // of the residual stream behind the layer
  // Gating::limit, of the experts and of a network that all rows pass; 0: none.
  float expert_limit = 0.0f, gate_limit = 0.0f;
  bool fused_qkv = false;  // one tensor holds Q, K and V, one below the other
  // Of the gate's numbers only what lies so many standard deviations above their mean is kept; 0: all.
  float sparse_deviations = 0.0f;

  bool experts_by_token = false;  // a row's token says which experts it has, and the router only how much they count

  bool latent() const { return mixer == MixerKind::kLatentAttention; }
  bool keeps_latents() const { return latent() || mixer == MixerKind::kBlockAttention; }
  bool attends() const {
    return mixer == MixerKind::kAttention || mixer == MixerKind::kAttentionAndMamba2 || keeps_latents();
  }
  // How its blocks become rows of `dim` numbers, without weights.
  BlockPool pool(int dim) const { return {.dim = dim, .block = block, .overlap = blocks_overlap}; }
  // It takes room in the pages of keys and values.
  bool keeps_pages() const { return attends() && kv_of < 0; }
  bool has_state_space() const { return mixer == MixerKind::kMamba2 || mixer == MixerKind::kAttentionAndMamba2; }
  bool mixture() const { return feed_forward == FeedForwardKind::kMixture; }
  bool has_experts() const { return mixture() || feed_forward == FeedForwardKind::kGatedAndMixture; }
};

// The experts of the layers that have them.
struct ExpertParams {
  int count = 0;  // 0: there are none, and the rest means nothing
  int used = 0;   // of each row
  int n_ff = 0;   // values inside an expert
  // experts read so many numbers made of a row, and one matrix makes a row of theirs; 0: rows
  int latent = 0;
  Router router;               // its bias is a layer's own
  bool choice_bias = false;    // Router::bias
  bool biases = false;         // of the router's logits and of every expert's three matrices
  int n_ff_shared = 0;         // of the network that all rows pass besides; 0: none
  bool shared_gate = false;    // its result is scaled by a sigmoid of the row
  bool gateless = false;       // none of these networks has a gate
  bool weighs_input = false;   // Mixture::weighs_input
  bool fused_gate_up = false;  // one tensor holds each expert's gate and below it its up
  bool scales = false;         // of experts beside a network: Router::expert_scales
};

// Numbers that each layer gets of a row's token beside the residual stream (Gemma 3n and 4).
struct PerLayerInputs {
  int dim = 0;  // of each layer; 0: there are none
};

// Several residual streams, of which one passes the layer's parts and the others are predicted and corrected (AltUp,
// Baykal et al. 2023, arXiv:2301.13310), and a low-rank path beside attention (LAuReL, arXiv:2411.07501): Gemma 3n.
struct StreamParams {
  int count = 1;  // 1: the residual stream alone, and no path beside attention
  int laurel_rank = 0;
};

// How rows choose among latents (PositionIndex), where there are so many that the choice matters. Layers without an index
// of their own go by the choice of the last one before them that has one.
struct IndexParams {
  int most = 0;  // positions chosen; 0: there is no index
  int n_heads = 0, key_dim = 0;
  RopeStyle rope_style = RopeStyle::kHalves;  // of the leading dimensions, by the layer's angles
  float norm_eps = 1e-6f;                     // of the norm with mean and bias that keys pass
};

// What layers with latent attention have in common. A row of latents, `rank` numbers past a norm and `shared_dim` that
// rotate, is the key of all heads at once: a matrix of each head takes its query to the former, and another one takes
// what it attends to out of them.
struct LatentParams {
  int rank = 0;                    // 0: there are no such layers
  int shared_dim = 0;              // the last dimensions of every head's query
  int key_dim = 0, value_dim = 0;  // of a head
  int q_rank = 0;                  // queries are made from so many numbers, past a norm of their own; 0: at once
  bool split = true;               // the file has each head's two matrices apart
  IndexParams index;
};

struct EagleParams;  // eagle_params.h

// What guesses tokens beside the network (guess_layer.h): layers behind its own (multi-token prediction), or a head from a
// file of its own (EAGLE-3).
struct GuessLayerParams {
  bool used = false;                         // it is there and computed
  int n_levels = 1;                          // layers, each of which says what comes a token later than the one before
  std::shared_ptr<const EagleParams> eagle;  // the head; null: layers, of which all below speaks
  // The hidden rows it reads have passed the network's last norm, and those it reads of itself its own.
  bool normed = false;
  bool own_embedding = false, own_head = false;  // else the network's
  std::string_view head_norm_name;               // of its norm before the head; empty: the network's
};

// What layers with block attention have in common beside LatentParams::q_rank and its index. Each head's result rotates
// back, and groups of heads have a matrix each that takes theirs to output_rank numbers.
struct BlockAttentionParams {
  int n_groups = 0;  // of heads; 0: there are no such layers
  int output_rank = 0;
  int n_rotated = 0;  // the last dimensions of every head
};

// Several residual streams that every part reads from and writes to (StreamMix).
struct StreamMixParams {
  int n_streams = 0;  // 0: there is one, and nothing is mixed
  int iterations = 0;
  float eps = 0;

  // Without weights.
  StreamMix mix(bool reads_only) const {
    return {.n_streams = n_streams, .iterations = iterations, .eps = eps, .reads_only = reads_only};
  }
};

// What a network computes, in full: the forward pass asks for no architecture's name.
struct HyperParams {
  std::string architecture_name;  // as in the file
  int n_vocab, n_embd, n_layers;
  int n_guess_layers = 0;  // further layers in the file, which guess tokens
  GuessLayerParams guess;  // the first of these, if asked for, or a head in their place
  int context_length;      // what the file says the model was made for
  NormKind norm = NormKind::kRms;
  float norm_eps;

  RopeStyle rope_style;
  std::vector<RopeSet> ropes;  // one or two
  // Rows of embedding spans have so many further parts, each as long as the first, which are added to the residual
  // stream behind the first so many layers (DeepStack, Meng et al. 2024, arXiv:2406.04334).
  int n_deepstack = 0;
  std::vector<LayerParams> layers;  // n_layers, and behind them those that guess, if they are used

  float attention_soft_cap = 0.0f;  // of scores; 0: none
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // of what attention and feed-forward add
  float logit_scale = 1.0f;
  float logit_soft_cap = 0.0f;  // after the scale; 0: none

  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool pre_norm = true;    // a norm before attention and before the feed-forward network
  bool post_norm = false;  // a norm after each, before it is added
  // The feed-forward network reads the norm that the mixer reads, and both results are added to what that norm was of.
  bool parallel_residual = false;
  std::string_view ffn_norm_name = "ffn_norm.weight";  // of the norm before the feed-forward network
  std::string_view output_norm_name = "output_norm.weight";
  ExpertParams experts;
  LatentParams latents;
  BlockAttentionParams blocks;
  DeltaNetParams delta_net;
  StateSpaceParams state_space;
  int convolution_taps = 0;  // of layers whose mixer is a short convolution
  PerLayerInputs per_layer;
  StreamParams streams;
  StreamMixParams stream_mix;
  bool limits_input = false;  // Gating::limits_input
  float value_scale = 1.0f;   // of what attention gathers
  bool value_norm = false;    // each head of the values passes a norm without weights
  bool head_gates = false;    // each head's result is scaled by a sigmoid of the row

  bool tied_output;        // no output.weight: the embedding table is used
  bool norm_bias = false;  // as all below: the architecture has them, or the file carries them
  bool output_bias = false;
  bool qkv_bias;
  bool attention_bias;  // on attention's output
  bool gate_bias, up_bias, down_bias;
  bool fused_gate_up;  // ffn_up holds gate and up

  // Numbers of an embedding span's row.
  int64_t input_width() const { return int64_t{n_embd} * (1 + n_deepstack); }
  // Rows have rotary positions of three numbers.
  bool turns_by_three() const { return !ropes.empty() && !ropes[0].axes.empty(); }
  bool has_delta_nets() const { return delta_net.n_value_heads > 0; }
  bool has_state_spaces() const { return state_space.n_heads > 0; }
  // The most that any layer has.
  int most(int LayerParams::*field) const {
    int most = 0;
    for (const LayerParams& layer : layers) most = std::max(most, layer.*field);
    return most;
  }

  // `max_context`: the positions one sequence may have, which decides between the frequencies that
  // LongRoPE keeps for short and long contexts; 0 stands for context_length. `guess_layer`: with the layer that
  // guesses, if the file has one that this build computes. Errors name the key: kInvalidFile (missing, out of range),
  // kUnsupported (architecture, scaling kind).
  static Result<HyperParams> read(const GgufFile& file, int max_context = 0, bool guess_layer = false);
};

struct ModelLimits {
  int max_batch_tokens = 256;  // rows of one step
  int max_logit_rows = 64;     // rows whose logits one step may ask for
  int guess_rows = 0;          // of these, beyond one for each sequence that may run
  int max_context = 4096;      // positions of one sequence
  int64_t n_pages = 256;       // KV pages in the pool
  int n_slots = 16;            // of recurrent state, where the model has any
  KvType kv_type = KvType::kF16;
  bool pages_by_window = false;  // see KvLayout; false: one page table for all layers
  bool guess_layer = false;      // with the layer that guesses, where the file has one: see Model::guesses()

  // Hidden rows of a sequence that are kept between steps for that layer: of its last token, and of guesses behind it.
  int kept_of_each() const { return 1 + guess_rows; }
  int most_sequences() const { return std::max(1, max_logit_rows - guess_rows); }
  int kept_rows() const { return most_sequences() * kept_of_each(); }
};

// What will be allocated, computed by the functions that allocate.
struct MemoryPlan {
  size_t weight_bytes;
  size_t kv_bytes;                // at most: see kv_start_bytes
  size_t activation_bytes;        // buffers of one step, and the backend's scratch
  size_t page_bytes;              // one page
  size_t kv_start_bytes = 0;      // of kv_bytes, taken by the load; the rest becomes memory as pages are first used
  size_t slot_bytes = 0;          // recurrent state of one sequence; 0: the model has none
  size_t slots_bytes = 0;         // of all slots
  size_t overhead_bytes = 0;      // what a device takes beside all these: an estimate, not in total()
  KvLayout layout = {};           // of keys and values over pages
  size_t guess_weight_bytes = 0;  // of the weights, those of the layer that guesses
  size_t huge_bytes = 0;          // of a loaded model's weights, those in pages of 2 MiB; 0: not known
  size_t total() const { return weight_bytes + kv_bytes + slots_bytes + activation_bytes; }
};

// Rows of a step that are rows of an embedding span.
struct EmbeddedRows {
  int first_row = 0, n_rows = 0;
  const float* rows = nullptr;  // [n_rows][HyperParams::input_width()]
};

// Consecutive rows of one sequence in a step, for the layer that guesses. Kept rows are numbered from 0 to
// ModelLimits::kept_rows() - 1.
struct HiddenRun {
  int first_row, n_rows;
  int from;    // the kept row of the position before the first; -1: there is none, as before a text's beginning
  int to;      // the first of those to keep its last rows in,
  int n_kept;  // so many
};

// One step's input. Rows of a segment are consecutive; all host memory.
struct Batch {
  std::span<const int32_t> tokens;  // one per row; of embedded rows any that is in range
  // Cover all rows in order, and again for each further table of MemoryPlan::layout: the same runs of rows, with
  // that table's pages. Of tables of layers with a window, pages that no row sees any more are not looked at.
  std::span<const Segment> segments;
  std::span<const int32_t> logit_rows;  // rows whose logits are wanted, ascending
  bool leaves_logits = false;           // in the backend's memory, for its sample()
  // Cover all rows in order; the layer that guesses then keeps what it needs of them. Empty: it does not.
  std::span<const HiddenRun> hidden = {};
  std::span<const EmbeddedRows> embedded = {};  // ascending
};

// One pass of the layer that guesses: of each sequence a row, which says what follows its token. Where there are several
// levels (GuessLayerParams), of the pass of level k the k rows before it as well, which no step has given that level.
struct GuessBatch {
  std::span<const int32_t> tokens;
  std::span<const Segment> segments;  // of each sequence one; tables as in Batch
  // Of each row the hidden row of the position before: a kept one, or -1 - i for what row i of the last pass has left.
  std::span<const int32_t> hidden;
  int level = 0;  // behind the last level: that one's again
};

class Model {
 public:
  using Progress = std::function<void(float fraction)>;  // called from the loading thread

  // `file` may be destroyed after return unless the backend maps it. Every missing, surplus-shaped or
  // wrongly typed tensor is named in the Error. `head`: a file that guesses for this one (eagle_params.h), in the place of
  // layers of its own; null: there is none.
  static Result<std::unique_ptr<Model>> load(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                             const Progress& progress, const GgufFile* head = nullptr);
  static Result<MemoryPlan> plan(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                                 const GgufFile* head = nullptr);

  virtual ~Model() = default;
  virtual const HyperParams& params() const = 0;
  virtual const ModelLimits& limits() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual KvCache& kv() = 0;
  virtual Backend& backend() = 0;

  // Runs one step. Returns logits [logit_rows.size()][n_vocab], of the host unless the batch leaves them with the
  // backend, valid until the next call.
  // Does not allocate, but where logits are read from a backend that samples itself. The batch must respect limits();
  // tokens must be in range (asserted).
  virtual const float* forward(const Batch& batch) = 0;

  // Whether it has a layer that guesses, and forward() feeds it.
  virtual bool guesses() const { return false; }
  // Which tokens that layer's logits are of, ascending or not; empty: of all, in their order.
  virtual std::span<const int32_t> guessed_tokens() const { return {}; }
  virtual int guess_levels() const { return 1; }
  // One pass of that layer over at most as many sequences as steps may have rows of logits, and rows as they may have rows:
  // returns the logits of each sequence's last, one of each of guessed_tokens() or of n_vocab, of the host, valid until the
  // next call of either. Writes the layer's keys and values at the rows' positions, which
  // the next step that computes them writes anew. Does not allocate.
  virtual const float* guess(const GuessBatch& batch) { return static_cast<void>(batch), nullptr; }
};

}  // namespace monolith
