// What a GenerationRequest must satisfy before the engine takes it. Any thread.
#pragma once

#include "base/result.h"
#include "engine/request.h"

namespace monolith {

inline constexpr int kMaxStopTokens = 256;
inline constexpr int kMaxCloseTokens = 256;
inline constexpr int kMaxMarkerBytes = 256;
// each at least a byte, and a leading space
inline constexpr int kMaxCallTokens = kMaxCallPrefixBytes + kMaxMarkerBytes + 1;

// What the model of an engine bounds.
struct RequestBounds {
  int n_vocab = 0;
  int max_context = 0;
  bool sees = false;                // spans may come as pieces of images
  int64_t input_width = 0;          // numbers of an embedding span's row
  int most_bidirectional_rows = 0;  // of a span that is computed in one piece; 0: none may be
  bool turns_by_three = false;      // HyperParams::turns_by_three()
};

// Errors: kTooLong (prompt), kUnsupported (spans, output), kInvalidArgument naming the field and its range.
Status check_request(const GenerationRequest& request, const RequestBounds& bounds);

}  // namespace monolith
