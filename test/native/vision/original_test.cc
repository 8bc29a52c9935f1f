// Pictures made ready as the models' makers do it (VisionResize::kOriginal): known bytes of Pillow's resampling, sizes of the
// makers' programs, pieces of every kind, and class vectors that come first.
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

std::vector<uint8_t> grey(std::initializer_list<int> levels) {
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
  auto tower = VisionTower::load(*parsed.file, std::move(model), **backend);
  if (!tower) return check::fail(__FILE__, __LINE__, tower.error().message), std::vector<float>();
  const auto run = (*tower)->begin(piece);
  while (!run->advance(INT64_MAX)) {
  }
  return run->take_rows();
}

// LLaVA 1.5: one square, no grids.
TinyVision one_square() {
  TinyVision model("mlp");
  model.keys.erase("clip.vision.image_grid_pinpoints");
  return model;
}

// LLaVA 1.6, with what its makers put behind each row.
TinyVision with_newline() {
  TinyVision model("mlp");
  model.bias("model.image_newline", TinyVision::kRow);
  return model;
}

}  // namespace

TEST(resampling_gives_the_bytes_of_pillow) {
  const auto two = grey({0, 255}), four = grey({0, 100, 200, 250});
  CHECK(resample(ResampleFilter::kBilinear, two.data(), {2, 1}, {4, 1}) == grey({0, 64, 191, 255}));
  // (3 * 0 + 3 * 100 + 200) / 7 and (100 + 3 * 200 + 3 * 250) / 7.
  CHECK(resample(ResampleFilter::kBilinear, four.data(), {4, 1}, {2, 1}) == grey({71, 207}));
  CHECK(resample(ResampleFilter::kBilinear, four.data(), {1, 4}, {1, 2}) == grey({71, 207}));
  // At 1/4 of a pixel from the middle, the cubic of a = -1/2 weighs 0.8671875 and 0.2265625 of those beside it.
  CHECK(resample(ResampleFilter::kBicubic, two.data(), {2, 1}, {4, 1}) == grey({0, 53, 202, 255}));
  for (const ResampleFilter filter : {ResampleFilter::kBilinear, ResampleFilter::kBicubic, ResampleFilter::kLanczos}) {
    const auto even = grey({77, 77, 77, 77, 77, 77});
    for (const uint8_t byte : resample(filter, even.data(), {3, 2}, {7, 5})) CHECK_EQ(int{byte}, 77);
    CHECK(resample(filter, four.data(), {2, 2}, {2, 2}) == four);
    CHECK_EQ(resample(filter, striped_picture(90, 7).data(), {90, 7}, {1, 1}).size(), size_t{3});
  }
  CHECK(middle_of(four.data(), {4, 1}, {2, 1}) == grey({100, 200}));
}

TEST(sizes_are_those_of_the_makers_programs) {
  CHECK((qwen_size({70, 130}, 28, 4 * 784, 4096 * 784) == PictureSize{56, 140}));  // 2.5 is rounded to even
  const PictureSize less = qwen_size({5000, 3000}, 28, 4 * 784, 1024 * 784);
  CHECK(less.pixels() <= 1024 * 784 && less.width % 28 == 0 && less.height % 28 == 0);
  CHECK((pixtral_size({1600, 1200}, 1024, 16) == PictureSize{1024, 768}));
  CHECK((pixtral_size({100, 30}, 1024, 16) == PictureSize{112, 32}));  // never enlarged
  CHECK((idefics_size({1600, 1200}, 1456) == PictureSize{1456, 1092}));
  CHECK((idefics_size({100, 301}, 100) == PictureSize{34, 100}));  // 33 becomes even
  CHECK((idefics_tiled({1456, 1000}, 364) == PictureSize{1456, 1092}));
  CHECK((gemma4_size({1600, 1200}, 48, 280 * 48 * 48) == PictureSize{912, 672}));  // 19 x 14 of 280
  CHECK((gemma4_size({100, 80}, 48, 280 * 48 * 48) == PictureSize{864, 672}));     // small ones grow
  CHECK((gemma4_size({100'000, 10}, 48, 280 * 48 * 48) == PictureSize{280 * 48, 48}));
  CHECK((gemma4_size({2, 900}, 48, 280 * 48 * 48) == PictureSize{48, 280 * 48}));
  // 114 x 85 patches of 4096: by 0.6501...
  CHECK((kimi_size({1600, 1200}, 14, 4096 * 196) == PictureSize{1040, 780}));
  CHECK((kimi_padded({1040, 780}, 28) == PictureSize{1064, 784}));
  CHECK((kimi_size({100, 30}, 14, 4096 * 196) == PictureSize{100, 30}));  // never enlarged
  CHECK((kimi_size({20'000, 10}, 14, 4096 * 196) == PictureSize{512 * 14, 3}));
  CHECK((clip_size({640, 480}, 336) == PictureSize{448, 336}));
  CHECK((nearest_grid({900, 440}, 12, 448, 1) == PictureSize{2, 1}));
  CHECK((nearest_grid({300, 310}, 12, 448, 1) == PictureSize{1, 1}));
}

TEST(pieces_are_made_as_the_makers_make_them) {
  struct Case {
    const char* type;
    ResampleFilter filter;
  };
  // One piece, stretched.
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
  // Scaled, then black to the right and below.
  const ParsedModel kimi{TinyVision("kimik25")};
  const Pieces padded = pieces_of(*loaded(kimi), 30, 21);
  REQUIRE(padded.prepared.size() == 1 && padded.prepared[0].width == 32 && padded.prepared[0].height == 24);
  const auto as_it_is = striped_picture(30, 21);
  // the second row
  CHECK(std::equal(as_it_is.begin() + 90, as_it_is.begin() + 180, padded.prepared[0].pixels.begin() + 96));
  CHECK(padded.prepared[0].pixels[95] == 0 && padded.prepared[0].pixels.back() == 0);
  CHECK(!rows_of(kimi, loaded(kimi), padded.prepared[0]).empty());
  // Tiles and an overview of what they were cut from (Idefics 3) or of the picture.
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
  CHECK_EQ(pieces_of(*loaded(intern), 22, 25).prepared.size(), size_t{1});  // nearest to a square, and small
  // of equal grids the one that it half fills
  CHECK_EQ(pieces_of(*loaded(intern), 100, 100).prepared.size(), size_t{10});
  const Pieces wide = pieces_of(*loaded(intern), 30, 15);
  CHECK(wide.plan.columns == 2 && wide.plan.rows == 1 && wide.prepared.size() == 3);
  // The middle of the picture, its shorter side scaled to the square's.
  const ParsedModel llava{one_square()};
  const auto model = loaded(llava);
  const auto covering = resample(ResampleFilter::kBicubic, striped_picture(150, 97).data(), {150, 97}, {37, 24});
  CHECK(pieces_of(*model, 150, 97).prepared[0].pixels == middle_of(covering.data(), {37, 24}, {24, 24}));
  const auto bound = VisionModel::load(*llava.file, {.max_source_pixels = 1 << 20, .resize = VisionResize::kOriginal});
  CHECK(bound.ok() && (*bound)->plan(1000, 1000).ok() && !(*bound)->plan(1, 60'000).ok());  // 24 x 1,440,000
}

TEST(llava_16_chooses_grids_and_cuts_padding_off_as_its_makers_do) {
  // width, height
  const std::vector<std::pair<int, int>> grids = {{672, 336}, {336, 672}, {672, 672}, {336, 1008}, {1008, 336}};
  CHECK((llava_candidate({640, 480}, grids) == PictureSize{672, 672}));
  CHECK((llava_candidate({300, 150}, grids) == PictureSize{672, 336}));  // all survives, and of these it wastes least
  CHECK((llava_candidate({100, 100}, grids) == PictureSize{672, 336}));  // of equals the first
  CHECK((llava_candidate({4000, 1000}, grids) == PictureSize{1008, 336}));
  CHECK((llava_candidate({1, 20'000}, grids) == PictureSize{672, 336}));  // nothing survives anywhere
  CHECK((llava_scaled({640, 480}, {672, 672}) == PictureSize{672, 504}));
  CHECK((llava_scaled({1000, 333}, {1008, 336}) == PictureSize{1008, 336}));  // 335.66, rounded up
  CHECK((llava_scaled({20'000, 1}, {672, 336}) == PictureSize{672, 1}));
  // 48 x 48 patches of 14 pixels: 640 x 480 fills 36 lines; of 641 x 480, 35.9; of 13 lines to cut off six go on either side.
  CHECK((llava_kept({640, 480}, {48, 48}) == PictureSize{48, 36}));
  CHECK((llava_kept({641, 480}, {48, 48}) == PictureSize{48, 36}));
  CHECK((llava_kept({480, 641}, {48, 48}) == PictureSize{36, 48}));
  CHECK((llava_kept({660, 480}, {48, 48}) == PictureSize{48, 34}));  // 34.9
  CHECK((llava_kept({100, 100}, {48, 24}) == PictureSize{24, 24}));
  CHECK((llava_kept({600, 300}, {48, 24}) == PictureSize{48, 24}));
  CHECK((llava_kept({49, 7}, {49, 49}) == PictureSize{49, 7}));       // 7 * (49 / 49)
  CHECK((llava_kept({98, 7 * 3}, {42, 42}) == PictureSize{42, 10}));  // 21 * (42 / 98) = 9: of 33 lines 32 go
  CHECK((llava_kept({176, 55}, {48, 48}) == PictureSize{48, 16}));    // 15 lines, but for the last bit
  CHECK((llava_kept({10'000, 1}, {48, 24}) == PictureSize{48, 0}));   // less than a line
}

// One piece: the whole picture, then the tiles; rows of embeddings across the tiles, without padding, each with the vector behind it.
TEST(llava_16_is_seen_in_one_piece_with_vectors_behind_its_rows) {
  constexpr int kSide = 24, kPatches = 6;  // of a view: 24 pixels, 6 x 6 rows
  const ParsedModel parsed{with_newline()}, square{one_square()};
  const auto model = loaded(parsed), single = loaded(square);
  REQUIRE(model != nullptr && single != nullptr);
  const std::vector<float> newline = with_newline().floats("model.image_newline");
  const PictureSize size{40, 30};  // best of 24 x 48, 48 x 24 and 48 x 48: the last; scaled to 48 x 36
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
        for (int colour = 0; colour < 3; ++colour) {
          // six black lines above, six below
          const int line = tile / 2 * kSide + y - 6, column = tile % 2 * kSide + x;
          view.push_back(line < 0 || line >= 36 ? uint8_t{0}
                                                : scaled[static_cast<size_t>((line * 48 + column) * 3 + colour)]);
        }
    views.push_back(std::move(view));
  }
  std::vector<uint8_t> expected_pixels;
  std::vector<std::vector<float>> rows;  // of each view, as LLaVA 1.5 sees it
  for (const auto& view : views) {
    expected_pixels.insert(expected_pixels.end(), view.begin(), view.end());
    const auto plan = single->plan(kSide, kSide);
    const auto alone = single->prepare(*plan, {kSide, kSide, view});
    REQUIRE(alone.ok() && (*alone)[0].pixels == view);
    rows.push_back(rows_of(square, single, (*alone)[0]));
  }
  CHECK(piece.pixels == expected_pixels);
  // 12 x 12 rows, of which 9 lines would show the picture: one and a half are cut off on either side, rounded down.
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
  // In pieces of work of any size.
  auto backend = make_cpu_backend({.threads = 1});
  auto tower = VisionTower::load(*parsed.file, model, **backend);
  REQUIRE(tower.ok());
  const auto run = (*tower)->begin(piece);
  int64_t left = run->total();
  while (!run->advance(1)) {
    CHECK(run->left() < left && run->left() > 0);
    left = run->left();
  }
  CHECK(run->left() == 0 && run->take_rows() == expected);
  // A small picture is enlarged into tiles, too; with low detail, or where the operator allows no tiles, one vector ends the whole.
  CHECK_EQ(pieces_of(*model, 10, 10).plan.n_tokens(), 36 + 6 * 7);  // 24 x 48: the middle 6 lines of 12
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
  // The same bytes are other rows where more of them is padding.
  const std::vector<uint8_t> black(size_t{3} * 48 * 48);
  const auto hash_of_black = [&](int width, int height) {
    const auto plan = model->plan(width, height);
    const auto prepared =
        model->prepare(*plan, {width, height, std::span(black).first(static_cast<size_t>(3 * width * height))});
    CHECK(plan->columns == 2 && plan->rows == 2);
    return (*prepared)[0].hash;
  };
  CHECK(hash_of_black(40, 30) != hash_of_black(40, 40));
  // Far too narrow: none of the tiles' rows is left.
  CHECK_EQ(pieces_of(*model, 3000, 1).plan.n_tokens(), 36);
}

TEST(llava_16_without_its_vector_is_refused_by_name) {
  const ParsedModel parsed{TinyVision("mlp")};
  const auto model = VisionModel::load(*parsed.file, {.resize = VisionResize::kOriginal});
  CHECK(!model.ok() && model.error().code == ErrorCode::kInvalidFile &&
        model.error().message.find("model.image_newline") != std::string::npos);
  TinyVision short_one = with_newline();
  short_one.bias("model.image_newline", TinyVision::kRow - 1);
  const ParsedModel other{short_one};
  const auto refused = VisionModel::load(*other.file, {.resize = VisionResize::kOriginal});
  CHECK(!refused.ok() && refused.error().message.find("model.image_newline") != std::string::npos);
  CHECK(VisionModel::load(*other.file, {.resize = VisionResize::kLlamaCpp}).ok());  // nobody looks at it
}

// With the table of positions turned by one, llama.cpp's order and the makers' are the same network.
TEST(class_vectors_come_first) {
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
    const Pieces pieces = pieces_of(*original, 24, 24);  // as it is: no resizing
    const std::vector<float> got = rows_of(parsed, original, pieces.prepared[0]),
                             expected = rows_of(parsed_turned, usual, pieces.prepared[0]);
    REQUIRE(got.size() == expected.size() && !got.empty());
    // LLaVA: llama.cpp leaves out the first patch's row and has the class vector's at the end.
    const size_t shift = llava ? TinyVision::kRow : 0;
    for (size_t i = shift; i < got.size(); ++i) CHECK_EQ(got[i], expected[i - shift]);
  }
}
