// Kernels that make one pass over a whole row of logits, compiled once per instruction set from sampler_kernels-inl.h.
// All versions produce identical bits.
//
// A weight is exp((logit - max) / temperature), rounded to a multiple of 2^-34. Sums of up to 2^19 such weights are
// exact in double precision, in any order of addition. The sampler can therefore skip, select and reorder tokens freely
// and still decide exactly as the straightforward algorithm with a full sort would.
#pragma once

#include <cstdint>
#include <limits>

namespace monolith {

inline constexpr int kBlock = 64;                        // Logits per block.
inline constexpr double kQuantum = 1.0 / 17179869184.0;  // Weights are multiples of 2^-34.

inline constexpr int kDistances = 2048;
inline constexpr float kFarthest = 25.0f;  // From this distance on, weights are 0: exp(-25) rounds to 0.

// Keeps the best tokens, ordered by descending logit, then by ascending ID: all tokens up to and including (logit, id).
struct Cut {
  float logit = -std::numeric_limits<float>::infinity();
  int32_t id = std::numeric_limits<int32_t>::max();
  bool keeps(float other, int32_t other_id) const { return other > logit || (other == logit && other_id <= id); }
};

struct WeightScale {
  float max;  // Largest logit of the row.
  float inverse_temperature;
};

struct SamplerKernels {
  const char* name;
  // Sets block_max[i] to the largest logit of block i. Returns false if any logit is NaN or infinite; block_max is then
  // invalid.
  bool (*scan)(const float* logits, int64_t n, float* block_max);
  // Sets out[i] to the weight of logits[i].
  void (*weigh)(const float* logits, int64_t n, WeightScale scale, float* out);
  // Sets out[i] to the distance of logits[i] from scale.max, quantized to kDistances steps; the last step also covers
  // all larger distances. Monotone in the logit.
  void (*distances)(const float* logits, int64_t n, WeightScale scale, uint16_t* out);
  // Sums the weights of the tokens that `cut` keeps and whose weight is at least `min_weight`. Stores the sum for block
  // i in block_sums[i] and returns the total.
  double (*sum)(const float* logits, int64_t n, const float* block_max, WeightScale scale, Cut cut, float min_weight,
                double* block_sums);
  // Sets out[i] to logits[i] where bit i of `words` is set, and to minus infinity elsewhere. Sets block_max as scan()
  // does. `words` has one word per block.
  void (*select)(const float* logits, int64_t n, const uint64_t* words, float* out, float* block_max);
};

// Returns the fastest version that this CPU supports.
const SamplerKernels& sampler_kernels();
// Returns null if the version is not available. For tests.
const SamplerKernels* sampler_kernels_named(const char* name);

}  // namespace monolith
