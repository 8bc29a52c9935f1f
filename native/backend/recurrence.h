// Layers that keep so much of a sequence, however long it is: where that lies, and the operations that carry it on.
//
// State lies in slots. A slot holds what all such layers know of a sequence behind one of its positions. A segment names
// the slot it goes on from and the one it leaves its state in (Segment, kv_cache.h). The two may be the same; if they
// are not, the first stays as it is: that is how forks, snapshots and guesses that may be wrong cost no copy. Segments
// of a step are carried on in their order, so that one may go on from a slot that one before it has written.
//
// Rows are taken one after the other, by the same operations wherever a segment ends: no cut of a prompt changes a bit.
#pragma once

#include <cstdint>

namespace monolith {

// One layer's part of all slots, or a piece of it. Backend memory.
struct LayerSlots {
  float* first = nullptr;  // of slot 0
  int64_t stride = 0;      // floats from one slot's to the next one's

  constexpr float* of(int32_t slot) const { return first + slot * stride; }
  constexpr LayerSlots from(int64_t offset) const { return {first + offset, stride}; }
};

// Each channel by itself, over its last inputs:
//   y[t] = activation(bias + sum over j of weight[j] * x[t - n_taps + 1 + j])
// Its state is the last n_taps - 1 inputs of all channels, the oldest first.
struct Convolution {
  int n_channels = 0, n_taps = 0;
  const float* weight = nullptr;  // backend memory, [n_channels][n_taps]
  const float* bias = nullptr;    // backend memory, [n_channels]; null: none
  bool silu = false;              // the activation; else there is none

  constexpr int64_t state_floats() const { return int64_t{n_taps - 1} * n_channels; }
};
inline constexpr int kMostTaps = 8;

// The gated delta rule (arXiv:2412.06464). Of each value head, with q and k of its key head past an L2 norm, q divided by
// sqrt(key_dim), and S the state:
//   S *= decay              decay = exp(rate * softplus(x + decay_bias)), of the head or of each of S's rows
//   S += k (beta (v - k S))^T             beta = sigmoid(x)
//   out = q S
struct DeltaRule {
  int n_key_heads = 0, n_value_heads = 0;  // the second a multiple of the first
  int key_dim = 0, value_dim = 0;          // of one head
  bool tiled = false;           // value head i has key head i mod n_key_heads; else key heads have runs of value heads
  bool channel_decay = false;   // one for each dimension of a key: then there are as many key heads as value heads
  float norm_eps = 0;           // the least length a vector is divided by
  const float* rate = nullptr;  // backend memory, [n_value_heads]
  const float* decay_bias = nullptr;  // backend memory, [n_value_heads], times key_dim with channel_decay

  constexpr int key_head(int value_head) const {
    return tiled ? value_head % n_key_heads : value_head / (n_value_heads / n_key_heads);
  }
  constexpr int64_t decays() const { return int64_t{n_value_heads} * (channel_decay ? key_dim : 1); }  // of a row
  // Values of a head are kept 16 to a block, so that a block of columns is one piece: [head][block][key_dim][16].
  constexpr int64_t value_blocks() const { return (value_dim + 15) / 16; }
  constexpr int64_t state_floats() const { return n_value_heads * value_blocks() * key_dim * 16; }
};
inline constexpr int kMostDeltaKeyDim = 1024;

// What it reads of a step's rows; heads lie one behind the other. All but `v` are overwritten.
struct DeltaInputs {
  float* q;
  float* k;
  const float* v;
  int64_t stride;  // floats between rows of these three
  float* decay;    // dense
  float* beta;     // dense, [n_value_heads]
};

// The state space of Mamba-2 (arXiv:2405.21060). Of each head, with B and C of its group and H the state:
//   step = softplus(input + step_bias),  H = exp(step rate) H + step x B^T,  out = H C + skip x
struct StateSpace {
  int n_heads = 0, n_groups = 0;    // the first a multiple of the second: groups have runs of heads
  int head_dim = 0, state_dim = 0;  // of x, and of B and C
  const float* rate = nullptr;      // backend memory, these three [n_heads]
  const float* step_bias = nullptr;
  const float* skip = nullptr;

  constexpr int group(int head) const { return head / (n_heads / n_groups); }
  constexpr int64_t width() const { return int64_t{n_heads} * head_dim; }
  constexpr int64_t group_width() const { return int64_t{n_groups} * state_dim; }
  // Values of a head are kept 16 to a block: [head][block][state_dim][16].
  constexpr int64_t blocks() const { return (head_dim + 15) / 16; }
  constexpr int64_t state_floats() const { return n_heads * blocks() * state_dim * 16; }
};

// What it reads of a step's rows; heads, and groups, lie one behind the other.
struct StateSpaceInputs {
  const float* x;  // [n_heads][head_dim]
  const float* b;  // [n_groups][state_dim]
  const float* c;
  int64_t stride;  // floats between rows of these three
  float* step;     // dense, [n_heads]: overwritten
};

// Pools each block of consecutive positions into one row, every number by itself (compressed attention of DeepSeek V4,
// https://huggingface.co/deepseek-ai/DeepSeek-V4):
//   out = sum over the block's rows of w value,   w = softmax over these rows of score + bias[position mod block]
// With `overlap` rows have 2 dim numbers: the latter half counts for the row's own block, the former for the next one, so
// that 2 block rows take part. Its state is the largest score so far, the sum of weights relative to it and the weighted
// sum of values, of the block that is being filled and with `overlap` of the next one: [block][these three][dim].
struct BlockPool {
  int dim = 0, block = 0;
  bool overlap = false;
  const float* bias = nullptr;  // backend memory, [block][width()]

  int64_t width() const { return int64_t{dim} * (overlap ? 2 : 1); }
  int64_t state_floats() const { return 3 * width(); }
};

}  // namespace monolith
