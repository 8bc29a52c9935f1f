// From logits to a token: bias → penalties → constraint → temperature → top_k → top_p → min_p → draw. Engine
// thread only.
//
// The result is exactly that of the plain algorithm (sort all tokens by logit, ties by id; cut; draw over
// the kept tokens in order of id), but nothing is sorted that need not be: maxima of blocks of 64 logits
// bound the candidates for top_k and top_p, and weights whose sums are exact (sampler_kernels.h) make the
// order of summation irrelevant. Identical logits, parameters, seed and position give identical bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/logit_processors.h"
#include "engine/request.h"
#include "engine/sampler_kernels.h"

namespace monolith {

struct TopLogprob {
  TokenId token;
  float logprob;
};

// Natural logarithms of the distribution after bias and penalties, before temperature and cuts. A token
// of probability 0 has minus infinity.
struct TokenLogprobs {
  TokenId token = kNoToken;
  float logprob = 0;
  int n_top = 0;
  TopLogprob top[kMaxTopLogprobs];   // best first
};

// What a rule allows next; whoever knows the rule says so before each token. It outranks bias and bans: if
// those leave nothing of what it allows, they are not applied. Logprobs do not know of it.
struct TokenConstraint {
  std::span<const TokenId> allowed;   // ascending, none twice; one is taken without drawing; empty: every token
  // Instead of a list: one bit per token, (n_vocab + 63) / 64 words, at least one bit set and none from n_vocab on.
  std::span<const uint64_t> mask = {};
};

class Sampler {
 public:
  // Allocates scratch for rows of `n_vocab` logits; sample() allocates nothing.
  explicit Sampler(int n_vocab, const SamplerKernels& kernels = sampler_kernels());

  // Chooses the token at generated position `position` from logits [n_vocab]. `logprobs` is filled if not
  // null (params.top_logprobs entries of `top`). Returns kNoToken if the logits are not finite or nothing
  // can be chosen.
  TokenId sample(const float* logits, const SamplingParams& params, const PenaltyCounts& counts, uint64_t seed,
                 uint64_t position, const TokenConstraint& constraint, TokenLogprobs* logprobs);

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
  void mask(const float* logits, const TokenConstraint& constraint);
  TokenId choose(const float* logits, const SamplingParams& params, double plain_total, uint64_t bits);
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
  void fill_logprobs(const float* logits, float log_total, int n_top, TokenId token, TokenLogprobs& out);

  const SamplerKernels& kernels_;
  int64_t n_vocab_, n_blocks_;
  float max_ = 0;                       // of the row being sampled
  std::vector<float> adjusted_;         // the row after bias and penalties
  std::vector<float> masked_;           // the row with what a constraint does not allow at minus infinity
  std::vector<float> block_max_, block_order_;
  std::vector<double> block_sums_;
  std::vector<Candidate> candidates_;   // capacity n_vocab
  std::vector<float> gathered_;         // logits, then weights of candidates or of the row
  std::vector<double> bins_;
};

}  // namespace monolith
