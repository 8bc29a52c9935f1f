#include "backend/cuda/kv_codec.h"

namespace monolith::cuda::codec {

double e4m3(unsigned char code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

double decode(KvType type, unsigned char code, uint16_t scale) {
  const double unit = type == KvType::kQ8_0 ? code - 128.0 : e4m3(code) / 256;
  return unit * static_cast<double>(half_to_float(scale));
}

unsigned char nearest_e4m3(double x) {
  const int exponent = x == 0 ? -6 : std::max(std::ilogb(x), -6);
  // |x| in units of one eighth of the largest power of two that does not exceed it.
  const auto eighths = static_cast<int>(std::nearbyint(std::ldexp(std::abs(x), 3 - exponent)));
  const int code = std::min((exponent + 7) * 8 + eighths - 8, 0x7e);
  return static_cast<unsigned char>(code | (std::signbit(x) ? 0x80 : 0));
}

Block encode(KvType type, const float* x, int n) {
  double largest = 0;
  for (int i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return {{}, 0x7e00};
    largest = std::max(largest, std::abs(double{x[i]}));
  }
  Block block;
  if (type == KvType::kQ8_0) {
    // Computed in binary32, as in the CPU's pages (backend/cpu/ops/attention_q8-inl.h).
    block.scale = float_to_half(std::min(static_cast<float>(largest) / 127.0f, 65504.0f));
    const float stored = half_to_float(block.scale), inverse = stored > 0 ? 1.0f / stored : 0.0f;
    for (int i = 0; i < n; ++i)
      block.codes.push_back(static_cast<unsigned char>(128 + std::lrint(std::clamp(x[i] * inverse, -127.0f, 127.0f))));
    return block;
  }
  int exponent = -14;
  while (exponent < 15 && largest > std::ldexp(1.75, exponent)) ++exponent;
  block.scale = float_to_half(static_cast<float>(std::ldexp(1.0, exponent)));
  for (int i = 0; i < n; ++i)
    block.codes.push_back(nearest_e4m3(std::clamp(std::ldexp(double{x[i]}, 8 - exponent), -448.0, 448.0)));
  return block;
}

std::vector<Block> encode_row(KvType type, const float* x, int head_dim) {
  std::vector<Block> blocks;
  const int block = kv_block(type, head_dim);
  for (int first = 0; first < head_dim; first += block)
    blocks.push_back(encode(type, x + first, std::min(block, head_dim - first)));
  return blocks;
}

}  // namespace monolith::cuda::codec
