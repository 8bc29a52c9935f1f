// Vision encoder attention in 16-bit integers. Stores the keys and values of a part of an image as integers, with one
// scale (called the step) per row and head, and runs the kernels. kernels.h describes the arithmetic. Called on the
// engine thread. Only reserve() allocates memory.
#pragma once

#include <cstdint>

#include "backend/cpu/fixed16/kernels.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/encoder_operations.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

class Fixed16AttentionScratch {
 public:
  static size_t bytes_for(int threads);
  Status reserve(int threads);
  std::byte* of(int thread) const;

 private:
  Mapping memory_;
};

// These functions implement the corresponding functions of EncoderOperations. head_dim is at most kFixed16MostHead.
int64_t fixed16_key_floats(int max_rows, int n_heads, int head_dim);
void fixed16_store_keys(const Fixed16Kernels& kernels, ThreadPool& pool, const EncoderKeys& keys, const float* k,
                        const float* v, int64_t stride, int first_row, int n_rows);
void fixed16_attend(const Fixed16Kernels& kernels, ThreadPool& pool, const Fixed16AttentionScratch& scratch,
                    const RowAttention& call);

}  // namespace monolith
