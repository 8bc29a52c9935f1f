// What a GenerationRequest must satisfy before the engine takes it. Any thread.
#pragma once

#include "base/result.h"
#include "engine/request.h"

namespace monolith {

inline constexpr int kMaxStopTokens = 256;
inline constexpr int kMaxCloseTokens = 256;
inline constexpr int kMaxMarkerBytes = 256;
inline constexpr int kMaxCallTokens = kMaxCallPrefixBytes + kMaxMarkerBytes + 1;   // each at least a byte, and a leading space

// Errors: kTooLong (prompt), kUnsupported (output), kInvalidArgument naming the field and its range.
Status check_request(const GenerationRequest& request, int n_vocab, int max_context);

}  // namespace monolith
