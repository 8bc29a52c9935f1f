// Hyper-parameters of text encoders: models such as BERT that compute an embedding or scores of a whole text and never
// generate text. All architectures share one implementation, which these parameters configure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/model.h"

namespace monolith {

enum class EncoderNetwork : uint8_t {
  kPlain,  // W_down activation(W_up x)
  kGated,  // W_down (activation(W_gate x) * W_up x)
  // Like kGated, but W_gate and W_up are one tensor: the first half of its rows is W_gate.
  kFusedGated,
};

enum class EncoderQkNorm : uint8_t {
  kNone,
  kEachHead,  // RMS norm over each head separately.
  kWholeRow,  // Layer norm over all heads of a token together.
};

struct EncoderLayerParams {
  bool windowed = false;   // Sliding-window attention, see TextEncoderParams::window_reach.
  bool mixture = false;    // The feed-forward network is a mixture of experts.
  bool first_norm = true;  // With pre-norms: the layer has a norm before attention.
  bool own_bias = false;   // The layer has its own T5 bias table; other layers use the first layer's.
  // With post-norms: after attention's norm, the layer's input is added a second time, and the sum is normalized again.
  bool second_norm = false;
};

struct TextEncoderParams {
  // Sizes, norm kind, pooling and experts. Only the fields that encoders and decoders have in common are set.
  HyperParams base;
  std::string_view layer_prefix;           // "blk." or "enc.blk."
  std::string_view attention_output_name;  // Tensor name of the output projection, without layer prefix and ".weight".
  int n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ff = 0;
  int max_tokens = 0;  // Maximum number of tokens per text.

  // Rerankers: token that separates the two texts of a pair; the tokens after it have type 1. -1: all have type 0.
  int pair_separator = -1;
  int n_token_types = 0;  // Rows of the token-type table; only the first two are used. 0 = no table.
  // True (pre-norms): the inputs of attention and of the feed-forward network are normalized. False (post-norms): the
  // residual stream is normalized after the output of each of the two blocks has been added to it.
  bool pre_norms = false;
  bool branch_norms = false;         // With pre-norms: the output of each block is normalized before it is added.
  std::string_view final_norm_name;  // Tensor name; empty = no final norm.

  bool rotates = false;  // Queries and keys are rotated (RoPE).
  RopeStyle rope_style = RopeStyle::kHalves;
  RopeSet rope, windowed_rope;  // For layers without and with a sliding window.
  int window_reach = 0;         // Windowed layers: maximum distance of attended positions, in both directions.
  float max_alibi_bias = 0;     // Symmetric ALiBi: distance * alibi_slope() is subtracted from a score; 0: no ALiBi.
  bool causal = false;          // Tokens attend only to positions up to their own.
  int n_buckets = 0;            // T5: number of relative-position buckets; 0: no such bias.
  float attention_scale = 1;
  EncoderQkNorm qk_norm = EncoderQkNorm::kNone;
  bool fused_qkv = false;

  EncoderNetwork network = EncoderNetwork::kPlain;
  Activation activation = Activation::kGelu;
  bool relu = false;  // With kPlain: ReLU replaces `activation`.
  std::vector<EncoderLayerParams> layers;

  bool has_windows() const { return std::ranges::any_of(layers, &EncoderLayerParams::windowed); }
  bool has_position_bias() const { return max_alibi_bias > 0 || n_buckets > 0; }
  int64_t q_dim() const { return int64_t{n_heads} * head_dim; }
  int64_t kv_dim() const { return int64_t{n_kv_heads} * head_dim; }

  // `max_context`: limit for max_tokens in addition to the file's context length; 0 = no additional limit. Errors name
  // the metadata key: kInvalidFile if it is missing or out of range, kUnsupported if this build does not support it.
  static Result<TextEncoderParams> read(const GgufFile& file, int max_context);
};

// Returns true if the file's architecture is a text encoder.
bool is_text_encoder(const GgufFile& file);
// Returns the names of all supported architectures, separated by commas, for error messages.
std::string known_encoders();

// Returns the bias that is added to attention scores, [n_heads][2 * max_tokens - 1]. Element max_tokens - 1 + d of a
// head is the bias for a key d positions after the query (d < 0: before it). `buckets`: T5's table, [bucket][n_heads];
// empty for ALiBi.
std::vector<float> position_bias(const TextEncoderParams& params, const std::vector<float>& buckets);

}  // namespace monolith
