// A simple reference implementation of kv_cache.h's 8-bit page format, with which the device's pages are compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cuda/attention/kv_cache.h"
#include "base/half.h"

namespace monolith::cuda::codec {

// OCP 8-bit floating point, e4m3: bias 7, no infinities. 0x7f and 0xff would be NaN.
double e4m3(unsigned char code);

struct Block {
  std::vector<unsigned char> codes;
  uint16_t scale = 0;
};

double decode(KvType type, unsigned char code, uint16_t scale);

// Returns the nearest code; ties go to the even code. |x| must be at most 448.
unsigned char nearest_e4m3(double x);

// Encodes numbers that share a scale. If one of them is NaN or infinite, the codes are unspecified and none are
// returned.
Block encode(KvType type, const float* x, int n);

// Encodes a head's numbers at one position, in blocks.
std::vector<Block> encode_row(KvType type, const float* x, int head_dim);

}  // namespace monolith::cuda::codec
