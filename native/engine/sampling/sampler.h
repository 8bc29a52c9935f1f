// Samples a token from one row of logits on the host, as specified in backend/sampling.h. Each sampling thread has its
// own Sampler.
//
// The result is exactly the same as with the straightforward algorithm: sort all tokens by logit, breaking ties by ID;
// apply the cuts; draw from the remaining tokens in order of ID. The sampler avoids most of the sorting: the maxima of
// blocks of 64 logits limit the candidates for top_k and top_p. Sums of weights are exact (sampler_kernels.h), so the
// order of summation does not matter. Identical logits, parameters, seed and position produce identical bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/sampling.h"
#include "engine/sampling/logit_processors.h"
#include "engine/request.h"
#include "engine/sampling/sampler_kernels.h"

namespace monolith {

// A sampled token, with its logprobs if requested.
using TokenLogprobs = SampleResult;

// The tokens that a forced sequence or a grammar allows next. The constraint takes precedence over bias and bans: if
// these exclude every allowed token, they are ignored. Tokens that are not allowed have probability 0 in the logprobs.
struct TokenConstraint {
  // Ascending, without duplicates. A single token is chosen without a random number. If empty, every token is allowed.
  std::span<const TokenId> allowed;
  // Alternative to the list: one bit per token, in (n_vocab + 63) / 64 words. At least one bit is set; bits at n_vocab
  // and above are clear.
  std::span<const uint64_t> mask = {};
};

// Builds the sampling task for the generated token at `position`, with random bits from `stream` of params.seed. The
// task keeps references to the arguments, which must outlive it.
SampleTask sample_task(const float* logits, const SamplingParams& params, const PenaltyCounts& counts, uint32_t stream,
                       uint64_t position, const TokenConstraint& constraint);

class Sampler {
 public:
  // Reserves scratch memory for rows of `n_vocab` logits; the OS commits it on first use. sample() does not allocate.
  explicit Sampler(int n_vocab, const SamplerKernels& kernels = sampler_kernels());

  void sample(const SampleTask& task, SampleResult& result);

 private:
  struct Candidate {
    float logit;
    TokenId id;
    float weight;
  };
  // Cut order: larger logit first, then smaller ID.
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }

  bool read_row(const float* logits);
  void mask(const float* logits, const SampleTask& task);
  TokenId choose(const float* logits, const SampleTask& task, double plain_total);
  TokenId best(const float* logits) const;
  // Fills candidates_ with at least the `count` best of the tokens whose logit is at least `above`, or with all such
  // tokens if the block maxima give no tighter bound.
  void collect_top(const float* logits, int64_t count, float above = -std::numeric_limits<float>::infinity());
  void weigh_candidates(WeightScale scale);
  Cut top_k_cut(const float* logits, int64_t k);
  Cut top_p_cut(const float* logits, WeightScale scale, double target);
  Cut flat_top_p_cut(const float* logits, WeightScale scale, double target);
  Cut top_p_cut_of_candidates(double passed, double target);
  TokenId draw(const float* logits, WeightScale scale, Cut cut, float min_weight, double total, uint64_t bits);
  void fill_logprobs(const float* logits, float log_total, int n_top, SampleResult& out);

  const SamplerKernels& kernels_;
  int64_t n_vocab_, n_blocks_;
  float max_ = 0;                      // Largest logit of the current row.
  std::unique_ptr<float[]> adjusted_;  // The logit row after bias, bans and penalties.
  // The logit row with minus infinity for tokens that the constraint does not allow.
  std::unique_ptr<float[]> masked_;
  std::vector<float> block_max_, block_order_;
  std::vector<double> block_sums_;
  std::vector<Candidate> candidates_;  // Candidate tokens for a cut. Capacity: n_vocab.
  std::unique_ptr<float[]> gathered_;  // Logits, later weights, of the candidates or of the whole row.
  std::unique_ptr<uint16_t[]> steps_;  // Quantized distance of each logit from the row's maximum.
  std::vector<double> bins_;
};

}  // namespace monolith
