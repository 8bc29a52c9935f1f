// Speculative decoding: decides how many draft tokens a step computes after a sequence's next token. A draft token is
// accepted if the sampler chooses the same token. These decisions do not affect the output, only the number of steps.
// Engine thread only.
//
// Cost model: a step with d decodes takes base(d), plus `row` per draft token. Without draft tokens, d tokens take
// base(d). A draft token therefore pays off if its acceptance probability exceeds d * row / base(d): almost never with
// many decodes, almost always with one decode on a memory-bound machine. Both times are running averages of measured
// steps. The acceptance probability is a running average over the sequence's earlier draft tokens with an equally long
// match. A step that was delayed by other load must neither disable speculation permanently nor make it look free (see
// note()).
//
// There are three sources of draft tokens, in this order:
// 1. the text that the client predicted, while the output follows it (predicted_text.h);
// 2. prompt lookup: the tokens after an earlier occurrence of the latest tokens in the sequence;
// 3. the draft model, MTP layers or EAGLE-3 head, whose own cost is added (draft_model.h, mtp_drafter.h,
//    draft_budget.h).
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "engine/speculation/prompt_lookup.h"

namespace monolith {

// Measured step times, which determine the minimum acceptance probability. One per engine.
class AcceptanceModel {
 public:
  static constexpr int kMaxDecodes = 16;  // Steps with more decodes than this have no draft tokens.

  // Records that a step with only `decodes` decodes and `drafts` draft tokens took `ms` milliseconds.
  void note(int decodes, int drafts, double ms);
  // Returns the minimum acceptance probability at which a draft token pays off in a step with up to kMaxDecodes
  // decodes. Above 1, no draft token pays off, but one is still tried from time to time to update the estimate.
  double price(int decodes) const;
  // Whether the next step should have no draft tokens, in order to refresh the measurement of base(decodes).
  bool wants_plain(int decodes) const { return since_plain_ >= kPlainEvery || base_ms_[index(decodes)] == 0; }
  // Average time, in ms, of a step without draft tokens; 0 = not measured yet.
  double base_ms(int decodes) const { return base_ms_[index(decodes)]; }
  double row_ms() const { return row_ms_; }

 private:
  static constexpr int kPlainEvery = 64;
  // Minimum acceptance probability per decode until step times have been measured.
  static constexpr double kUnmeasured = 0.3;
  static constexpr double kMinPrice = 0.02;

  static size_t index(int decodes) { return static_cast<size_t>(std::clamp(decodes, 1, kMaxDecodes)); }
  static void average(double& mean, double sample, double share) {
    mean = mean == 0 ? sample : mean + share * (sample - mean);
  }

  std::array<double, kMaxDecodes + 1> base_ms_{};
  double row_ms_ = 0;
  int since_plain_ = 0;
};

// A sequence's draft tokens.
class SequenceDrafts {
 public:
  static constexpr int kMax = 15;  // Maximum number of draft tokens per step.

  // `draft_chance`: initial acceptance probability of the drafter for this sequence.
  explicit SequenceDrafts(int max_tokens, double draft_chance = 0.6) : lookup_(max_tokens) {
    chance_[kDraft] = draft_chance;
  }

  // Drafts up to `most` (<= kMax) tokens after `tokens` by prompt lookup: as many as are worth `price`. Valid until the
  // next call.
  std::span<TokenId> draft(std::span<const TokenId> tokens, double price, int most);
  // Proposes the beginning of `next`, the continuation of a predicted text: as many tokens as are worth `price`, but at
  // most `most`. Valid until the next call.
  std::span<TokenId> propose(std::span<const TokenId> next, double price, int most);
  // Returns the buffer for a drafter, with room for as many draft tokens as are worth `price`, but at most `most`.
  // Valid until the next call.
  std::span<TokenId> place_for_draft(double price, int most);
  std::span<const TokenId> last(int n) const { return {tokens_.data(), static_cast<size_t>(n)}; }
  // Whether the last draft tokens came from the drafter rather than from prompt lookup.
  bool drafted() const { return length_ == kDraft; }
  // Records that the first `n_accepted` of the last draft tokens were accepted. `next_rejected`: whether the draft
  // token after them was rejected; false if there was none.
  void record_acceptance(int n_accepted, bool next_rejected);

 private:
  // Indexes in chance_ for the drafter and the predicted text, after the match-length classes of prompt lookup.
  static constexpr size_t kDraft = 4, kPrediction = 5;
  static constexpr int kMinPause = 8, kMaxPause = 512;

  static size_t by_length(int match) { return match < 4 ? 0 : match < 6 ? 1 : match < 10 ? 2 : 3; }

  struct Pause {
    int length = kMinPause;  // While no draft token pays off: number of opportunities to skip before one is tried.
    int passed = 0;
  };

  int worth(double price, int most);
  Pause& pause() { return drafted() ? of_drafts_ : length_ == kPrediction ? of_prediction_ : of_matches_; }

  PromptLookup lookup_;
  std::array<TokenId, kMax> tokens_{};
  // Acceptance probabilities: one per match-length class of prompt lookup, then one for the drafter and one for the
  // predicted text.
  std::array<double, kPrediction + 1> chance_{0.4, 0.5, 0.6, 0.7, 0, 0.8};
  size_t length_ = 0;  // Class of the last draft tokens: an index into chance_.
  Pause of_matches_, of_drafts_, of_prediction_;
};

}  // namespace monolith
