// Hyper-connections (HyperConnections): several residual streams per token, the weights that each block uses to read
// and write them, and the reads and writes themselves. One thread computes the weights of a token in float64, as the
// CPU backend does. Streams are read and written with one thread per column, in the order of the streams, so the result
// does not depend on the rest of the batch.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

// Implements Operations::hyper_connection_weights, read_streams and write_streams.
void hyper_connection_weights(Runtime& runtime, const HyperConnections& mix, float* numbers, int n_rows);
void read_streams(Runtime& runtime, const HyperConnections& mix, const float* numbers, const float* streams, int n_rows,
                  int64_t dim, float* out);
void write_streams(Runtime& runtime, const HyperConnections& mix, const float* numbers, const float* x, int n_rows,
                   int64_t dim, float* streams);

}  // namespace monolith::cuda
