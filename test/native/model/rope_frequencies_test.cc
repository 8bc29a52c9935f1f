// Compares YaRN with values calculated by hand from the paper and from the authors' rounding at the ends of the ramp.
#include "model/rope_frequencies.h"

#include <cmath>

#include "check.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

}  // namespace

TEST(plain_frequencies_fall_geometrically) {
  const auto frequencies = plain_rope_frequencies(64, 10000);
  REQUIRE(frequencies.size() == 32);
  CHECK_EQ(frequencies[0], 1.0);
  CHECK(near(frequencies[16], 0.01));
}

TEST(yarn_keeps_fast_pairs_interpolates_slow_ones_and_blends_between) {
  // Tests 128 dimensions, base 1e6, and 32768 positions extended by a factor of 4 (as in Qwen 2.5). The index of the
  // pair that rotates 32 times is 128 ln(32768 / (32 2 pi)) / (2 ln 1e6) = 23.6, and the index of the pair that rotates
  // once is 39.7, so the ramp extends from 23 to 40.
  const auto plain = plain_rope_frequencies(128, 1e6);
  auto scaled = plain;
  const float magnitude = apply_yarn({.factor = 4, .original_context = 32768}, 1e6, scaled);
  for (size_t i = 0; i <= 23; ++i) CHECK(near(scaled[i], plain[i]));
  for (size_t i = 40; i < 64; ++i) CHECK(near(scaled[i], plain[i] / 4));
  // This pair is 7 of 17 steps along the ramp: the result is 7/17 of the interpolated value plus 10/17 of the unchanged
  // one.
  CHECK(near(scaled[30], plain[30] * (7.0 / 17 / 4 + 10.0 / 17)));
  CHECK(std::abs(magnitude - 1.1386294f) < 1e-6f);  // The magnitude is 0.1 ln 4 + 1.
}

TEST(yarn_without_extrapolation_is_plain_interpolation) {
  const auto plain = plain_rope_frequencies(64, 10000);
  auto scaled = plain;
  const float magnitude = apply_yarn({.factor = 2, .original_context = 4096, .extrapolation = 0}, 10000, scaled);
  for (size_t i = 0; i < scaled.size(); ++i) CHECK(near(scaled[i], plain[i] / 2));
  CHECK_EQ(magnitude, 1.0f);
}

TEST(yarn_keys_are_read) {
  testing::TinyModel model("qwen2");
  model.key("rope.freq_base", 1e6f);
  model.key("rope.scaling.type", std::string("yarn"));
  model.key("rope.scaling.factor", 4.0f);
  model.key("rope.scaling.original_context_length", 32768u);
  model.key("rope.scaling.attn_factor", 0.5f);
  model.key("rope.scaling.yarn_attn_factor", 3.0f);  // This key does not change the magnitude.
  const testing::ParsedModel parsed(model);
  REQUIRE(parsed.file != nullptr);
  const auto rope = read_rope_frequencies(*parsed.file, "qwen2", 128, 256, 256, false);
  REQUIRE(rope.ok());
  auto expected = plain_rope_frequencies(128, 1e6);
  const float magnitude = apply_yarn({.factor = 4, .original_context = 32768}, 1e6, expected);
  for (size_t i = 0; i < expected.size(); ++i) CHECK_EQ(rope->inverse_frequency[i], static_cast<float>(expected[i]));
  CHECK_EQ(rope->magnitude, magnitude * 0.5f);
}

TEST(longrope_has_factors_for_short_and_for_long_contexts) {
  testing::TinyModel model("phi3");
  model.key("rope.scaling.original_context_length", 64u);
  model.key("rope.scaling.attn_factor", 1.19f);
  model.tensors["rope_factors_short.weight"] = {{8}, TensorType::kF32, 0.0f, 2.0f};
  model.tensors["rope_factors_long.weight"] = {{8}, TensorType::kF32, 0.0f, 8.0f};
  {
    const testing::ParsedModel parsed(model);
    REQUIRE(parsed.file != nullptr);
    for (const auto& [context, expected] : {std::pair{64, 0.5f}, std::pair{65, 0.125f}}) {
      const auto rope = read_rope_frequencies(*parsed.file, "phi3", 16, 256, context, true);
      REQUIRE(rope.ok());
      CHECK_EQ(rope->inverse_frequency[0], expected);
      CHECK_EQ(rope->magnitude, 1.19f);
    }
  }
  model.tensors.erase("rope_factors_long.weight");
  const testing::ParsedModel parsed(model);
  const auto rope = read_rope_frequencies(*parsed.file, "phi3", 16, 256, 256, true);
  REQUIRE(!rope.ok());
  CHECK(rope.error().message.find("'rope_factors_long.weight' is missing") != std::string::npos);
}

TEST(mrope_sections_are_consecutive_or_interleaved) {
  using Axes = std::vector<uint8_t>;
  const int sections[] = {2, 3, 3}, uneven[] = {4, 2, 2}, none[] = {0, 0, 0};
  CHECK(rope_axes(8, sections, false) == (Axes{0, 0, 1, 1, 1, 2, 2, 2}));
  CHECK(rope_axes(11, sections, false) == (Axes{0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 1}));
  CHECK(rope_axes(8, sections, true) == (Axes{0, 1, 2, 0, 1, 2, 0, 1}));
  CHECK(rope_axes(8, uneven, true) == (Axes{0, 1, 2, 0, 1, 2, 0, 0}));
  CHECK(rope_axes(8, none, true).empty());
}

}  // namespace monolith
