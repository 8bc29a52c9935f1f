// How many tokens a sequence guesses ahead: those a step computes beside its next one, each kept as long as the
// sampler would have chosen just that. No result depends on it, only how many steps it takes. Engine thread only.
//
// A step of `d` decodes takes base(d), and `row` more for each guess. Without guesses d tokens come in base(d), so
// a guess pays if it is right with a probability above d * row / base(d): with many decodes hardly ever, with one on
// a machine that waits for its memory nearly always. Both times are running averages of measured steps. So is the
// probability: it averages how the sequence's earlier guesses fared whose match was as long.
// A step that something else has held up must not end guessing for good, nor make it look free: see note().
//
// Guesses come from two sources: from where the text has been before, and else, if the engine has one, from a smaller
// model (draft_model.h), whose own steps are added to the price (draft_pace.h).
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "engine/guess/prompt_lookup.h"

namespace monolith {

// What steps take. One per engine.
class GuessPace {
 public:
  static constexpr int kMostDecodes = 16;  // with more, nothing is guessed

  // A step of `decodes` and nothing else but `guesses` took `ms`.
  void note(int decodes, int guesses, double ms);
  // How probable a guess must be in a step of up to kMostDecodes; above 1: none pays, but one now and then tells
  // whether that is still so.
  double price(int decodes) const;
  // Whether the next step should go without, so that base(decodes) stays true.
  bool wants_plain(int decodes) const { return since_plain_ >= kPlainEvery || base_ms_[index(decodes)] == 0; }
  double base_ms(int decodes) const { return base_ms_[index(decodes)]; }  // 0: not measured
  double row_ms() const { return row_ms_; }

 private:
  static constexpr int kPlainEvery = 64;
  static constexpr double kUnmeasured = 0.3;  // price for one decode
  static constexpr double kLeastPrice = 0.02;

  static size_t index(int decodes) { return static_cast<size_t>(std::clamp(decodes, 1, kMostDecodes)); }
  static void average(double& mean, double sample, double share) {
    mean = mean == 0 ? sample : mean + share * (sample - mean);
  }

  std::array<double, kMostDecodes + 1> base_ms_{};
  double row_ms_ = 0;
  int since_plain_ = 0;
};

// The guesses of one sequence.
class Guesses {
 public:
  static constexpr int kMost = 15;  // of one step

  // `draft_chance`: of a draft's first guesses here.
  explicit Guesses(int max_tokens, double draft_chance = 0.6) : lookup_(max_tokens) { chance_[kDraft] = draft_chance; }

  // What may follow `tokens`, at most `most` (<= kMost), if it is worth `price`. Valid until the next call.
  std::span<TokenId> guess(std::span<const TokenId> tokens, double price, int most);
  // Where a draft is to write what may follow: as much as is worth `price`, at most `most`. As valid.
  std::span<TokenId> place_for_draft(double price, int most);
  std::span<const TokenId> last(int n) const { return {tokens_.data(), static_cast<size_t>(n)}; }
  bool drafted() const { return length_ == kDraft; }  // those of the last call
  // Of the last guesses `n_right` were right, and then one was wrong or none was left to tell.
  void settle(int n_right, bool then_wrong);

 private:
  static constexpr size_t kDraft = 4;  // among the lengths of matches
  static constexpr int kLeastPause = 8, kMostPause = 512;

  static size_t by_length(int match) { return match < 4 ? 0 : match < 6 ? 1 : match < 10 ? 2 : 3; }

  struct Pause {
    int length = kLeastPause;  // chances that are let pass where none pays, before one is tried
    int passed = 0;
  };

  int worth(double price, int most);
  Pause& pause() { return drafted() ? of_drafts_ : of_matches_; }

  PromptLookup lookup_;
  std::array<TokenId, kMost> tokens_{};
  std::array<double, kDraft + 1> chance_{0.4, 0.5, 0.6, 0.7, 0};  // of a guess, by the length of the match
  size_t length_ = 0;                                             // of the last match
  Pause of_matches_, of_drafts_;
};

}  // namespace monolith
