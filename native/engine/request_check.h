// Validates a GenerationRequest before the engine accepts it. Safe to call from any thread.
#pragma once

#include "base/result.h"
#include "engine/request.h"

namespace monolith {

inline constexpr int kMaxStopTokens = 256;
inline constexpr int kMaxCloseTokens = 256;
inline constexpr int kMaxMarkerBytes = 256;
// Upper bound on the number of tokens in the beginning of a call: one per byte, because each token has at least one
// byte, plus one for a leading space.
inline constexpr int kMaxCallTokens = kMaxCallPrefixBytes + kMaxMarkerBytes + 1;

// Request limits that depend on the engine's model.
struct RequestBounds {
  int n_vocab = 0;
  int max_context = 0;
  bool has_vision = false;  // True if the engine has a vision encoder, so that spans may be image tiles to encode.
  int64_t input_width = 0;  // Floats per row of an embedding span.
  // Maximum length of a bidirectional span, which must be computed in one step; 0 = no bidirectional spans.
  int most_bidirectional_rows = 0;
  bool has_pooling = false;  // True if the model computes embeddings or scores (Model::pooling_head()).
  bool uses_mrope = false;   // True if the model uses M-RoPE (HyperParams::uses_mrope()).
};

// Errors: kTooLong if the prompt is too long, kUnsupported if the model does not support the embedding spans or the
// kind of output, and kInvalidArgument for any other invalid field. Messages name the field and its valid range.
Status check_request(const GenerationRequest& request, const RequestBounds& bounds);

}  // namespace monolith
