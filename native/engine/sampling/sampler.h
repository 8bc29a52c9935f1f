// From logits to a token on the host: what sampling.h says, one row at a time. Each thread that samples has its own.
//
// The result is exactly that of the plain algorithm (sort all tokens by logit, ties by id; cut; draw over
// the kept tokens in order of id), but nothing is sorted that need not be: maxima of blocks of 64 logits
// bound the candidates for top_k and top_p, and weights whose sums are exact (sampler_kernels.h) make the
// order of summation irrelevant. Identical logits, parameters, seed and position give identical bits.
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

// A token as it was chosen, with its logprobs if asked for.
using TokenLogprobs = SampleResult;

// What a rule allows next; whoever knows the rule says so before each token. It outranks bias and bans: if
// those leave nothing of what it allows, they are not applied. Logprobs do not know of it.
struct TokenConstraint {
  std::span<const TokenId> allowed;  // ascending, none twice; one is taken without drawing; empty: every token
  // Instead of a list: one bit per token, (n_vocab + 63) / 64 words, at least one bit set and none from n_vocab on.
  std::span<const uint64_t> mask = {};
};

// The choice of the token at generated position `position`, drawn from that stream of the seed. Refers to its arguments.
SampleTask sample_task(const float* logits, const SamplingParams& params, const PenaltyCounts& counts, uint32_t stream,
                       uint64_t position, const TokenConstraint& constraint);

class Sampler {
 public:
  // Scratch for rows of `n_vocab` logits, of which memory is taken as it is first used; sample() allocates nothing.
  explicit Sampler(int n_vocab, const SamplerKernels& kernels = sampler_kernels());

  void sample(const SampleTask& task, SampleResult& result);

 private:
  struct Candidate {
    float logit;
    TokenId id;
    float weight;
  };
  // The order of cuts: larger logit first, then smaller id.
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }

  bool read_row(const float* logits);
  void mask(const float* logits, const SampleTask& task);
  TokenId choose(const float* logits, const SampleTask& task, double plain_total);
  TokenId best(const float* logits) const;
  // Fills candidates_ with at least the `count` best tokens (all of them if that cannot be bounded), of those whose
  // logit is at least `above`.
  void collect_top(const float* logits, int64_t count, float above = -std::numeric_limits<float>::infinity());
  void weigh_candidates(WeightScale scale);
  Cut top_k_cut(const float* logits, int64_t k);
  Cut top_p_cut(const float* logits, WeightScale scale, double target);
  Cut flat_top_p_cut(const float* logits, WeightScale scale, double target);
  Cut top_p_cut_of_candidates(double passed, double target);
  TokenId draw(const float* logits, WeightScale scale, Cut cut, float min_weight, double total, uint64_t bits);
  void fill_logprobs(const float* logits, float log_total, int n_top, TokenId token, SampleResult& out);

  const SamplerKernels& kernels_;
  int64_t n_vocab_, n_blocks_;
  float max_ = 0;                      // of the row being sampled
  std::unique_ptr<float[]> adjusted_;  // the row after bias and penalties
  std::unique_ptr<float[]> masked_;    // the row with what a constraint does not allow at minus infinity
  std::vector<float> block_max_, block_order_;
  std::vector<double> block_sums_;
  std::vector<Candidate> candidates_;  // capacity n_vocab
  std::unique_ptr<float[]> gathered_;  // logits, then weights of candidates or of the row
  std::unique_ptr<uint16_t[]> steps_;  // the row's distances
  std::vector<double> bins_;
};

}  // namespace monolith
