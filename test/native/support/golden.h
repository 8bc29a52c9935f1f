// Golden vectors: prompts with the logits from exact arithmetic, and the rules for comparing an engine's logits with
// them. For tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/json.h"

namespace monolith::testing {

// Decodes base64 to little-endian floats. Returns an empty vector if the text is malformed.
std::vector<float> floats_from_base64(std::string_view text);

struct Tolerance {
  double max = 0, rms = 0, kl = 0, outliers = 0;
};

struct GoldenLogits {
  int position = 0;
  std::vector<float> exact;
};

struct GoldenPrompt {
  std::string id;
  std::vector<int32_t> tokens;
  std::vector<GoldenLogits> positions;  // Expected logits at some positions, in ascending order.
  std::vector<int32_t> greedy;          // The 24 tokens of greedy decoding.
  std::vector<double> exact_margins;    // For each greedy token, the margin between the two largest exact logits.
  GoldenLogits last;                    // Logits after the prompt and all greedy tokens except the last.
  // For recurrent models: the logits at the last position of a prompt that was processed in chunks of 7 tokens, and the
  // logits at the position of `last` after the prompt was processed in this way.
  std::optional<GoldenLogits> after_pieces, last_after_pieces;
  // Hidden states at the last position: one vector per layer, then the output of the final norm.
  std::vector<std::vector<float>> hidden_exact;
};

struct Golden {
  std::string name;
  int n_vocab = 0;
  std::vector<std::pair<std::string, Tolerance>> tolerances;
  std::vector<GoldenPrompt> prompts;

  const Tolerance* tolerance(std::string_view kind) const;

  // Returns nullopt if the file is unreadable, damaged or incomplete.
  static std::optional<Golden> read(const std::string& path);
};

double standard_deviation(std::span<const float> values);

double log_sum_exp(std::span<const float> values);

int argmax(std::span<const float> values);

// Distance between the logits at one position and the reference logits. `max` and `rms` are in standard deviations of
// the reference.
struct Distance {
  double max = 0, rms = 0, kl = 0;
  bool same_top = false;  // Also true if the reference's two best logits are too close to tell apart.

  // Returns false if any distance is NaN.
  bool within(const Tolerance& t) const { return max <= t.max && rms <= t.rms && kl <= t.kl; }
};

Distance distance(std::span<const float> engine, std::span<const float> reference, const Tolerance& tolerance);

// The result of the comparison over all positions of a model.
struct Verdict {
  Distance worst;
  int positions = 0, failed = 0, same_top = 0;

  void add(const Distance& d, const Tolerance& tolerance);
  bool passes(const Tolerance& t) const;
};

}  // namespace monolith::testing
