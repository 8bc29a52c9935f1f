// The passes over a whole row of logits that sampling needs, compiled once per instruction set from
// sampler_kernels-inl.h. All versions compute the same bits.
//
// A weight is exp((logit - max) / temperature), rounded to a multiple of 2^-34. Sums of such numbers are
// exact in double precision up to 2^19 tokens, whatever the order of addition: the sampler may skip,
// select and reorder freely and still decide exactly as the plain algorithm over a full sort would.
#pragma once

#include <cstdint>
#include <limits>

namespace monolith {

inline constexpr int kBlock = 64;                        // logits per block
inline constexpr double kQuantum = 1.0 / 17179869184.0;  // 2^-34

inline constexpr int kDistances = 2048;
inline constexpr float kFarthest = 25.0f;  // exp(-25) rounds to 0 quanta

// The best tokens, ordered by logit, then by id: everything up to and including (logit, id).
struct Cut {
  float logit = -std::numeric_limits<float>::infinity();
  int32_t id = std::numeric_limits<int32_t>::max();
  bool keeps(float other, int32_t other_id) const { return other > logit || (other == logit && other_id <= id); }
};

struct WeightScale {
  float max;  // the row's largest logit
  float inverse_temperature;
};

struct SamplerKernels {
  const char* name;
  // block_max[i] = the largest of block i. False if a logit is NaN or infinite (block_max is then void).
  bool (*scan)(const float* logits, int64_t n, float* block_max);
  // out[i] = weight of logits[i].
  void (*weigh)(const float* logits, int64_t n, WeightScale scale, float* out);
  // out[i] = how far logits[i] is from scale.max, in kDistances steps of which the last is where weights are 0, and
  // what is beyond. Monotone in the logit.
  void (*distances)(const float* logits, int64_t n, WeightScale scale, uint16_t* out);
  // Sums over the tokens kept by `cut` whose weight is at least `min_weight`: block_sums[i] per block,
  // returns the total.
  double (*sum)(const float* logits, int64_t n, const float* block_max, WeightScale scale, Cut cut, float min_weight,
                double* block_sums);
  // out[i] = logits[i] where bit i of `words` is set, minus infinity elsewhere; block_max as by scan(). `words`
  // has one word per block.
  void (*select)(const float* logits, int64_t n, const uint64_t* words, float* out, float* block_max);
};

const SamplerKernels& sampler_kernels();                        // the best this processor runs
const SamplerKernels* sampler_kernels_named(const char* name);  // null if unavailable; for tests

}  // namespace monolith
