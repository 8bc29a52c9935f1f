// Tests the placement of images in a prompt: their markers, the positions of their embedding rows, and the tokens that
// the vocabulary must contain.
#include "engine/images/prompt_images.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/kv_cache.h"
#include "check.h"
#include "text/tokenizer/support.h"
#include "vision/tiny_vision.h"

namespace monolith {
namespace {

using namespace testing;

// A small vision encoder and a byte-level vocabulary with these markers.
struct Pair {
  std::shared_ptr<const VisionModel> model;
  std::unique_ptr<const Tokenizer> tokenizer;
  MarkerTokens markers;
  std::vector<uint8_t> pixels;

  Pair(const std::string& projector, std::initializer_list<const char*> names, bool mrope = false,
       int n_deepstack = 0) {
    const ParsedModel parsed{TinyVision(projector)};
    VocabularyFile words = VocabularyFile::byte_level({"\u010A \u010A"});  // Two line breaks.
    for (const char* name : names) words.add(name, TokenKind::kControl);
    auto seen = VisionModel::load(*parsed.file, {});
    auto read = load(words);
    REQUIRE(seen.ok() && read.ok());
    model = std::move(*seen);
    tokenizer = std::move(*read);
    auto fit = model->fit({.architecture = "any",
                           .n_embd = TinyVision::kRow,
                           .mrope = mrope,
                           .n_deepstack = n_deepstack,
                           .tokenizer = tokenizer.get()});
    REQUIRE(fit.ok());
    markers = std::move(*fit);
  }

  Result<PreparedImage> prepared(int width, int height) {
    pixels = striped_picture(width, height);
    return prepare_image(model, markers, {width, height, pixels}, {});
  }
  // Fails the test and returns null if the image is rejected.
  std::shared_ptr<const PreparedImage> image(int width, int height) {
    auto made = prepared(width, height);
    if (!made) return check::fail(__FILE__, __LINE__, made.error().message), nullptr;
    return std::make_shared<const PreparedImage>(std::move(*made));
  }
  TokenId id(const std::string& name) const { return tokenizer->find(name); }
};

Pair qwen() { return {"qwen3vl_merger", {"<|vision_start|>", "<|vision_end|>"}, true, 1}; }
Pair gemma() { return {"gemma3", {"<start_of_image>", "<end_of_image>"}}; }

// Returns the prompt as text: a number for each token and '*' for each row in a span.
std::string shown(const GenerationRequest& request) {
  std::string text;
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const InputSpan* span = span_from(request.spans, static_cast<int>(i));
    const bool is_row = span && span->first <= static_cast<int>(i);
    if (is_row && span->first < static_cast<int>(i)) continue;
    text += (i > 0 ? " " : "") + (is_row ? "*" + std::to_string(span->n_rows) : std::to_string(request.prompt[i]));
  }
  return text;
}

}  // namespace

TEST(images_are_placed_between_their_markers) {
  Pair pair = qwen();
  const auto one = pair.image(64, 48), other = pair.image(32, 32);
  REQUIRE(one && other);
  const std::string begin = std::to_string(pair.id("<|vision_start|>")),
                    end = std::to_string(pair.id("<|vision_end|>"));
  const auto seen = [&](const std::shared_ptr<const PreparedImage>& image) {
    return begin + " *" + std::to_string(image->plan.n_rows()) + " " + end;
  };
  const std::vector<TokenId> text = {11, 12, 13};
  const auto prompt = [&](const std::vector<PlacedImage>& images) {
    GenerationRequest request;
    place_images(text, images, request);
    size_t tokens = text.size();
    for (const PlacedImage& placed : images) tokens += static_cast<size_t>(placed.image->plan.n_tokens());
    CHECK_EQ(request.prompt.size(), tokens);  // The token count planned before the image was decoded.
    return shown(request);
  };
  CHECK_EQ(prompt({}), "11 12 13");
  CHECK_EQ(prompt({{1, one}}), "11 " + seen(one) + " 12 13");
  CHECK_EQ(prompt({{0, one}, {3, other}}), seen(one) + " 11 12 13 " + seen(other));
  CHECK_EQ(prompt({{2, one}, {2, other}}), "11 12 " + seen(one) + " " + seen(other) + " 13");
}

TEST(image_rows_are_keyed_by_content_and_have_image_positions) {
  Pair pair = qwen();
  const auto image = pair.image(64, 48), same = pair.image(64, 48), other = pair.image(48, 64);
  REQUIRE(image && same && other);
  const auto span_of = [](const std::shared_ptr<const PreparedImage>& image) {
    GenerationRequest request;
    place_images({}, std::vector<PlacedImage>{{0, image}}, request);
    return request.spans.front();
  };
  const InputSpan span = span_of(image);
  CHECK(span.piece == image->pieces[0] && span.rows == nullptr);  // The vision encoder computes its rows later.
  CHECK(span.hash == span_of(same).hash && !(span.hash == span_of(other).hash));
  CHECK(!span.bidirectional);
  const ImagePiece& piece = image->plan.pieces[0];
  REQUIRE(piece.grid_rows > 1 && piece.grid_columns > piece.grid_rows && span.rope_offsets != nullptr);
  CHECK_EQ(span.rope_offsets->size(), static_cast<size_t>(piece.grid_rows * piece.grid_columns));
  for (size_t row = 0; row < span.rope_offsets->size(); ++row) {
    const auto columns = static_cast<size_t>(piece.grid_columns);
    const RopePosition& at = (*span.rope_offsets)[row];
    CHECK(static_cast<size_t>(at.height) == row / columns && static_cast<size_t>(at.width) == row % columns &&
          at.time == 0);
  }
  CHECK_EQ(span.n_rope_positions, piece.grid_columns);  // The image's position plus its longer side.

  Pair plain = gemma();
  const auto square = plain.image(40, 40);
  REQUIRE(square);
  CHECK(span_of(square).bidirectional && span_of(square).rope_offsets == nullptr);
  CHECK_EQ(span_of(square).n_rope_positions, 0);
}

TEST(image_tiles_are_separate_spans_in_order) {
  Pair pair("idefics3", {"<fake_token_around_image>", "<global-img>", "<row_1_col_1>", "<row_1_col_2>", "<row_1_col_3>",
                         "<row_2_col_1>", "<row_2_col_2>", "<row_2_col_3>"});
  const auto image = pair.image(72, 48);
  REQUIRE(image);
  const ImagePlan& plan = image->plan;
  REQUIRE(plan.rows == 2 && plan.columns == 3 && plan.pieces.size() == 7);
  GenerationRequest request;
  place_images(std::vector<TokenId>{11}, std::vector<PlacedImage>{{1, image}}, request);
  REQUIRE(request.spans.size() == plan.pieces.size());
  std::string expected = "11";
  size_t bytes = 0;
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    for (const std::string& name : plan.pieces[i].before)
      expected += " " + std::to_string(name == "\n" ? 10 : name == "\n\n" ? 256 : pair.id(name));
    expected += " *" + std::to_string(plan.pieces[i].n_rows);
    CHECK(request.spans[i].piece == image->pieces[i] && request.spans[i].hash == image->pieces[i]->hash);
    bytes += image->pieces[i]->pixels.size();
  }
  CHECK_EQ(shown(request), expected + " " + std::to_string(pair.id("<fake_token_around_image>")));
  CHECK(bytes > 0);
  CHECK_EQ(image->bytes(), bytes);
}

// A vocabulary need not contain tokens for tiles that are almost never used.
TEST(an_image_that_needs_a_missing_token_is_refused) {
  Pair pair("idefics3", {"<fake_token_around_image>", "<global-img>", "<row_1_col_1>"});
  const auto refused = pair.prepared(50, 48);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK_EQ(refused.error().message, "an image of 50 x 48 needs a token <row_1_col_2>, which the model does not have");
  const auto size = pair.prepared(0, 48);
  CHECK(!size.ok());
  Pair whole = qwen();
  whole.pixels = striped_picture(32, 32);
  const std::vector<uint8_t> part(whole.pixels.begin(), whole.pixels.end() - 1);
  CHECK(!prepare_image(whole.model, whole.markers, {32, 32, part}, {}).ok());
}

}  // namespace monolith
