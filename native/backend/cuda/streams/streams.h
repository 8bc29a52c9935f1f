// Several residual streams that parts mix (StreamMix): how much of each a row reads and takes, and the reading and writing.
// A row's numbers are found by one thread, in binary64 as on the processor; streams are read and written a thread to a column,
// in the order of the streams, so that what a row becomes depends on nothing beside it.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

// As Operations has them.
void weigh_streams(Runtime& runtime, const StreamMix& mix, float* numbers, int n_rows);
void read_streams(Runtime& runtime, const StreamMix& mix, const float* numbers, const float* streams, int n_rows,
                  int64_t dim, float* out);
void write_streams(Runtime& runtime, const StreamMix& mix, const float* numbers, const float* x, int n_rows,
                   int64_t dim, float* streams);

}  // namespace monolith::cuda
