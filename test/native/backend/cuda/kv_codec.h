// A simple reference implementation of the 8-bit page format in kv_cache.h, for comparison with the device's pages.
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

// Returns the nearest code; in a tie, the even code. |x| must be at most 448.
unsigned char nearest_e4m3(double x);

// Encodes numbers that share a scale. If one of the numbers is NaN or infinite, the codes are unspecified, and none are
// returned.
Block encode(KvType type, const float* x, int n);

// Encodes one head's numbers at one position, block by block.
std::vector<Block> encode_row(KvType type, const float* x, int head_dim);

}  // namespace monolith::cuda::codec
