#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <functional>

#include "engine/sampling/philox.h"

namespace monolith {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr float kMin = std::numeric_limits<float>::lowest();

// Returns the only allowed token, or kNoToken if there are several or there is no constraint.
TokenId only_token(const SampleTask& task) {
  if (task.mask.empty()) return task.allowed.size() == 1 ? task.allowed.front() : kNoToken;
  TokenId only = kNoToken;
  for (size_t i = 0; i < task.mask.size(); ++i) {
    const uint64_t word = task.mask[i];
    if (word == 0) continue;
    if (only != kNoToken || (word & (word - 1)) != 0) return kNoToken;
    only = static_cast<TokenId>(i * 64 + static_cast<size_t>(__builtin_ctzll(word)));
  }
  return only;
}

}  // namespace

SampleTask sample_task(const float* logits, const SamplingParams& params, const PenaltyCounts& counts, uint32_t stream,
                       uint64_t position, const TokenConstraint& constraint) {
  SampleTask task;
  task.logits = logits;
  task.random = random_bits(params.seed, stream, position);
  task.temperature = params.temperature;
  task.top_k = params.top_k;
  task.top_p = params.top_p;
  task.min_p = params.min_p;
  task.bias = params.logit_bias;
  task.banned = params.banned;
  if (PenaltyCounts::needed(params)) {
    task.repetition_penalty = params.repetition_penalty;
    task.frequency_penalty = params.frequency_penalty;
    task.presence_penalty = params.presence_penalty;
    task.used = counts.entries();
  }
  task.allowed = constraint.allowed;
  task.mask = constraint.mask;
  task.n_top = params.top_logprobs;
  return task;
}

Sampler::Sampler(int n_vocab, const SamplerKernels& kernels)
    : kernels_(kernels), n_vocab_(n_vocab), n_blocks_((n_vocab_ + kBlock - 1) / kBlock) {
  const auto n = static_cast<size_t>(n_vocab_);
  adjusted_ = std::make_unique_for_overwrite<float[]>(n);
  masked_ = std::make_unique_for_overwrite<float[]>(n);
  gathered_ = std::make_unique_for_overwrite<float[]>(n);
  block_max_.resize(static_cast<size_t>(n_blocks_));
  block_order_.resize(static_cast<size_t>(n_blocks_));
  block_sums_.resize(static_cast<size_t>(n_blocks_));
  candidates_.reserve(n);
  steps_ = std::make_unique_for_overwrite<uint16_t[]>(n);
  bins_.resize(2 * kDistances);
}

void Sampler::sample(const SampleTask& task, SampleResult& result) {
  result.token = kNoToken;
  result.n_top = 0;
  const float* const raw = task.logits;
  const float* logits = raw;
  const bool wants_logprobs = task.n_top >= 0;
  if (!read_row(raw)) return;
  if (task.adjusts()) {
    std::copy(raw, raw + n_vocab_, adjusted_.get());
    apply_logit_processors(task, adjusted_.get());
    logits = adjusted_.get();
    read_row(logits);  // Result ignored: bans make the row non-finite, which is fine here.
  }
  if (task.constrained()) {
    if (const TokenId only = only_token(task); only != kNoToken) {
      result.token = only;
      result.logprob = 0;
      result.n_top = std::clamp(task.n_top, 0, 1);
      result.top[0] = {only, 0};
      return;
    }
    mask(logits, task);
    if (!std::isfinite(max_)) mask(raw, task);
    logits = masked_.get();
  }
  if (!std::isfinite(max_)) return;

  double plain_total = 0;  // Total weight of all tokens at temperature 1; 0 = not computed.
  if (wants_logprobs) {
    plain_total = kernels_.sum(logits, n_vocab_, block_max_.data(), {max_, 1.0f}, Cut{}, 0, block_sums_.data());
  }
  result.token = task.given != kNoToken ? task.given : choose(logits, task, plain_total);
  if (wants_logprobs) fill_logprobs(logits, static_cast<float>(std::log(plain_total)), task.n_top, result);
}

// Computes the block maxima and max_ of a row. Returns false if any logit is not finite.
bool Sampler::read_row(const float* logits) {
  const bool finite = kernels_.scan(logits, n_vocab_, block_max_.data());
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
  return finite;
}

void Sampler::mask(const float* logits, const SampleTask& task) {
  if (!task.mask.empty()) {
    assert(task.mask.size() == static_cast<size_t>(n_blocks_));
    kernels_.select(logits, n_vocab_, task.mask.data(), masked_.get(), block_max_.data());
    max_ = *std::max_element(block_max_.begin(), block_max_.end());
    return;
  }
  std::fill_n(masked_.get(), n_vocab_, -std::numeric_limits<float>::infinity());
  for (const TokenId token : task.allowed) masked_[static_cast<size_t>(token)] = logits[token];
  read_row(masked_.get());
}

// Chooses a token from the row that read_row() has read. `plain_total`: the row's total weight at temperature 1; 0 =
// not computed. If it is given, block_sums_ must hold the block sums at temperature 1.
TokenId Sampler::choose(const float* logits, const SampleTask& task, double plain_total) {
  const bool greedy = task.temperature < kGreedyTemperature;
  const bool cuts_k = task.top_k > 0 && task.top_k < n_vocab_;
  const bool cuts_p = task.top_p < 1.0f;
  if (greedy || task.top_k == 1) return best(logits);

  const WeightScale scale{max_, 1.0f / task.temperature};
  Cut cut;
  double total = 0;  // Total weight of the tokens that `cut` keeps, with block_sums_ to match; 0 = not computed.
  if (cuts_k) {
    cut = top_k_cut(logits, task.top_k);
    if (cuts_p) {
      double candidate_total = 0;
      weigh_candidates(scale);
      for (const Candidate& candidate : candidates_) candidate_total += candidate.weight;
      cut = top_p_cut_of_candidates(0, double{task.top_p} * candidate_total);
    }
  } else {
    if (plain_total > 0 && scale.inverse_temperature == 1.0f) {
      total = plain_total;
    } else if (cuts_p || task.min_p <= 0) {
      total = kernels_.sum(logits, n_vocab_, block_max_.data(), scale, cut, 0, block_sums_.data());
    }
    if (cuts_p) cut = top_p_cut(logits, scale, double{task.top_p} * total);
  }
  if (cuts_k || cuts_p || task.min_p > 0) {
    total = kernels_.sum(logits, n_vocab_, block_max_.data(), scale, cut, task.min_p, block_sums_.data());
  }
  return draw(logits, scale, cut, task.min_p, total, task.random);
}

TokenId Sampler::best(const float* logits) const {
  const int64_t block = std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin();
  int64_t id = block * kBlock;
  while (logits[id] != max_) ++id;
  return static_cast<TokenId>(id);
}

void Sampler::collect_top(const float* logits, int64_t count, float above) {
  // At least `count` blocks have a maximum of at least `bound`, so at least `count` tokens have a logit of at least
  // `bound`.
  float bound = -std::numeric_limits<float>::infinity();
  if (count < n_blocks_) {
    block_order_ = block_max_;
    const auto nth = block_order_.begin() + (count - 1);
    std::nth_element(block_order_.begin(), nth, block_order_.end(), std::greater<float>());
    bound = *nth;
  }
  candidates_.clear();
  for (int64_t block = 0; block < n_blocks_; ++block) {
    if (block_max_[static_cast<size_t>(block)] < bound || block_max_[static_cast<size_t>(block)] < above) continue;
    const int64_t end = std::min<int64_t>((block + 1) * kBlock, n_vocab_);
    for (int64_t id = block * kBlock; id < end; ++id)
      if (logits[id] >= bound && logits[id] >= above) candidates_.push_back({logits[id], static_cast<TokenId>(id), 0});
  }
}

void Sampler::weigh_candidates(WeightScale scale) {
  const size_t n = candidates_.size();
  for (size_t i = 0; i < n; ++i) gathered_[i] = candidates_[i].logit;
  kernels_.weigh(gathered_.get(), static_cast<int64_t>(n), scale, gathered_.get());
  for (size_t i = 0; i < n; ++i) candidates_[i].weight = gathered_[i];
}

// Reduces candidates_ to exactly the k best tokens, or to all tokens that are not banned if there are fewer than k.
Cut Sampler::top_k_cut(const float* logits, int64_t k) {
  collect_top(logits, k, kMin);
  // Fewer than k tokens have a finite logit, so all of them are kept.
  if (candidates_.size() < static_cast<size_t>(k)) return {};
  const auto last = candidates_.begin() + (k - 1);
  std::nth_element(candidates_.begin(), last, candidates_.end(), before);
  candidates_.erase(last + 1, candidates_.end());
  return {last->logit, last->id};
}

// Finds the first candidate, in cut order, at which the running total of weights reaches `target`, or the last
// candidate if none does. `passed`: total weight of the tokens before the candidates. This is a quickselect that sums
// weights as it partitions, so the expected time is linear.
Cut Sampler::top_p_cut_of_candidates(double passed, double target) {
  auto begin = candidates_.begin(), end = candidates_.end();
  while (end - begin > 32) {
    const auto middle = begin + (end - begin) / 2;
    const Candidate& a = *begin;
    const Candidate& b = *middle;
    const Candidate& c = *(end - 1);
    const Candidate pivot = before(a, b) ? (before(b, c)   ? b
                                            : before(a, c) ? c
                                                           : a)
                                         : (before(a, c)   ? a
                                            : before(b, c) ? c
                                                           : b);
    double left = 0;
    const auto split = std::partition(begin, end, [&](const Candidate& candidate) {
      const bool is_left = !before(pivot, candidate);  // The pivot itself goes to the left part.
      if (is_left) left += candidate.weight;
      return is_left;
    });
    // Token IDs are unique, so one of the three candidates comes before the median and one after it. Both parts are
    // therefore smaller than the range.
    assert(split != begin && split != end);
    if (passed + left >= target) {
      end = split;
    } else {
      passed += left;
      begin = split;
    }
  }
  std::sort(begin, end, before);
  for (auto at = begin; at != end; ++at) {
    passed += at->weight;
    if (passed >= target || at + 1 == end) return {at->logit, at->id};
  }
  return Cut{};
}

Cut Sampler::top_p_cut(const float* logits, WeightScale scale, double target) {
  // Most distributions are peaked, so first try a few of the best tokens, then more.
  for (const int64_t count : {int64_t{32}, int64_t{512}}) {
    if (count * 4 > n_blocks_) break;  // A larger `count` would collect most of the row.
    collect_top(logits, count, kMin);
    weigh_candidates(scale);
    double held = 0;
    for (const Candidate& candidate : candidates_) held += candidate.weight;
    if (held >= target) return top_p_cut_of_candidates(0, target);
  }
  return flat_top_p_cut(logits, scale, target);
}

// For flat distributions: a histogram of the weights by logit narrows the search to one bin.
Cut Sampler::flat_top_p_cut(const float* logits, WeightScale scale, double target) {
  kernels_.weigh(logits, n_vocab_, scale, gathered_.get());
  kernels_.distances(logits, n_vocab_, scale, steps_.get());
  // Bins are monotone in the logit, so they are in cut order. Even and odd tokens have separate bins because
  // neighboring tokens often fall into the same bin, and successive additions to one bin would depend on each other.
  const float* const weights = gathered_.get();
  const uint16_t* const steps = steps_.get();
  std::fill(bins_.begin(), bins_.end(), 0.0);
  double* const even = bins_.data();
  double* const odd = even + kDistances;
  int64_t id = 0;
  for (; id + 1 < n_vocab_; id += 2) {
    even[steps[id]] += weights[id];
    odd[steps[id + 1]] += weights[id + 1];
  }
  if (id < n_vocab_) even[steps[id]] += weights[id];
  double passed = 0;
  int bin = 0;
  for (; bin + 1 < kDistances; ++bin) {
    const double held = even[bin] + odd[bin];
    if (passed + held >= target) break;
    passed += held;
  }
  candidates_.clear();
  const auto look_at = [&](int64_t token) {
    if (steps[token] == bin) candidates_.push_back({logits[token], static_cast<TokenId>(token), weights[token]});
  };
  // Checks four tokens at once: XOR turns the bin numbers that match into 0, and the test below detects whether any of
  // the four is 0.
  constexpr uint64_t kOnes = 0x0001000100010001u;
  const uint64_t wanted = kOnes * static_cast<uint64_t>(bin);
  for (id = 0; id + 4 <= n_vocab_; id += 4) {
    uint64_t four;
    std::memcpy(&four, steps + id, sizeof four);
    four ^= wanted;
    if (((four - kOnes) & ~four & (kOnes << 15)) == 0) continue;
    for (int64_t i = id; i < id + 4; ++i) look_at(i);
  }
  for (; id < n_vocab_; ++id) look_at(id);
  return candidates_.empty() ? Cut{} : top_p_cut_of_candidates(passed, target);
}

TokenId Sampler::draw(const float* logits, WeightScale scale, Cut cut, float min_weight, double total, uint64_t bits) {
  // The total is a whole number of quanta. One of them is chosen uniformly, without rounding.
  const auto quanta = static_cast<uint64_t>(total * (1.0 / kQuantum));
  const auto chosen = static_cast<uint64_t>((Wide{bits} * quanta) >> 64);
  const double target = static_cast<double>(chosen) * kQuantum;
  double passed = 0;
  for (int64_t block = 0; block < n_blocks_; ++block) {
    const double sum = block_sums_[static_cast<size_t>(block)];
    if (passed + sum <= target) {
      passed += sum;
      continue;
    }
    float weights[kBlock];
    const int64_t begin = block * kBlock, n = std::min<int64_t>(kBlock, n_vocab_ - begin);
    kernels_.weigh(logits + begin, n, scale, weights);
    for (int64_t i = 0; i < n; ++i) {
      const auto id = static_cast<TokenId>(begin + i);
      if (weights[i] < min_weight || !cut.keeps(logits[id], id)) continue;
      passed += weights[i];
      if (passed > target) return id;
    }
  }
  return best(logits);  // Reached only if sums are inexact, that is, with more than 2^19 tokens of nearly equal weight.
}

// Sets the logprobs of `out`, whose token is already set. `log_total`: logarithm of the row's total weight.
void Sampler::fill_logprobs(const float* logits, float log_total, int n_top, SampleResult& out) {
  // A logit may be -0. Adding 0 makes a logprob of -0 a plain 0, so that it has the same bits on every device.
  const auto logprob = [&](float logit) { return (logit - max_) - log_total + 0.0f; };
  out.logprob = logprob(logits[out.token]);
  if (n_top == 0) return;
  collect_top(logits, std::min<int64_t>(n_top, n_vocab_), kMin);
  out.n_top = static_cast<int>(std::min(static_cast<size_t>(n_top), candidates_.size()));
  std::partial_sort(candidates_.begin(), candidates_.begin() + out.n_top, candidates_.end(), before);
  for (int i = 0; i < out.n_top; ++i) {
    const Candidate& candidate = candidates_[static_cast<size_t>(i)];
    out.top[i] = {candidate.id, logprob(candidate.logit)};
  }
}

}  // namespace monolith
