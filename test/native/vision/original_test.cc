// Tests image preprocessing that matches the reference implementation of the model's authors (VisionResize::kOriginal):
// known bytes from Pillow's resampling, image sizes from the reference code, all kinds of tiles, and a leading class
// embedding.
#include <cstring>
#include <map>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "vision/original_size.h"
#include "vision/resample.h"
#include "vision/tiny_vision.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

std::vector<uint8_t> gray(std::initializer_list<int> levels) {
  std::vector<uint8_t> pixels;
  for (const int level : levels) pixels.insert(pixels.end(), 3, static_cast<uint8_t>(level));
  return pixels;
}

std::shared_ptr<const VisionModel> loaded(const ParsedModel& parsed, VisionResize resize = VisionResize::kOriginal) {
  auto model = VisionModel::load(*parsed.file, {.resize = resize});
  if (!model) return check::fail(__FILE__, __LINE__, model.error().message), nullptr;
  return *model;
}

struct Pieces {
  ImagePlan plan;
  std::vector<PreparedPiece> prepared;
};
Pieces pieces_of(const VisionModel& model, int width, int height) {
  const auto pixels = striped_picture(width, height);
  auto plan = model.plan(width, height);
  if (!plan) return check::fail(__FILE__, __LINE__, plan.error().message), Pieces{};
  auto prepared = model.prepare(*plan, {width, height, pixels});
  if (!prepared) return check::fail(__FILE__, __LINE__, prepared.error().message), Pieces{};
  return {std::move(*plan), std::move(*prepared)};
}

std::vector<float> rows_of(const ParsedModel& parsed, std::shared_ptr<const VisionModel> model,
                           const PreparedPiece& piece) {
  auto backend = make_cpu_backend({.threads = 1});
  auto encoder = VisionEncoder::load(*parsed.file, std::move(model), **backend);
  if (!encoder) return check::fail(__FILE__, __LINE__, encoder.error().message), std::vector<float>();
  const auto run = (*encoder)->begin(piece);
  while (!run->advance(INT64_MAX)) {
  }
  return run->take_rows();
}

// Returns a model like LLaVA 1.5, which uses a single square image and no grids.
TinyVision one_square() {
  TinyVision model("mlp");
  model.keys.erase("clip.vision.image_grid_pinpoints");
  return model;
}

// Returns a model like LLaVA 1.6, with a newline embedding after each row.
TinyVision with_newline() {
  TinyVision model("mlp");
  model.bias("model.image_newline", TinyVision::kRow);
  return model;
}

}  // namespace

TEST(resampling_matches_pillow_byte_for_byte) {
  const auto two = gray({0, 255}), four = gray({0, 100, 200, 250});
  CHECK(resample(ResampleFilter::kBilinear, two.data(), {2, 1}, {4, 1}) == gray({0, 64, 191, 255}));
  // (3 * 0 + 3 * 100 + 200) / 7 and (100 + 3 * 200 + 3 * 250) / 7.
  CHECK(resample(ResampleFilter::kBilinear, four.data(), {4, 1}, {2, 1}) == gray({71, 207}));
  CHECK(resample(ResampleFilter::kBilinear, four.data(), {1, 4}, {1, 2}) == gray({71, 207}));
  // At a quarter of a pixel from the center, the cubic kernel with a = -1/2 weights the two neighbors by 0.8671875 and
  // 0.2265625.
  CHECK(resample(ResampleFilter::kBicubic, two.data(), {2, 1}, {4, 1}) == gray({0, 53, 202, 255}));
  for (const ResampleFilter filter : {ResampleFilter::kBilinear, ResampleFilter::kBicubic, ResampleFilter::kLanczos}) {
    const auto even = gray({77, 77, 77, 77, 77, 77});
    for (const uint8_t byte : resample(filter, even.data(), {3, 2}, {7, 5})) CHECK_EQ(int{byte}, 77);
    CHECK(resample(filter, four.data(), {2, 2}, {2, 2}) == four);
    CHECK_EQ(resample(filter, striped_picture(90, 7).data(), {90, 7}, {1, 1}).size(), size_t{3});
  }
  CHECK(middle_of(four.data(), {4, 1}, {2, 1}) == gray({100, 200}));
}

TEST(image_sizes_match_the_original_programs) {
  // The width of 70 pixels is 2.5 units, which is rounded to the nearest even number of units.
  CHECK((qwen_size({70, 130}, 28, 4 * 784, 4096 * 784) == PictureSize{56, 140}));
  const PictureSize less = qwen_size({5000, 3000}, 28, 4 * 784, 1024 * 784);
  CHECK(less.pixels() <= 1024 * 784 && less.width % 28 == 0 && less.height % 28 == 0);
  CHECK((pixtral_size({1600, 1200}, 1024, 16) == PictureSize{1024, 768}));
  CHECK((pixtral_size({100, 30}, 1024, 16) == PictureSize{112, 32}));  // Images are never enlarged.
  CHECK((idefics_size({1600, 1200}, 1456) == PictureSize{1456, 1092}));
  CHECK((idefics_size({100, 301}, 100) == PictureSize{34, 100}));  // A width of 33 is made even.
  CHECK((idefics_tiled({1456, 1000}, 364) == PictureSize{1456, 1092}));
  // The image results in 19 x 14 = 266 embeddings; the maximum is 280.
  CHECK((gemma4_size({1600, 1200}, 48, 280 * 48 * 48) == PictureSize{912, 672}));
  CHECK((gemma4_size({100, 80}, 48, 280 * 48 * 48) == PictureSize{864, 672}));  // Small images are enlarged.
  CHECK((gemma4_size({100'000, 10}, 48, 280 * 48 * 48) == PictureSize{280 * 48, 48}));
  CHECK((gemma4_size({2, 900}, 48, 280 * 48 * 48) == PictureSize{48, 280 * 48}));
  // 114 x 85 patches exceed the limit of 4096, so the image is scaled by 0.6501...
  CHECK((kimi_size({1600, 1200}, 14, 4096 * 196) == PictureSize{1040, 780}));
  CHECK((kimi_padded({1040, 780}, 28) == PictureSize{1064, 784}));
  CHECK((kimi_size({100, 30}, 14, 4096 * 196) == PictureSize{100, 30}));  // Images are never enlarged.
  CHECK((kimi_size({20'000, 10}, 14, 4096 * 196) == PictureSize{512 * 14, 3}));
  CHECK((clip_size({640, 480}, 336) == PictureSize{448, 336}));
  CHECK((nearest_grid({900, 440}, 12, 448, 1) == PictureSize{2, 1}));
  CHECK((nearest_grid({300, 310}, 12, 448, 1) == PictureSize{1, 1}));
}

TEST(image_tiles_match_the_original_programs) {
  struct Case {
    const char* type;
    ResampleFilter filter;
  };
  // Tests models that stretch the image to the size of a single part.
  for (const auto& [type, filter] :
       {Case{"gemma3", ResampleFilter::kBilinear}, Case{"qwen2vl_merger", ResampleFilter::kBicubic},
        Case{"qwen2.5vl_merger", ResampleFilter::kBicubic}, Case{"qwen3vl_merger", ResampleFilter::kBicubic},
        Case{"pixtral", ResampleFilter::kBicubic}, Case{"gemma4v", ResampleFilter::kBicubic}}) {
    const ParsedModel parsed{TinyVision(type)};
    const auto model = loaded(parsed), usual = loaded(parsed, VisionResize::kLlamaCpp);
    if (model == nullptr || usual == nullptr) return;
    const Pieces pieces = pieces_of(*model, 150, 97);
    REQUIRE(pieces.prepared.size() == 1);
    const PreparedPiece& piece = pieces.prepared[0];
    CHECK(piece.pixels == resample(filter, striped_picture(150, 97).data(), {150, 97}, {piece.width, piece.height}));
    CHECK(pieces_of(*usual, 150, 97).prepared[0].hash != piece.hash);
    CHECK(!rows_of(parsed, model, piece).empty());
  }
  // Tests models that scale the image and then pad it with black on the right and at the bottom.
  const ParsedModel kimi{TinyVision("kimik25")};
  const Pieces padded = pieces_of(*loaded(kimi), 30, 21);
  REQUIRE(padded.prepared.size() == 1 && padded.prepared[0].width == 32 && padded.prepared[0].height == 24);
  const auto as_it_is = striped_picture(30, 21);
  // Compare the second row of pixels.
  CHECK(std::equal(as_it_is.begin() + 90, as_it_is.begin() + 180, padded.prepared[0].pixels.begin() + 96));
  CHECK(padded.prepared[0].pixels[95] == 0 && padded.prepared[0].pixels.back() == 0);
  CHECK(!rows_of(kimi, loaded(kimi), padded.prepared[0]).empty());
  // Tests models with tiles and an overview. The overview is made either from the scaled image from which the tiles are
  // cut (Idefics 3) or from the original image.
  const ParsedModel idefics{TinyVision("idefics3")};
  const Pieces tiled = pieces_of(*loaded(idefics), 150, 97);
  REQUIRE(tiled.plan.columns == 3 && tiled.plan.rows == 2 && tiled.prepared.size() == 7);
  const PictureSize scaled = idefics_size({150, 97}, 72);
  const auto all = resample(
      ResampleFilter::kLanczos,
      resample(ResampleFilter::kLanczos, striped_picture(150, 97).data(), {150, 97}, scaled).data(), scaled, {72, 48});
  CHECK(tiled.prepared[6].pixels == resample(ResampleFilter::kLanczos, all.data(), {72, 48}, {24, 24}));
  CHECK(std::equal(all.begin(), all.begin() + 3 * 24, tiled.prepared[0].pixels.begin()));
  const ParsedModel intern{TinyVision("internvl")};
  // A small image whose shape is closest to a square is not split.
  CHECK_EQ(pieces_of(*loaded(intern), 22, 25).prepared.size(), size_t{1});
  // If two grids are equally good, the larger one is used only if the image fills at least half of that grid.
  CHECK_EQ(pieces_of(*loaded(intern), 100, 100).prepared.size(), size_t{10});
  const Pieces wide = pieces_of(*loaded(intern), 30, 15);
  CHECK(wide.plan.columns == 2 && wide.plan.rows == 1 && wide.prepared.size() == 3);
  // Tests models that scale the shorter side of the image to the side of a square and then crop the center.
  const ParsedModel llava{one_square()};
  const auto model = loaded(llava);
  const auto covering = resample(ResampleFilter::kBicubic, striped_picture(150, 97).data(), {150, 97}, {37, 24});
  CHECK(pieces_of(*model, 150, 97).prepared[0].pixels == middle_of(covering.data(), {37, 24}, {24, 24}));
  const auto bound = VisionModel::load(*llava.file, {.max_source_pixels = 1 << 20, .resize = VisionResize::kOriginal});
  // This image would be scaled to 24 x 1,440,000 pixels.
  CHECK(bound.ok() && (*bound)->plan(1000, 1000).ok() && !(*bound)->plan(1, 60'000).ok());
}

TEST(llava_16_selects_grids_and_crops_padding_like_the_original) {
  // Grids are specified as pairs of width and height.
  const std::vector<std::pair<int, int>> grids = {{672, 336}, {336, 672}, {672, 672}, {336, 1008}, {1008, 336}};
  CHECK((llava_candidate({640, 480}, grids) == PictureSize{672, 672}));
  // Of the grids that keep the full resolution, this one wastes the fewest pixels.
  CHECK((llava_candidate({300, 150}, grids) == PictureSize{672, 336}));
  // If several grids are equally good, the first one is chosen.
  CHECK((llava_candidate({100, 100}, grids) == PictureSize{672, 336}));
  CHECK((llava_candidate({4000, 1000}, grids) == PictureSize{1008, 336}));
  CHECK((llava_candidate({1, 20'000}, grids) == PictureSize{672, 336}));  // No grid keeps any pixels.
  CHECK((llava_scaled({640, 480}, {672, 672}) == PictureSize{672, 504}));
  CHECK((llava_scaled({1000, 333}, {1008, 336}) == PictureSize{1008, 336}));  // The height of 335.66 is rounded up.
  CHECK((llava_scaled({20'000, 1}, {672, 336}) == PictureSize{672, 1}));
  // The grid has 48 x 48 patches of 14 pixels. A 640 x 480 image fills 36 rows, and a 641 x 480 image fills 35.9. In
  // the second case, the image fills 35 whole rows. Of the other 13 rows, six are cut off on each side.
  CHECK((llava_kept({640, 480}, {48, 48}) == PictureSize{48, 36}));
  CHECK((llava_kept({641, 480}, {48, 48}) == PictureSize{48, 36}));
  CHECK((llava_kept({480, 641}, {48, 48}) == PictureSize{36, 48}));
  CHECK((llava_kept({660, 480}, {48, 48}) == PictureSize{48, 34}));  // The image fills 34.9 rows.
  CHECK((llava_kept({100, 100}, {48, 24}) == PictureSize{24, 24}));
  CHECK((llava_kept({600, 300}, {48, 24}) == PictureSize{48, 24}));
  CHECK((llava_kept({49, 7}, {49, 49}) == PictureSize{49, 7}));  // The image fills 7 * (49 / 49) rows.
  // The image fills 21 * (42 / 98) = 9 rows. Of the other 33 rows, 32 are cut off.
  CHECK((llava_kept({98, 7 * 3}, {42, 42}) == PictureSize{42, 10}));
  // The image fills 15 rows, apart from a rounding error in the last bit.
  CHECK((llava_kept({176, 55}, {48, 48}) == PictureSize{48, 16}));
  CHECK((llava_kept({10'000, 1}, {48, 24}) == PictureSize{48, 0}));  // The image fills less than one row.
}

// LLaVA 1.6 processes an image as one part: the whole image, then the tiles. The embeddings of all tiles form one grid
// without padding, in which the newline embedding follows each row.
TEST(llava_16_is_one_part_with_newline_embeddings) {
  constexpr int kSide = 24, kPatches = 6;  // A view has 24 x 24 pixels and 6 x 6 embeddings.
  const ParsedModel parsed{with_newline()}, square{one_square()};
  const auto model = loaded(parsed), single = loaded(square);
  REQUIRE(model != nullptr && single != nullptr);
  const std::vector<float> newline = with_newline().floats("model.image_newline");
  // Of the grids 24 x 48, 48 x 24 and 48 x 48, the last one is best, so the image is scaled to 48 x 36.
  const PictureSize size{40, 30};
  const Pieces pieces = pieces_of(*model, size.width, size.height);
  REQUIRE(pieces.prepared.size() == 1 && pieces.plan.columns == 2 && pieces.plan.rows == 2 &&
          pieces.plan.after.empty());
  const PreparedPiece& piece = pieces.prepared[0];
  REQUIRE(piece.width == kSide && piece.height == 5 * kSide);
  const auto picture = striped_picture(size.width, size.height);
  std::vector<std::vector<uint8_t>> views = {resample(ResampleFilter::kBicubic, picture.data(), size, {kSide, kSide})};
  const auto scaled = resample(ResampleFilter::kBicubic, picture.data(), size, {48, 36});
  for (int tile = 0; tile < 4; ++tile) {
    std::vector<uint8_t> view;
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x)
        for (int color = 0; color < 3; ++color) {
          // There are six black rows above the image and six below it.
          const int line = tile / 2 * kSide + y - 6, column = tile % 2 * kSide + x;
          view.push_back(line < 0 || line >= 36 ? uint8_t{0}
                                                : scaled[static_cast<size_t>((line * 48 + column) * 3 + color)]);
        }
    views.push_back(std::move(view));
  }
  std::vector<uint8_t> expected_pixels;
  std::vector<std::vector<float>> rows;  // Embeddings of each view, from LLaVA 1.5.
  for (const auto& view : views) {
    expected_pixels.insert(expected_pixels.end(), view.begin(), view.end());
    const auto plan = single->plan(kSide, kSide);
    const auto alone = single->prepare(*plan, {kSide, kSide, view});
    REQUIRE(alone.ok() && (*alone)[0].pixels == view);
    rows.push_back(rows_of(square, single, (*alone)[0]));
  }
  CHECK(piece.pixels == expected_pixels);
  // Of 12 x 12 embeddings, 9 rows show the image. On each side, one and a half rows would have to be cut off, which is
  // rounded down to one.
  std::vector<float> expected = rows[0];
  for (int line = 1; line < 11; ++line) {
    for (int column = 0; column < 12; ++column) {
      const auto at = rows[static_cast<size_t>(1 + line / kPatches * 2 + column / kPatches)].begin() +
                      (line % kPatches * kPatches + column % kPatches) * ptrdiff_t{TinyVision::kRow};
      expected.insert(expected.end(), at, at + TinyVision::kRow);
    }
    expected.insert(expected.end(), newline.begin(), newline.end());
  }
  CHECK_EQ(pieces.plan.n_tokens(), 36 + 10 * 13);
  CHECK(rows_of(parsed, model, piece) == expected);
  // The result does not depend on the size of the encoder's steps.
  auto backend = make_cpu_backend({.threads = 1});
  auto encoder = VisionEncoder::load(*parsed.file, model, **backend);
  REQUIRE(encoder.ok());
  const auto run = (*encoder)->begin(piece);
  int64_t left = run->total();
  while (!run->advance(1)) {
    CHECK(run->left() < left && run->left() > 0);
    left = run->left();
  }
  CHECK(run->left() == 0 && run->take_rows() == expected);
  // Small images are also enlarged to tiles. With low detail, or if the operator allows no tiles, a single newline
  // embedding follows the whole image. Here, the grid is 24 x 48, and the middle 6 of its 12 rows show the image.
  CHECK_EQ(pieces_of(*model, 10, 10).plan.n_tokens(), 36 + 6 * 7);
  const auto low = model->plan(40, 30, {.overview_only = true});
  REQUIRE(low.ok() && low->n_tokens() == 37 && low->pieces.size() == 1 && low->columns == 0);
  auto of_low = model->prepare(*low, {40, 30, picture});
  REQUIRE(of_low.ok() && (*of_low)[0].pixels == views[0]);
  std::vector<float> whole = rows[0];
  whole.insert(whole.end(), newline.begin(), newline.end());
  CHECK(rows_of(parsed, model, (*of_low)[0]) == whole);
  for (const VisionResize resize : {VisionResize::kOriginal, VisionResize::kLlamaCpp}) {
    const auto bound = VisionModel::load(*parsed.file, {.max_tiles = 1, .resize = resize});
    REQUIRE(bound.ok());
    const auto plan = (*bound)->plan(40, 30);
    CHECK(plan.ok() && plan->pieces.size() == 1 && plan->n_tokens() == (resize == VisionResize::kOriginal ? 37 : 36) &&
          plan->columns == 0);
    CHECK(plan->n_tokens() <= (*bound)->most_tokens());
  }
  // Images with equal pixels have different embeddings if the amount of padding differs, so their content hashes must
  // differ.
  const std::vector<uint8_t> black(size_t{3} * 48 * 48);
  const auto hash_of_black = [&](int width, int height) {
    const auto plan = model->plan(width, height);
    const auto prepared =
        model->prepare(*plan, {width, height, std::span(black).first(static_cast<size_t>(3 * width * height))});
    CHECK(plan->columns == 2 && plan->rows == 2);
    return (*prepared)[0].hash;
  };
  CHECK(hash_of_black(40, 30) != hash_of_black(40, 40));
  // The image is so narrow that no embedding of the tiles remains.
  CHECK_EQ(pieces_of(*model, 3000, 1).plan.n_tokens(), 36);
}

TEST(llava_16_without_its_newline_tensor_is_rejected_by_name) {
  const ParsedModel parsed{TinyVision("mlp")};
  const auto model = VisionModel::load(*parsed.file, {.resize = VisionResize::kOriginal});
  CHECK(!model.ok() && model.error().code == ErrorCode::kInvalidFile &&
        model.error().message.find("model.image_newline") != std::string::npos);
  TinyVision short_one = with_newline();
  short_one.bias("model.image_newline", TinyVision::kRow - 1);
  const ParsedModel other{short_one};
  const auto refused = VisionModel::load(*other.file, {.resize = VisionResize::kOriginal});
  CHECK(!refused.ok() && refused.error().message.find("model.image_newline") != std::string::npos);
  // llama.cpp's preprocessing ignores the newline tensor.
  CHECK(VisionModel::load(*other.file, {.resize = VisionResize::kLlamaCpp}).ok());
}

// If the position table is rotated by one entry, the order of llama.cpp (class embedding last) produces the same
// results as the original order (class embedding first).
TEST(class_embeddings_come_first) {
  for (const bool llava : {false, true}) {
    TinyVision model = llava ? one_square() : TinyVision("internvl"), turned = model;
    const std::vector<float> table = model.floats("v.position_embd.weight");
    std::vector<float> other(table.begin() + TinyVision::kWidth, table.end());
    other.insert(other.end(), table.begin(), table.begin() + TinyVision::kWidth);
    Bytes data(other.size() * sizeof(float));
    std::memcpy(data.data(), other.data(), data.size());
    turned.tensors["v.position_embd.weight"].data = std::move(data);
    const ParsedModel parsed(model), parsed_turned(turned);
    const auto original = loaded(parsed), usual = loaded(parsed_turned, VisionResize::kLlamaCpp);
    if (original == nullptr || usual == nullptr) return;
    // The image has the same size as the encoder's input, so it is not resized.
    const Pieces pieces = pieces_of(*original, 24, 24);
    const std::vector<float> got = rows_of(parsed, original, pieces.prepared[0]),
                             expected = rows_of(parsed_turned, usual, pieces.prepared[0]);
    REQUIRE(got.size() == expected.size() && !got.empty());
    // For LLaVA, llama.cpp drops the embedding of the first patch and keeps the class embedding at the end.
    const size_t shift = llava ? TinyVision::kRow : 0;
    for (size_t i = shift; i < got.size(); ++i) CHECK_EQ(got[i], expected[i - shift]);
  }
}
