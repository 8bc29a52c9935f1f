// Layers with recurrent state of a fixed size per sequence: where the state is stored, and the operations that update
// it.
//
// State is stored in slots. A slot stores the state of all recurrent layers after some position of a sequence. A
// segment names the slot that it starts from and the slot that receives its final state (Segment, kv_cache.h). The two
// may be equal. If they differ, the first slot is not modified, so forks, snapshots and draft tokens need no copy of
// the state. Segments of a step are processed in order, so a segment may start from a slot that an earlier segment has
// written.
//
// Tokens are processed one after another, by the same operations regardless of where a segment ends. Therefore, the way
// a prompt is split into chunks does not change a single bit of the result.
#pragma once

#include <cstdint>

namespace monolith {

// One layer's data in all slots, or a part of it. Backend memory.
struct LayerSlots {
  float* first = nullptr;  // Data of slot 0.
  int64_t stride = 0;      // Floats from one slot to the next.

  constexpr float* of(int32_t slot) const { return first + slot * stride; }
  constexpr LayerSlots from(int64_t offset) const { return {first + offset, stride}; }
};

// A causal depthwise convolution over the last inputs of each channel:
//   y[t] = activation(bias + sum over j of weight[j] * x[t - conv_kernel_size + 1 + j])
// The state is the last conv_kernel_size - 1 inputs of all channels, the oldest first.
struct Convolution {
  int n_channels = 0, conv_kernel_size = 0;
  const float* weight = nullptr;  // Backend memory, [n_channels][conv_kernel_size].
  const float* bias = nullptr;    // Backend memory, [n_channels]. Null = no bias.
  bool silu = false;              // Apply SiLU. Otherwise there is no activation.

  constexpr int64_t state_floats() const { return int64_t{conv_kernel_size - 1} * n_channels; }
};
inline constexpr int kMaxTaps = 8;

// The gated delta rule (arXiv:2412.06464). Computed for each value head. S is the state. q and k belong to the
// corresponding key head and are L2-normalized, and q is divided by sqrt(key_dim):
//   S *= decay              decay = exp(rate * softplus(x + decay_bias)), one per head or one per row of S
//   S += k (beta (v - k S))^T             beta = sigmoid(x)
//   out = q S
struct DeltaRule {
  int n_key_heads = 0, n_value_heads = 0;  // n_value_heads is a multiple of n_key_heads.
  int key_dim = 0, value_dim = 0;          // Sizes of one head.
  // If true, value head i uses key head i mod n_key_heads. If false, each run of n_value_heads / n_key_heads
  // consecutive value heads uses the same key head.
  bool tiled = false;
  bool channel_decay = false;   // One decay per dimension of a key. Requires as many key heads as value heads.
  float norm_eps = 0;           // Lower bound of the norm that a vector is divided by.
  const float* rate = nullptr;  // Backend memory, [n_value_heads].
  // Backend memory, [n_value_heads], or [n_value_heads][key_dim] with channel_decay.
  const float* decay_bias = nullptr;

  constexpr int key_head(int value_head) const {
    return tiled ? value_head % n_key_heads : value_head / (n_value_heads / n_key_heads);
  }
  // Number of decays per token.
  constexpr int64_t decays() const { return int64_t{n_value_heads} * (channel_decay ? key_dim : 1); }
  // Layout of the state: the values of a head are grouped into blocks of 16 columns, each contiguous in memory:
  // [head][block][key_dim][16].
  constexpr int64_t value_blocks() const { return (value_dim + 15) / 16; }
  constexpr int64_t state_floats() const { return n_value_heads * value_blocks() * key_dim * 16; }
};
inline constexpr int kMaxDeltaKeyDim = 1024;

// Inputs of the delta rule. The heads of a row are contiguous. All inputs except `v` are overwritten.
struct DeltaInputs {
  float* q;
  float* k;
  const float* v;
  int64_t stride;  // Floats between rows of q, k and v.
  float* decay;    // Dense, DeltaRule::decays() per row.
  float* beta;     // Dense, [n_value_heads].
};

// The state-space recurrence of Mamba-2 (arXiv:2405.21060). Computed for each head. H is the state, and B and C belong
// to the head's group:
//   step = softplus(input + step_bias),  H = exp(step rate) H + step x B^T,  out = H C + skip x
// Mamba (arXiv:2312.00752) has a step and a skip factor for each channel of x, and a rate for each element of H.
struct StateSpace {
  int n_heads = 0, n_groups = 0;     // n_heads is a multiple of n_groups. Each group serves a run of consecutive heads.
  int head_dim = 0, state_dim = 0;   // head_dim: size of x. state_dim: size of B and C.
  bool channel_steps = false;        // Mamba. Requires one head, whose channels are all channels of x.
  const float* rate = nullptr;       // Backend memory, [n_heads], or [state_dim][head_dim] with channel_steps.
  const float* step_bias = nullptr;  // Backend memory. step_bias and skip are [steps()].
  const float* skip = nullptr;

  constexpr int group(int head) const { return head / (n_heads / n_groups); }
  constexpr int64_t width() const { return int64_t{n_heads} * head_dim; }
  // Number of steps per token.
  constexpr int64_t steps() const { return channel_steps ? width() : n_heads; }
  constexpr int64_t group_width() const { return int64_t{n_groups} * state_dim; }
  // Layout of the state: the values of a head are grouped into blocks of 16: [head][block][state_dim][16].
  constexpr int64_t blocks() const { return (head_dim + 15) / 16; }
  constexpr int64_t state_floats() const { return n_heads * blocks() * state_dim * 16; }
};

// Inputs of the state-space recurrence. The heads of a row, and its groups, are contiguous.
struct StateSpaceInputs {
  const float* x;  // Shape [n_heads][head_dim].
  const float* b;  // Shape [n_groups][state_dim].
  const float* c;
  int64_t stride;        // Floats between rows of x.
  int64_t group_stride;  // Floats between rows of b and c.
  float* step;           // Step sizes, shape [StateSpace::steps()] per row, contiguous. The operation overwrites them.
};

// The time mixing of RWKV 6 (arXiv:2404.05892) and RWKV 7 (arXiv:2503.14456). Computed for each head. S is the state,
// with a row for each element of v and a column for each element of k:
//   RWKV 6:  w = exp(-exp(decay + decay_bias)),  out = S r + (r . (bonus k)) v,  S = S diag(w) + v k^T
//   RWKV 7:  w = exp(-0.606531 sigmoid(decay + decay_bias)),  a = sigmoid(rate + rate_bias)
//            v = v + (first_v - v) sigmoid(value_mix + value_bias), except in the layer that computes first_v
//            n = k key_scale, L2-normalized,  k = k (1 + (a - 1) key_rate)
//            S = S diag(w) + v k^T - (S n) (a n)^T,  out = S r
// The result is normalized per head (LayerNorm with weight and bias). RWKV 7 then adds (r . (bonus k)) v. The result is
// multiplied by the gate, in RWKV 6 by SiLU(gate).
struct TimeMix {
  bool delta = false;             // RWKV 7.
  int n_heads = 0, head_dim = 0;  // head_dim is a multiple of 16 and at most kMaxTimeMixDim.
  float norm_eps = 0;
  // These vectors are in backend memory and have width() values each.
  const float* decay_bias = nullptr;
  const float* bonus = nullptr;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  // RWKV 7 only.
  const float* rate_bias = nullptr;
  const float* value_bias = nullptr;
  const float* key_scale = nullptr;
  const float* key_rate = nullptr;

  constexpr int64_t width() const { return int64_t{n_heads} * head_dim; }
  // Layout of the state: the elements of v are grouped into blocks of 16: [head][block][head_dim][16].
  constexpr int64_t state_floats() const { return width() * head_dim; }
};
inline constexpr int kMaxTimeMixDim = 256;

// Inputs of TimeMix. All are dense, [n_rows][TimeMix::width()].
struct TimeMixInputs {
  const float* r;
  const float* k;
  const float* v;
  const float* decay;
  const float* gate;
  // RWKV 7 only.
  const float* rate = nullptr;
  const float* first_v = nullptr;  // Null in the layer that computes it. Then value_mix is not read.
  const float* value_mix = nullptr;
};

// Token shift: x is mixed, element by element, with `difference`, which is the x of the sequence's previous token minus
// x: out = x + difference * (mu + shift).
struct ShiftedInput {
  const float* mu;               // Backend memory, [dim].
  const float* shift = nullptr;  // [n_rows][dim], or null for none.
  float* out;                    // [n_rows][dim].
};

// Pools each block of consecutive positions into one row, element by element (compressed attention of DeepSeek V4,
// https://huggingface.co/deepseek-ai/DeepSeek-V4):
//   out = sum over the block's rows of w value,   w = softmax over these rows of score + bias[position mod block]
// With `overlap`, input rows have 2 * dim elements: the second half belongs to the row's own block and the first half
// to the next block, so 2 * block rows contribute to each result. The state covers the block that is being filled and,
// with `overlap`, the next one. It consists of the largest score so far, the sum of weights relative to that score, and
// the weighted sum of values: [block][these three][dim].
struct BlockPool {
  int dim = 0, block = 0;
  bool overlap = false;
  const float* bias = nullptr;  // Backend memory, [block][width()].

  int64_t width() const { return int64_t{dim} * (overlap ? 2 : 1); }
  int64_t state_floats() const { return 3 * width(); }
};

}  // namespace monolith
