// A model's computation: its hyperparameters, its weights and the order of operations in its forward pass. This module
// does not depend on requests or scheduling.
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
#include "model/adapter.h"
#include "model/kv_layout.h"
#include "model/pooling.h"

namespace monolith {

// Whether queries and keys are normalized and, if so, whether before or after RoPE.
enum class QkNorm : uint8_t {
  kNone,
  kEachHead,
  kEachHeadApart,  // HyperParams::norm per head, with separate weights for each head.
  kWholeRow,
  kEachHeadRotated,
  kUnweightedRotated,  // Per head, without weights, and only in layers with RoPE.
};

enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * weight
  kLayer,  // (x - mean) / deviation * weight
};

// The token mixer: the part of a layer in which a token reads other positions.
enum class MixerKind : uint8_t {
  kAttention,
  kLatentAttention,  // MLA: the keys and values of all heads come from one latent vector per position.
  // Like kLatentAttention, one latent vector per position, but attention covers a sliding window and compressed blocks
  // of earlier positions.
  kBlockAttention,
  kDeltaNet,
  kMamba2,
  kShortConvolution,
  kLinear,              // One matrix, without reading other positions.
  kAttentionAndMamba2,  // Attention and Mamba-2 in parallel, on the same normalized input; their outputs are added.
  kTimeMix,             // RWKV's time mixing (TimeMix).
  kMamba,               // Mamba, or PLaMo 2's Mamba-2: B, C and the steps are projections of the convolved x.
  kNone,
};

// The part of a layer that processes each position separately.
enum class FeedForwardKind : uint8_t {
  kGated,    // W_down (activation(W_gate x) * W_up x)
  kPlain,    // W_down activation(W_up x)
  kMixture,  // Mixture of experts, optionally with a shared expert.
  // A gated MLP, and experts that read their own norm of the layer's input; both outputs are added (Arctic).
  kGatedBesideMixture,
  // A gated MLP and experts in parallel, each between its own pair of norms; the two outputs are added (Gemma 4).
  kGatedAndMixture,
  kChannelMix,  // RWKV: a network without a gate that also reads the previous token's input.
  kNone,
};

// RoPE parameters that several layers share.
struct RopeSet {
  int n_dims = 0;                        // Number of leading dimensions of a head that rotate.
  std::vector<float> inverse_frequency;  // n_dims / 2 RoPE frequencies, with all factors and scaling applied.
  float magnitude = 1.0f;                // Multiplies cos and sin (YaRN, LongRoPE).
  float score_factor = 1.0f;             // Multiplies the attention scores of MLA layers (YaRN).
  // Selects the position component for each pair (see RopeParams::axes). If empty, a single position component rotates
  // all dimensions.
  std::vector<uint8_t> axes;
};

// Parameters of the delta-net layers (DeltaRule). All these layers have the same parameters.
struct DeltaNetParams {
  int n_key_heads = 0, n_value_heads = 0, key_dim = 0, value_dim = 0;
  int conv_kernel_size = 0;    // Kernel size of the convolution over queries, keys and values.
  bool tiled = false;          // See DeltaRule::tiled.
  bool channel_decay = false;  // See DeltaRule::channel_decay.
  // Queries, keys and values have separate matrices and convolutions; gate and decay use low-rank projections.
  bool apart = false;
  int low_rank = 0;            // Rank of the gate and decay projections.
  bool grouped_beta = false;   // Beta and decay share a matrix, grouped by key head.
  bool grouped_mixed = false;  // Queries, keys, values and gate share a matrix, grouped by key head (older files).
  Activation gate = Activation::kSilu;  // Activation of the output gate.

  int64_t keys() const { return int64_t{n_key_heads} * key_dim; }
  int64_t values() const { return int64_t{n_value_heads} * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  // Returns the rule without weights. `eps` is the epsilon of the model's norms.
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

// The norms of the steps, B and C in MixerKind::kMamba layers.
enum class ProjectionNorm : uint8_t { kNone, kUnweighted, kWeighted };

// Parameters of the state-space layers (StateSpace). All these layers have the same parameters.
struct StateSpaceParams {
  int n_heads = 0, n_groups = 0, head_dim = 0, state_dim = 0;
  int conv_kernel_size = 0;  // Kernel size of the convolution over x, B and C.
  bool out_norm = false;     // Whether the gated output is normalized, in `n_groups` groups.
  bool convolution_bias = true;
  // Rank of the projection from the convolved x to the steps. 0 = Mamba-2, in which the steps, B and C are projections
  // of the layer's input, and B and C are convolved too. The other fields apply only if this value is not 0.
  int step_rank = 0;
  bool channel_steps = false;  // See StateSpace::channel_steps.
  // PLaMo 2: in ssm_in, each head's gate is followed by its x, and in ssm_x, the steps come after B and C. Otherwise, x
  // is followed by the gate, and the steps come first.
  bool gate_first = false;
  ProjectionNorm projection_norm = ProjectionNorm::kNone;

  // Returns the state-space model without weights.
  StateSpace space() const {
    return {.n_heads = n_heads,
            .n_groups = n_groups,
            .head_dim = head_dim,
            .state_dim = state_dim,
            .channel_steps = channel_steps};
  }
  int64_t width() const { return space().width(); }
  // Channels of the convolution: x, and in Mamba-2 also B and C.
  int64_t channels() const { return width() + (step_rank > 0 ? 0 : 2 * space().group_width()); }
};

// Parameters of the RWKV layers. All these layers have the same parameters.
struct RwkvParams {
  bool delta = false;                                // RWKV 7, otherwise RWKV 6.
  int n_heads = 0, head_dim = 0;                     // n_heads 0: there are no such layers.
  int decay_rank = 0;                                // Ranks of the low-rank projections.
  int rate_rank = 0, value_rank = 0, gate_rank = 0;  // RWKV 7.
  int shift_rank = 0;                                // RWKV 6: of the projections that shift ShiftedInput::mu.
  bool fused_mu = true;  // Whether one tensor has the vectors `mu` of all inputs of time mixing.

  // Number of inputs of time mixing: r, w, k, v, a and g in RWKV 7; w, k, v, r and g in RWKV 6.
  int inputs() const { return n_heads == 0 ? 0 : delta ? 6 : 5; }
  // Returns the time mixing without weights. The epsilon of its norm is fixed.
  TimeMix mix() const { return {.delta = delta, .n_heads = n_heads, .head_dim = head_dim, .norm_eps = 64e-5f}; }
  int max_rank() const { return std::max({decay_rank, rate_rank, value_rank, gate_rank, shift_rank}); }
};

// Parameters that may differ between layers.
struct LayerParams {
  MixerKind mixer = MixerKind::kAttention;
  FeedForwardKind feed_forward = FeedForwardKind::kGated;
  // Attention head counts and sizes. MLA layers have a single KV head whose key is a latent vector (see LatentParams).
  int n_heads = 0, n_kv_heads = 0, key_dim = 0, value_dim = 0;
  int n_ff = 0;  // Width of the dense feed-forward network. For experts, see ExpertParams.
  // Sliding window: the number of positions that a token attends to, including its own; 0 = all positions up to its
  // own.
  int window = 0;
  int rope = 0;    // Index into HyperParams::ropes; -1: no RoPE.
  int kv_of = -1;  // Index of an earlier layer whose keys and values this layer uses; -1 = the layer has its own.
  float attention_scale = 1.0f;    // Scale of the attention scores.
  bool sinks = false;              // See AttentionParams::sinks.
  bool chunked = false;            // See AttentionParams::chunked.
  Xielu xielu = {};                // Parameters of Activation::kXielu.
  float temperature_scale = 0.0f;  // Attention temperature; see AttentionParams.
  int temperature_length = 1, temperature_offset = 0;
  // Block attention: the number of positions per compressed block (0 = the layer has only a sliding window), and
  // whether blocks overlap (BlockPool::overlap).
  int block = 0;
  bool blocks_overlap = false;
  // Whether the layer has its own sparse-attention indexer (IndexParams), which selects the positions to attend to.
  bool chooses = false;
  // Whether the attention output is multiplied elementwise by a sigmoid gate computed from the layer's input.
  bool output_gate = false;
  bool output_gate_apart = false;  // Whether attn_gate.weight holds the gate's matrix, not a part of attn_q.weight.
  // Whether the layer has no value projection. Its keys before norm and RoPE then serve as values.
  bool value_is_key = false;
  float output_scale = 1.0f;  // Factor for the residual stream after the layer.
  // The values of Gating::limit: one for the experts, and one for the dense network or shared expert; 0 = no limit.
  float expert_limit = 0.0f, gate_limit = 0.0f;
  bool fused_qkv = false;  // Whether one tensor holds Q, K and V, concatenated by rows.
  // Keeps only gate values that exceed the mean of all gate values by this many standard deviations; 0 = keep all
  // values.
  float sparse_deviations = 0.0f;

  // Whether the token ID determines the experts, so that the router computes only their weights.
  bool experts_by_token = false;

  bool latent() const { return mixer == MixerKind::kLatentAttention; }
  bool keeps_latents() const { return latent() || mixer == MixerKind::kBlockAttention; }
  bool attends() const {
    return mixer == MixerKind::kAttention || mixer == MixerKind::kAttentionAndMamba2 || keeps_latents();
  }
  // Returns how blocks are pooled into vectors of `dim` values, without weights.
  BlockPool pool(int dim) const { return {.dim = dim, .block = block, .overlap = blocks_overlap}; }
  // Whether the layer stores anything in KV pages.
  bool keeps_pages() const { return attends() && kv_of < 0; }
  bool has_state_space() const {
    return mixer == MixerKind::kMamba || mixer == MixerKind::kMamba2 || mixer == MixerKind::kAttentionAndMamba2;
  }
  bool mixes_channels() const { return feed_forward == FeedForwardKind::kChannelMix; }
  bool mixture() const { return feed_forward == FeedForwardKind::kMixture; }
  bool has_experts() const {
    return mixture() || feed_forward == FeedForwardKind::kGatedAndMixture ||
           feed_forward == FeedForwardKind::kGatedBesideMixture;
  }
};

// Parameters of the MoE layers. All these layers have the same parameters.
struct ExpertParams {
  int count = 0;  // Number of experts per layer. If 0, the other fields are meaningless.
  int used = 0;   // Experts used per token.
  int n_ff = 0;   // Hidden size of one expert's MLP.
  // Width of the latent space in which the experts work, with one projection into this space and one back; 0 = experts
  // work at the hidden size.
  int latent = 0;
  Router router;             // Router settings, without the bias, which differs per layer.
  bool choice_bias = false;  // Whether layers have a Router::bias.
  std::string_view choice_bias_name = "exp_probs_b.bias";
  bool biases = false;  // Whether the router logits and all expert matrices have biases.
  int n_ff_shared = 0;  // Width of the shared expert; 0 = none.
  // GroveMoE: a second mixture that reads the output of the first one and is added to it, multiplied by `chunk_scale`.
  // See Router::experts_per_chunk.
  int experts_per_chunk = 0;  // 0 = no second mixture.
  int n_ff_chunk = 0;         // Width of one of its experts.
  float chunk_scale = 1.0f;
  // Whether the shared expert's output is multiplied by a sigmoid gate computed from its input.
  bool shared_gate = false;
  bool early_router = false;  // Whether the router reads the layer's input, before the attention block and any norm.
  float shared_scale = 1.0f;  // Factor for the shared expert's output.
  bool gateless = false;      // Whether the experts and the shared expert have no gate matrix.
  bool apply_router_weight_on_input = false;  // See Mixture::apply_router_weight_on_input.
  bool fused_gate_up = false;  // Whether one tensor holds each expert's gate and up matrices, gate first.
  // Whether there is a scale per expert (Router::expert_scales). Only with a parallel dense network.
  bool scales = false;
};

// Per-layer inputs: values that each layer receives for each token in addition to the residual stream (Gemma 3n and 4).
struct PerLayerInputs {
  int dim = 0;  // Values per layer; 0 = no per-layer inputs.
};

// Several residual streams, only one of which passes through the layers while the others are predicted and corrected
// (AltUp, Baykal et al. 2023, arXiv:2301.13310), and a low-rank path in parallel with attention (LAuReL,
// arXiv:2411.07501). Used by Gemma 3n.
struct StreamParams {
  int count = 1;  // Number of streams; 1 = a plain residual stream without LAuReL.
  int laurel_rank = 0;
};

// The sparse-attention indexer of MLA and block attention layers (SparseIndexer). It takes effect once a sequence has
// more positions than the indexer selects. Layers without their own indexer use the selection of the nearest earlier
// layer that has one.
struct IndexParams {
  int most = 0;  // Number of positions to select (top-k); 0 = no indexer.
  int n_heads = 0, key_dim = 0;
  // RoPE style for the leading dimensions of the indexer's queries and keys. The frequencies are the same as for the
  // layer's attention.
  RopeStyle rope_style = RopeStyle::kHalves;
  float norm_eps = 1e-6f;  // Epsilon of the LayerNorm (with bias) that is applied to the keys.
};

// Parameters of the MLA layers. All these layers have the same parameters. A latent vector consists of `rank`
// normalized values and `shared_dim` values with RoPE, and serves as the key for all heads. Each head has one matrix
// that maps its query to the latent space and another that maps the attention output back.
struct LatentParams {
  int rank = 0;                    // Width of the latent space; 0: there are no MLA layers.
  int shared_dim = 0;              // Number of trailing query dimensions with RoPE; all heads share their key part.
  int key_dim = 0, value_dim = 0;  // Sizes per head.
  int q_rank = 0;                  // Rank of the query projection, which has a norm in between; 0: a single matrix.
  bool split = true;               // Whether the file stores each head's key and value matrices separately.
  IndexParams index;
};

struct EagleParams;  // Defined in eagle_params.h.

// The model's drafter (mtp_layer.h): MTP layers after the model's own layers, or an EAGLE-3 head from a separate file.
struct MtpLayerParams {
  bool used = false;  // Whether there is a drafter and it is loaded.
  int n_levels = 1;   // Number of MTP layers. Each drafts the token after the one drafted by the previous layer.
  std::shared_ptr<const EagleParams> eagle;  // The EAGLE-3 head; null for MTP layers, to which all fields below apply.
  // Whether the hidden states that MTP layers read are normalized: the model's hidden states by its final norm, and the
  // MTP layers' hidden states by the norm before their head.
  bool normed = false;
  bool own_embedding = false, own_head = false;  // If false, the model's embedding table or output matrix is used.
  std::string_view head_norm_name;               // Name of the norm before the head; empty: the model's final norm.
};

// Parameters of the block attention layers, in addition to LatentParams::q_rank and the indexer. RoPE is undone on each
// head's output, and each group of heads has a matrix that projects its output to output_rank values.
struct BlockAttentionParams {
  int n_groups = 0;  // Number of head groups; 0 = no block attention layers.
  int output_rank = 0;
  int n_rotated = 0;  // Number of trailing dimensions of each head with RoPE.
};

// Hyper-connections: several residual streams. Each block reads from all of them and writes to all of them
// (HyperConnections).
struct StreamMixParams {
  int n_streams = 0;  // 0 = a plain residual stream.
  int iterations = 0;
  float eps = 0;

  // Returns the HyperConnections without weights.
  HyperConnections mix(bool reads_only) const {
    return {.n_streams = n_streams, .iterations = iterations, .eps = eps, .reads_only = reads_only};
  }
};

// A complete description of what a model computes. The forward pass never checks the architecture's name.
struct HyperParams {
  std::string architecture_name;  // As specified in the file.
  int n_vocab, n_embd, n_layers;
  int n_mtp_layers = 0;  // Number of MTP layers in the file, after the n_layers regular ones.
  MtpLayerParams draft;  // The drafter: the MTP layers if they were requested, or an EAGLE-3 head.
  int context_length;    // As stated in the file.
  NormKind norm = NormKind::kRms;
  float norm_eps;

  RopeStyle rope_style;
  std::vector<RopeSet> ropes;  // One set, or two if layers with a sliding window have their own.
  // Number of additional parts in an embedding row (DeepStack, Meng et al. 2024, arXiv:2406.04334). Part i has n_embd
  // values and is added to the residual stream after layer i.
  int n_deepstack = 0;
  // One entry for each of the n_layers layers, followed by entries for the MTP layers or the EAGLE-3 head if these are
  // used.
  std::vector<LayerParams> layers;

  float attention_soft_cap = 0.0f;  // Soft cap for attention scores; 0 = no soft cap.
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // Factor for the outputs that mixers and feed-forward networks add.
  float logit_scale = 1.0f;
  float logit_soft_cap = 0.0f;  // Applied after logit_scale; 0 = no soft cap.

  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool pre_norm = true;    // Whether there is a norm before the mixer and before the feed-forward network.
  bool post_norm = false;  // Whether there is a norm after each of them, before its output is added.
  // Whether the feed-forward network reads the same normalized input as the mixer, and both outputs are added to the
  // residual stream.
  bool parallel_residual = false;
  // With parallel_residual: whether the feed-forward network instead has its own norm of the layer's input.
  bool parallel_norm = false;
  // Whether norms have weights. Without weights, they have no biases either.
  bool norm_weights = true;
  // Whether there is a norm before the output projection of attention and before the down projection of dense
  // feed-forward networks.
  bool sub_norms = false;
  bool embedding_norm = false;  // Whether embeddings pass through a norm before the first layer.
  int n_positions = 0;          // Number of learned position embeddings; 0: there are none.
  float max_alibi_bias = 0.0f;  // See AttentionParams::max_alibi_bias; 0 = no ALiBi.
  float clamp_qkv = 0.0f;       // Limit for the magnitude of queries, keys and values before RoPE; 0: no limit.
  // The layers in the file run `n_loops` times with the same weights, and each pass has its own keys and values.
  // n_layers counts the layers of all passes. With loop_norm, the residual stream passes through the final norm after
  // each pass.
  int n_loops = 1;
  bool loop_norm = false;
  std::string_view ffn_norm_name = "ffn_norm.weight";  // Name of the norm before the feed-forward network.
  std::string_view attention_post_norm_name = "post_attention_norm.weight";
  std::string_view ffn_post_norm_name = "post_ffw_norm.weight";
  std::string_view output_norm_name = "output_norm.weight";
  ExpertParams experts;
  LatentParams latents;
  BlockAttentionParams blocks;
  DeltaNetParams delta_net;
  StateSpaceParams state_space;
  RwkvParams rwkv;
  int convolution_taps = 0;  // Kernel size of short-convolution layers (LFM2); 0 = none.
  PerLayerInputs per_layer;
  StreamParams streams;
  StreamMixParams stream_mix;
  bool limits_input = false;  // See Gating::limits_input.
  float value_scale = 1.0f;   // Factor for the attention output, before the output projection.
  bool value_norm = false;    // Whether each value head passes through a norm without weights.
  // Whether each head's output is multiplied by a gate computed from the layer's input, and how.
  bool head_gates = false;
  HeadGate head_gate = HeadGate::kSigmoid;

  // How the hidden states after the final norm are combined into one vector per text. kNone: the model only generates
  // text.
  Pooling pooling = Pooling::kNone;

  bool tied_output;  // The file has no output.weight, so the embedding table is used.
  // This and the following biases are set if the architecture has them or the file contains them.
  bool norm_bias = false;
  bool output_bias = false;
  bool qkv_bias;
  bool attention_bias;  // Bias of the attention output projection.
  bool gate_bias, up_bias, down_bias;
  bool fused_gate_up;  // Whether ffn_up holds gate and up.

  // Number of layers that have their own weights.
  int stored_layers() const { return n_layers / n_loops; }
  // Number of values in each row of an embedding span.
  int64_t input_width() const { return int64_t{n_embd} * (1 + n_deepstack); }
  // Whether RoPE positions have three components (M-RoPE).
  bool uses_mrope() const { return !ropes.empty() && !ropes[0].axes.empty(); }
  bool has_delta_nets() const { return delta_net.n_value_heads > 0; }
  bool has_state_spaces() const { return state_space.n_heads > 0; }
  // Returns the maximum of a field over all layers.
  int most(int LayerParams::*field) const {
    int most = 0;
    for (const LayerParams& layer : layers) most = std::max(most, layer.*field);
    return most;
  }

  // `max_context` is the maximum number of positions per sequence; 0 = context_length. It selects between LongRoPE's
  // frequencies for short and long contexts. With `mtp_layer`, MTP layers are included if the file has any that the
  // engine supports. Errors name the key: kInvalidFile (missing, out of range), kUnsupported (architecture, scaling
  // type).
  static Result<HyperParams> read(const GgufFile& file, int max_context = 0, bool mtp_layer = false);
};

struct ModelLimits {
  int max_batch_tokens = 256;  // Maximum number of tokens per step.
  int max_logit_rows = 64;     // Maximum number of tokens per step whose logits can be requested.
  int draft_rows = 0;          // The part of max_logit_rows reserved for draft tokens, beyond one row per sequence.
  int max_context = 4096;      // Maximum number of positions per sequence.
  int64_t n_pages = 256;       // Number of KV pages in the pool.
  int n_slots = 16;            // Number of slots for recurrent state, if the model has any.
  KvType kv_type = KvType::kF16;
  // Whether layers with a sliding window have separate page tables (see KvLayout). If false, all layers share one page
  // table.
  bool pages_by_window = false;
  bool mtp_layer = false;  // Whether to load MTP layers if the file has any (see Model::drafts()).

  // Number of hidden states that are saved for the drafter between steps, per sequence: the hidden states of the
  // sequence's last token and of the draft tokens after it.
  int kept_of_each() const { return 1 + draft_rows; }
  int sequences_limit() const { return std::max(1, max_logit_rows - draft_rows); }
  int kept_rows() const { return sequences_limit() * kept_of_each(); }
};

// The memory that will be allocated, computed by the same functions that allocate it.
struct MemoryPlan {
  size_t weight_bytes;
  size_t kv_bytes;          // Upper limit of the KV cache (see kv_start_bytes).
  size_t activation_bytes;  // Buffers for one step, and the backend's scratch memory.
  size_t page_bytes;        // Bytes per KV page.
  // The part of kv_bytes that is allocated during loading. The remaining bytes are allocated as pages are first used.
  size_t kv_start_bytes = 0;
  size_t slot_bytes = 0;          // Recurrent state per sequence; 0: the model has none.
  size_t slots_bytes = 0;         // Recurrent state of all slots.
  size_t overhead_bytes = 0;      // Estimate of what a device allocates in addition; not included in total().
  KvLayout layout = {};           // How keys and values are distributed over pages.
  size_t draft_weight_bytes = 0;  // The drafter's share of weight_bytes.
  size_t total() const { return weight_bytes + kv_bytes + slots_bytes + activation_bytes; }
};

// A range of a step's tokens whose embeddings come from an embedding span (an image).
struct EmbeddedRows {
  int first_row = 0, n_rows = 0;
  const float* rows = nullptr;  // Shape [n_rows][HyperParams::input_width()].
};

// A range of consecutive tokens of one sequence in a step, for the drafter. Saved hidden states are numbered from 0 to
// ModelLimits::kept_rows() - 1.
struct HiddenRange {
  int first_row, n_rows;
  // Number of the saved hidden state for the position before the first token. -1 = no hidden state is saved, for
  // example at the start of a text.
  int from;
  int to;      // Number under which the first of the last `n_kept` hidden states is saved.
  int n_kept;  // Number of hidden states to save.
};

// Input of one step. The tokens of a segment are consecutive. All arrays are in host memory.
struct Batch {
  std::span<const int32_t> tokens;  // Token IDs; for embedded tokens, any ID in range.
  // The segments cover all tokens in order. For each additional page table in MemoryPlan::layout, the same segments
  // follow again, with the same token ranges and the pages in that table. In the tables of layers with a sliding
  // window, pages that tokens no longer attend to are not accessed.
  std::span<const Segment> segments;
  std::span<const int32_t> logit_rows;  // Indices of the tokens whose logits are requested, ascending.
  bool leaves_logits = false;           // Whether the logits stay in the backend's memory for its sample().
  // Ranges that cover all tokens in order and specify which hidden states the drafter saves. If empty, the drafter does
  // not run.
  std::span<const HiddenRange> hidden = {};
  std::span<const AdapterRows> adapters = {};   // Tokens that use LoRA adapters, in ascending order.
  std::span<const EmbeddedRows> embedded = {};  // Tokens from embedding spans, in ascending order.
  // If true, the step keeps the hidden states of all tokens for Model::hidden_states(). Only for models with a
  // PoolingHead.
  bool keeps_hidden_states = false;
};

// One pass of the drafter over one token per sequence, which drafts the next token. If there are several MTP layers
// (MtpLayerParams), the pass of layer k also processes the k preceding tokens, for which no step has run layer k.
struct DraftBatch {
  std::span<const int32_t> tokens;
  std::span<const Segment> segments;  // One segment per sequence, with the same page tables as in Batch.
  // The hidden state of the position before each token: the number of a saved hidden state, or -1 - i for the output of
  // token i in the previous pass.
  std::span<const int32_t> hidden;
  int level = 0;  // The MTP layer to run; beyond the last one, the last one runs again.
};

class Model {
 public:
  using Progress = std::function<void(float fraction)>;  // Called on the loading thread.

  // `file` may be destroyed after load() returns, unless the backend maps the file. The Error names every tensor that
  // is missing or has the wrong shape or type. `head` is the file of an EAGLE-3 head for this model (eagle_params.h),
  // which is used instead of any MTP layers; null if there is none.
  static Result<std::unique_ptr<Model>> load(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                             const Progress& progress, const GgufFile* head = nullptr);
  static Result<MemoryPlan> plan(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                                 const GgufFile* head = nullptr);

  virtual ~Model() = default;
  virtual const HyperParams& params() const = 0;
  virtual const ModelLimits& limits() const = 0;
  virtual const MemoryPlan& memory() const = 0;
  virtual KvCache& kv() = 0;
  // The recurrent state of all layers, MemoryPlan::slot_bytes bytes per slot; null if the model has none.
  virtual LayerSlots state_slots() { return {}; }
  virtual Backend& backend() = 0;

  // Runs one step. Returns logits [logit_rows.size()][n_vocab], valid until the next call. The logits are in host
  // memory, unless the batch leaves them in the backend. Does not allocate memory, unless logits are read from a
  // backend that samples on its own device. The batch must respect limits(), and all token IDs must be in range (both
  // are asserted).
  virtual const float* forward(const Batch& batch) = 0;

  // Moves the weights from small memory pages to huge pages where possible, until `stopped` returns true or a time
  // limit is reached. Returns the number of bytes of weights that are known to be in huge pages. May be called from any
  // thread, also during steps, but not by two threads at the same time.
  virtual size_t collapse_huge_pages(const Stopped& stopped) { return static_cast<void>(stopped), size_t{0}; }

  // The weight matrices that LoRA adapters can change. Empty if the model does not support adapters. May be called from
  // any thread.
  virtual const std::vector<AdaptableWeight>& adaptable_weights() const {
    static const std::vector<AdaptableWeight> none;
    return none;
  }
  // Allocates memory for steps with adapters of up to this rank. The engine thread calls it between two steps, before
  // the first step with such an adapter.
  virtual Status reserve_adapters(int rank) { return static_cast<void>(rank), Status(); }

  // Returns the layers that compute the embedding or scores of a text from its hidden states. Null if the model only
  // generates text.
  virtual const PoolingHead* pooling_head() const { return nullptr; }
  // Waits for the last step and returns the hidden states of all its tokens after the final norm, [tokens][n_embd] in
  // host memory. Requires Batch::keeps_hidden_states in that step. Valid until the next call to forward().
  virtual const float* hidden_states() { return nullptr; }

  // Whether the model has a drafter that forward() feeds.
  virtual bool drafts() const { return false; }
  // Returns the token IDs of the drafter's logits, in any order. If empty, the logits cover the whole vocabulary, in
  // order.
  virtual std::span<const int32_t> draft_tokens() const { return {}; }
  virtual int draft_levels() const { return 1; }
  // Runs one pass of the drafter. The number of sequences must not exceed the maximum number of logit rows per step,
  // and the number of tokens must not exceed the maximum number of tokens per step. Returns the logits of each
  // sequence's last token in host memory (draft_tokens().size() or n_vocab values each), valid until the next call to
  // draft() or forward(). The drafter's keys and values for these positions are overwritten by the next step that
  // computes them. Does not allocate.
  virtual const float* draft(const DraftBatch& batch) { return static_cast<void>(batch), nullptr; }
};

}  // namespace monolith
