// Hyper-parameters of text encoders: models with bidirectional attention that compute vectors or scores of whole texts
// and never generate. Differences between architectures are data.
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
  // The same, with both matrices in one tensor: the first half of its rows is activated.
  kFusedGated,
};

enum class EncoderQkNorm : uint8_t {
  kNone,
  kEachHead,  // An RMS norm of each head.
  kWholeRow,  // A layer norm of the whole row.
};

struct EncoderLayerParams {
  bool windowed = false;     // Tokens attend only to positions within TextEncoderParams::window_reach.
  bool mixture = false;      // The feed-forward network is a mixture of experts.
  bool first_norm = true;    // With pre-norms: whether there is a norm before attention.
  bool own_bias = false;     // The layer has its own T5 bias table; other layers use the first layer's.
  bool second_norm = false;  // With post-norms: whether the layer's input is added and normalized a second time.
};

struct TextEncoderParams {
  // Sizes, norm kind, pooling and experts, in the fields that decoders use for the same purpose.
  HyperParams base;
  std::string_view layer_prefix;           // "blk." or "enc.blk."
  std::string_view attention_output_name;  // Name of the output projection within a layer, without suffix.
  int n_heads = 0, n_kv_heads = 0, head_dim = 0, n_ff = 0;
  int max_tokens = 0;  // Maximum number of tokens per text.

  int n_token_types = 0;  // Rows of the token-type table, whose first row is added to every token; 0: no table.
  // Norms before attention and the feed-forward network (pre-norms), or of the sums with the residual stream
  // (post-norms).
  bool pre_norms = false;
  bool branch_norms = false;         // With pre-norms: the outputs of both blocks are normalized before they are added.
  std::string_view final_norm_name;  // Empty: there is no final norm.

  bool rotates = false;  // Whether queries and keys pass through RoPE.
  RopeStyle rope_style = RopeStyle::kHalves;
  RopeSet rope, windowed_rope;  // For layers without and with a window.
  int window_reach = 0;      // Layers with a window: maximum distance between a token and the positions it attends to.
  float max_alibi_bias = 0;  // Symmetric ALiBi: the score is reduced by the distance times alibi_slope(); 0: none.
  bool causal = false;       // Tokens attend only to positions up to their own.
  int n_buckets = 0;         // T5: number of buckets of the relative position bias; 0: none.
  float attention_scale = 1;
  EncoderQkNorm qk_norm = EncoderQkNorm::kNone;
  bool fused_qkv = false;

  EncoderNetwork network = EncoderNetwork::kPlain;
  Activation activation = Activation::kGelu;
  bool relu = false;  // With kPlain: ReLU instead of `activation`.
  std::vector<EncoderLayerParams> layers;

  bool has_windows() const { return std::ranges::any_of(layers, &EncoderLayerParams::windowed); }
  bool has_position_bias() const { return max_alibi_bias > 0 || n_buckets > 0; }
  int64_t q_dim() const { return int64_t{n_heads} * head_dim; }
  int64_t kv_dim() const { return int64_t{n_kv_heads} * head_dim; }

  // `max_context`: limit for max_tokens; 0: only the file's. Errors name the key: kInvalidFile (missing, out of range),
  // kUnsupported.
  static Result<TextEncoderParams> read(const GgufFile& file, int max_context);
};

// Whether the file's architecture is a text encoder.
bool is_text_encoder(const GgufFile& file);
// Returns "bert, nomic-bert, ...", for error messages.
std::string known_encoders();

// Returns the attention bias of each head by distance: [n_heads][2 * max_tokens - 1], where the middle element is for a
// token's own position and the next one for the position after it. `buckets`: T5's table, [bucket][n_heads].
std::vector<float> position_bias(const TextEncoderParams& params, const std::vector<float>& buckets);

}  // namespace monolith
