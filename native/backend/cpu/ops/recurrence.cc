// Splits the convolution and the delta rule into tasks. A task is a range of channels, or a range of columns of a head
// (ops/state_blocks.h). It processes all segments in order, because a segment may continue from a slot that an earlier
// one has written.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/state_blocks.h"

namespace monolith {
namespace {

// Transposes weights from [channel][tap] to [tap][channel]. Nearly all models have a kernel size of four; this case is
// handled in registers, four channels at a time.
void by_tap(const float* from, int n_channels, int conv_kernel_size, float* to) {
  typedef float Four __attribute__((vector_size(16)));
  int channel = 0;
  for (; conv_kernel_size == 4 && channel + 4 <= n_channels; channel += 4) {
    Four of[4];  // Indexed by channel.
    std::memcpy(of, from + channel * 4, sizeof of);
    const Four a = __builtin_shufflevector(of[0], of[1], 0, 4, 1, 5),
               b = __builtin_shufflevector(of[2], of[3], 0, 4, 1, 5);
    const Four c = __builtin_shufflevector(of[0], of[1], 2, 6, 3, 7),
               d = __builtin_shufflevector(of[2], of[3], 2, 6, 3, 7);
    const Four taps[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                          __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
    for (int tap = 0; tap < 4; ++tap)
      std::memcpy(to + tap * kConvolutionChannels + channel, &taps[tap], sizeof taps[tap]);
  }
  for (; channel < n_channels; ++channel)
    for (int tap = 0; tap < conv_kernel_size; ++tap)
      to[tap * kConvolutionChannels + channel] = from[int64_t{channel} * conv_kernel_size + tap];
}

}  // namespace

void CpuBackend::convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state,
                          float* x, int64_t stride) {
  const int n_channels = convolution.n_channels, conv_kernel_size = convolution.conv_kernel_size;
  assert(conv_kernel_size >= 1 && conv_kernel_size <= kMaxTaps);
  const int64_t n_pieces = (n_channels + kConvolutionChannels - 1) / kConvolutionChannels;
  pool_.parallel_runs(n_pieces, [&](int64_t piece, int) {
    const int first = static_cast<int>(piece) * kConvolutionChannels;
    const int n = std::min(kConvolutionChannels, n_channels - first);
    alignas(64) float weight[kMaxTaps * kConvolutionChannels];
    by_tap(convolution.weight + int64_t{first} * conv_kernel_size, n, conv_kernel_size, weight);
    for (const Segment& segment : segments) {
      ops_.convolve({.n_channels = n,
                     .conv_kernel_size = conv_kernel_size,
                     .weight = weight,
                     .bias = convolution.bias ? convolution.bias + first : nullptr,
                     .silu = convolution.silu,
                     .n_rows = segment.n_tokens,
                     .x = x + segment.first_row * stride + first,
                     .stride = stride,
                     .from = segment.state_from == kNoSlot ? nullptr : state.of(segment.state_from) + first,
                     .to = state.of(segment.state_to) + first,
                     .state_stride = n_channels});
    }
  });
}

void CpuBackend::delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                            const DeltaInputs& inputs, float* out) {
  assert(rule.key_dim >= 1 && rule.key_dim <= kMaxDeltaKeyDim && rule.n_value_heads % rule.n_key_heads == 0);
  assert(!rule.channel_decay || rule.n_key_heads == rule.n_value_heads);
  if (segments.empty()) return;
  const int64_t n_decays = rule.decays(), n_heads = rule.n_value_heads;
  const int64_t n_rows = segments.back().first_row + segments.back().n_tokens;
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(rule.key_dim));
  pool_.parallel_for(n_rows, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < rule.n_key_heads; ++head) {
        const int64_t at = row * inputs.stride + head * rule.key_dim;
        ops_.l2_norm(inputs.q + at, rule.norm_eps, query_scale, rule.key_dim);
        ops_.l2_norm(inputs.k + at, rule.norm_eps, 1.0f, rule.key_dim);
      }
      float* const decay = inputs.decay + row * n_decays;
      if (rule.channel_decay) {
        for (int64_t head = 0; head < n_heads; ++head)
          ops_.decays(decay + head * rule.key_dim, rule.decay_bias + head * rule.key_dim, rule.rate + head, 0,
                      rule.key_dim);
      } else {
        ops_.decays(decay, rule.decay_bias, rule.rate, 1, n_heads);
      }
      ops_.sigmoid(inputs.beta + row * n_heads, n_heads);
    }
  });
  for_state_blocks(pool_, ops_, n_heads, rule.value_dim, rule.key_dim, segments, state,
                   [&](const StateBlocks& blocks, const Segment& segment) {
                     const int64_t head = blocks.head, row = segment.first_row;
                     const int64_t key_at = int64_t{rule.key_head(static_cast<int>(head))} * rule.key_dim;
                     ops_.delta({.n_rows = segment.n_tokens,
                                 .key_dim = rule.key_dim,
                                 .n_columns = blocks.n_columns,
                                 .q = inputs.q + row * inputs.stride + key_at,
                                 .k = inputs.k + row * inputs.stride + key_at,
                                 .v = inputs.v + row * inputs.stride + head * rule.value_dim + blocks.first_column,
                                 .stride = inputs.stride,
                                 .decay = inputs.decay + row * n_decays + head * (n_decays / n_heads),
                                 .beta = inputs.beta + row * n_heads + head,
                                 .decay_stride = n_decays,
                                 .beta_stride = n_heads,
                                 .out = out + (row * n_heads + head) * rule.value_dim + blocks.first_column,
                                 .out_stride = n_heads * rule.value_dim,
                                 .state = blocks.state},
                                rule.channel_decay);
                   });
}

}  // namespace monolith
