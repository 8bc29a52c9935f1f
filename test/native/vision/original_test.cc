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

std::vector<float> rows_of(const ParsedModel& parsed, std::shared_ptr<const VisionModel> model, const PreparedPiece& piece) {
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
  CHECK((qwen_size({70, 130}, 28, 4 * 784, 4096 * 784) == PictureSize{56, 140}));   // 2.5 is rounded to even
  const PictureSize less = qwen_size({5000, 3000}, 28, 4 * 784, 1024 * 784);
  CHECK(less.pixels() <= 1024 * 784 && less.width % 28 == 0 && less.height % 28 == 0);
  CHECK((pixtral_size({1600, 1200}, 1024, 16) == PictureSize{1024, 768}));
  CHECK((pixtral_size({100, 30}, 1024, 16) == PictureSize{112, 32}));   // never enlarged
  CHECK((idefics_size({1600, 1200}, 1456) == PictureSize{1456, 1092}));
  CHECK((idefics_size({100, 301}, 100) == PictureSize{34, 100}));       // 33 becomes even
  CHECK((idefics_tiled({1456, 1000}, 364) == PictureSize{1456, 1092}));
  CHECK((gemma4_size({1600, 1200}, 48, 280 * 48 * 48) == PictureSize{912, 672}));   // 19 x 14 of 280
  CHECK((gemma4_size({100, 80}, 48, 280 * 48 * 48) == PictureSize{864, 672}));      // small ones grow
  CHECK((gemma4_size({100'000, 10}, 48, 280 * 48 * 48) == PictureSize{280 * 48, 48}));
  CHECK((gemma4_size({2, 900}, 48, 280 * 48 * 48) == PictureSize{48, 280 * 48}));
  CHECK((kimi_size({1600, 1200}, 14, 4096 * 196) == PictureSize{1040, 780}));   // 114 x 85 patches of 4096: by 0.6501...
  CHECK((kimi_padded({1040, 780}, 28) == PictureSize{1064, 784}));
  CHECK((kimi_size({100, 30}, 14, 4096 * 196) == PictureSize{100, 30}));        // never enlarged
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
  for (const auto& [type, filter] : {Case{"gemma3", ResampleFilter::kBilinear}, Case{"qwen2vl_merger", ResampleFilter::kBicubic}, Case{"qwen2.5vl_merger", ResampleFilter::kBicubic},
                                     Case{"qwen3vl_merger", ResampleFilter::kBicubic}, Case{"pixtral", ResampleFilter::kBicubic},
                                     Case{"gemma4v", ResampleFilter::kBicubic}}) {
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
  CHECK(std::equal(as_it_is.begin() + 90, as_it_is.begin() + 180, padded.prepared[0].pixels.begin() + 96));   // the second row
  CHECK(padded.prepared[0].pixels[95] == 0 && padded.prepared[0].pixels.back() == 0);
  CHECK(!rows_of(kimi, loaded(kimi), padded.prepared[0]).empty());
  // Tiles and an overview of what they were cut from (Idefics 3) or of the picture.
  const ParsedModel idefics{TinyVision("idefics3")};
  const Pieces tiled = pieces_of(*loaded(idefics), 150, 97);
  REQUIRE(tiled.plan.columns == 3 && tiled.plan.rows == 2 && tiled.prepared.size() == 7);
  const PictureSize scaled = idefics_size({150, 97}, 72);
  const auto all = resample(ResampleFilter::kLanczos, resample(ResampleFilter::kLanczos, striped_picture(150, 97).data(), {150, 97}, scaled).data(), scaled, {72, 48});
  CHECK(tiled.prepared[6].pixels == resample(ResampleFilter::kLanczos, all.data(), {72, 48}, {24, 24}));
  CHECK(std::equal(all.begin(), all.begin() + 3 * 24, tiled.prepared[0].pixels.begin()));
  const ParsedModel intern{TinyVision("internvl")};
  CHECK_EQ(pieces_of(*loaded(intern), 22, 25).prepared.size(), size_t{1});     // nearest to a square, and small
  CHECK_EQ(pieces_of(*loaded(intern), 100, 100).prepared.size(), size_t{10});   // of equal grids the one that it half fills
  const Pieces wide = pieces_of(*loaded(intern), 30, 15);
  CHECK(wide.plan.columns == 2 && wide.plan.rows == 1 && wide.prepared.size() == 3);
  // The middle of the picture, its shorter side scaled to the square's.
  const ParsedModel llava{one_square()};
  const auto model = loaded(llava);
  const auto covering = resample(ResampleFilter::kBicubic, striped_picture(150, 97).data(), {150, 97}, {37, 24});
  CHECK(pieces_of(*model, 150, 97).prepared[0].pixels == middle_of(covering.data(), {37, 24}, {24, 24}));
  const auto bound = VisionModel::load(*llava.file, {.max_source_pixels = 1 << 20, .resize = VisionResize::kOriginal});
  CHECK(bound.ok() && (*bound)->plan(1000, 1000).ok() && !(*bound)->plan(1, 60'000).ok());   // 24 x 1,440,000
}

TEST(makers_ways_that_are_not_known_are_refused_by_name) {
  const ParsedModel parsed{TinyVision("mlp")};
  const auto model = VisionModel::load(*parsed.file, {.resize = VisionResize::kOriginal});
  CHECK(!model.ok() && model.error().code == ErrorCode::kUnsupported && model.error().message.find("LLaVA 1.6") != std::string::npos);
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
    const Pieces pieces = pieces_of(*original, 24, 24);   // as it is: no resizing
    const std::vector<float> got = rows_of(parsed, original, pieces.prepared[0]), expected = rows_of(parsed_turned, usual, pieces.prepared[0]);
    REQUIRE(got.size() == expected.size() && !got.empty());
    // LLaVA: llama.cpp leaves out the first patch's row and has the class vector's at the end.
    const size_t shift = llava ? TinyVision::kRow : 0;
    for (size_t i = shift; i < got.size(); ++i) CHECK_EQ(got[i], expected[i - shift]);
  }
}
