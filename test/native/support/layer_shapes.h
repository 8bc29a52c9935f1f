// Checks that layers of different shapes can share one KV cache on any backend. Each layer's stored values and
// attention results must be the same as if it were alone.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "check.h"

namespace monolith::testing {

// Stores one layer's keys and values for a sequence in chunks, and computes attention for the last tokens. Returns the
// output, which callers compare bit for bit.
std::vector<float> attend_alone(Backend& backend, KvCache& cache, int layer, const int32_t* pages, float* q, float* kv,
                                float* out, int n_heads, bool stores);

void check_layers_of_different_shapes(Backend& backend, KvType type);

// Checks two small layers, each with its own pages, that share a slot with a large layer. Each layer's stored values
// and attention results must be the same as if it were alone.
void check_layers_that_share_a_slot(Backend& backend, KvType type);

// Checks that the backend rejects a state that it cannot store, with a message that names the state.
void check_refused_states(Backend& backend, const KeptStates& keeps);

}  // namespace monolith::testing
