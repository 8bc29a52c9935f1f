// Checks stages 1 and 2 of the vision vectors. Pixels must match byte for byte, plans, tokens and positions must match
// exactly, and embeddings must match within a tolerance.
#include <cstdio>

#include "backend/cpu/cpu_backend.h"
#include "base/sha256.h"
#include "support/vision_golden.h"
#include "formats/gguf/tokenizer.h"
#include "vision/load_options.h"
#include "vision/vision.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

std::string_view part_name(PiecePart part) {
  return part == PiecePart::kTile ? "tile" : part == PiecePart::kOverview ? "overview" : "image";
}

struct Pair {
  std::unique_ptr<const GgufFile> file, text;
  std::shared_ptr<const VisionModel> model;
  std::unique_ptr<const Tokenizer> tokenizer;
  MarkerTokens markers;
};

std::optional<Pair> open_pair(const Json& json) {
  Pair pair;
  const std::string name = json["name"].string();
  const auto fail = [&](const Error& error) {
    check::fail(__FILE__, __LINE__, name + ": " + error.message);
    return std::nullopt;
  };
  auto file = GgufFile::open(vision_path("models/" + json["mmproj"].string()));
  if (!file) return fail(file.error());
  auto text = GgufFile::open(vision_path("models/" + json["text_model"].string()));
  if (!text) return fail(text.error());
  auto model = VisionModel::load(**file, {});
  if (!model) return fail(model.error());
  auto tokenizer = load_tokenizer(**text);
  if (!tokenizer) return fail(tokenizer.error());
  const Result<TextModelFacts> facts = read_text_facts(**text, **tokenizer);
  if (!facts) return fail(facts.error());
  auto markers = (*model)->fit(*facts);
  if (!markers) return fail(markers.error());
  return Pair{std::move(*file), std::move(*text), std::move(*model), std::move(*tokenizer), std::move(*markers)};
}

// Splits a prompt at its images and returns the texts between them.
std::vector<std::string> stretches(std::string_view prompt) {
  constexpr std::string_view kPlace = "<__media__>";
  std::vector<std::string> parts;
  for (size_t at; (at = prompt.find(kPlace)) != std::string_view::npos; prompt.remove_prefix(at + kPlace.size()))
    parts.emplace_back(prompt.substr(0, at));
  parts.emplace_back(prompt);
  return parts;
}

// One entry in the sequence of a case: either tokens or a part of an image.
struct Entry {
  std::vector<TokenId> tokens;
  int image = -1;
  ImagePiece piece;
  size_t index = 0;
};

std::vector<Entry> sequence_of(const Pair& pair, const std::vector<std::string>& text,
                               const std::vector<ImagePlan>& plans) {
  std::vector<Entry> entries(1);
  const auto mark = [&](const std::vector<std::string>& markers) {
    for (const std::string& marker : markers) entries.back().tokens.push_back(pair.markers.id(marker));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    pair.tokenizer->encode(text[i], {.add_special = i == 0, .parse_special = true}, entries.back().tokens);
    if (i == plans.size()) break;
    for (size_t j = 0; j < plans[i].pieces.size(); ++j) {
      mark(plans[i].pieces[j].before);
      if (entries.back().tokens.empty()) entries.pop_back();
      entries.push_back({{}, static_cast<int>(i), plans[i].pieces[j], j});
      entries.emplace_back();
    }
    mark(plans[i].after);
  }
  if (entries.back().tokens.empty()) entries.pop_back();
  return entries;
}

void check_entry(const std::string& where, const Json& expected, const Entry& entry, const PreparedPiece& prepared,
                 const VisionModel& model, int position) {
  const ImagePiece& piece = entry.piece;
  const auto same = [&](const char* what, const auto& got, const auto& wanted) {
    if (!(got == wanted)) check::fail(__FILE__, __LINE__, where + ": " + what);
  };
  same("image", entry.image, expected["image"].integer());
  same("part", part_name(piece.part), std::string_view(expected["part"].string()));
  same("row", piece.row, expected["row"].integer());
  same("column", piece.column, expected["column"].integer());
  same("n_tokens", piece.n_rows, expected["n_tokens"].integer());
  same("n_positions", piece.n_positions(), expected["n_positions"].integer());
  same("attention", piece.bidirectional, expected["attention"].string() == "non-causal");
  same("width", prepared.width, expected["width"].integer());
  same("height", prepared.height, expected["height"].integer());
  same("embedding_size", static_cast<int>(model.row_width()), expected["embedding_size"].integer());
  const auto pixels = Inflate::zlib(bytes_from_base64(expected["pixels_u8"].string()));
  REQUIRE(pixels.has_value());
  if (prepared.pixels != *pixels) {
    size_t differ = 0, first = pixels->size();
    for (size_t i = 0; i < std::min(pixels->size(), prepared.pixels.size()); ++i)
      if ((*pixels)[i] != prepared.pixels[i]) ++differ, first = std::min(first, i);
    check::fail(__FILE__, __LINE__,
                where + ": " + std::to_string(differ) + " of " + std::to_string(pixels->size()) +
                    " bytes differ, the first at " + std::to_string(first));
  }
  const std::vector<float> numbers = model.normalized(prepared);
  same("pixels_f32_sha256", Sha256::hex_of(std::as_bytes(std::span(numbers))), expected["pixels_f32_sha256"].string());
  same("M-RoPE", piece.mrope, !expected["positions_t"].is_null());
  if (!piece.mrope) return;
  const auto t = expected["positions_t"].numbers<int>(), y = expected["positions_y"].numbers<int>(),
             x = expected["positions_x"].numbers<int>();
  for (int i = 0; i < piece.n_rows; ++i) {
    const RowPosition at = piece.position(i);
    const auto row = static_cast<size_t>(i);
    same("positions", at, RowPosition{t[row] - position, y[row] - position, x[row] - position});
  }
}

struct Worst {
  double max = 0, rms = 0;
};

// Checks the plans and pixels of all cases of a pair and, if there is an encoder, their embeddings.
Worst check_pair(const Json& json, const Pair& pair, VisionEncoder* encoder, int64_t budget) {
  Worst worst;
  for (const Json& one : json["cases"].array()) {
    const std::string name = json["name"].string() + " " + one["name"].string();
    std::vector<ImagePlan> plans;
    std::vector<std::vector<PreparedPiece>> prepared;
    for (const Json& image : one["images"].array()) {
      const auto picture = vision_picture(image.string());
      if (!picture) return check::fail(__FILE__, __LINE__, name + ": no image " + image.string()), worst;
      auto plan = pair.model->plan(picture->width, picture->height);
      if (!plan) return check::fail(__FILE__, __LINE__, name + ": " + plan.error().message), worst;
      auto pieces = pair.model->prepare(*plan, {picture->width, picture->height, picture->rgb});
      if (!pieces) return check::fail(__FILE__, __LINE__, name + ": " + pieces.error().message), worst;
      const auto grid = one["grids"].array()[plans.size()].numbers<int>();
      if (grid != std::vector<int>{plan->columns, plan->rows}) check::fail(__FILE__, __LINE__, name + ": grid");
      plans.push_back(std::move(*plan));
      prepared.push_back(std::move(*pieces));
    }
    const std::vector<Entry> entries = sequence_of(pair, stretches(one["prompt"].string()), plans);
    const Json::Array& expected = one["sequence"].array();
    CHECK_EQ(entries.size(), expected.size());
    int position = 0, n_tokens = 0;
    for (size_t i = 0; i < std::min(entries.size(), expected.size()); ++i) {
      const std::string where = name + " entry " + std::to_string(i);
      CHECK_EQ(position, expected[i]["position"].integer());
      if (entries[i].image < 0) {
        if (entries[i].tokens != expected[i]["tokens"].numbers<TokenId>())
          check::fail(__FILE__, __LINE__, where + ": tokens");
        position += static_cast<int>(entries[i].tokens.size());
        n_tokens += static_cast<int>(entries[i].tokens.size());
        continue;
      }
      const PreparedPiece& piece = prepared[static_cast<size_t>(entries[i].image)][entries[i].index];
      if (encoder == nullptr) check_entry(where, expected[i], entries[i], piece, *pair.model, position);
      position += entries[i].piece.n_positions();
      n_tokens += entries[i].piece.n_rows;
      if (encoder == nullptr) continue;
      const auto run = encoder->begin(piece);
      while (!run->advance(budget)) {
      }
      CHECK_EQ(run->left(), 0);
      const EmbeddingError error = embedding_error(expected[i], run->take_rows(), one["embeddings_std"].number());
      worst = {std::max(worst.max, error.max), std::max(worst.rms, error.rms)};
    }
    CHECK_EQ(position, one["next_position"].integer());
    CHECK_EQ(n_tokens, one["n_tokens"].integer());
  }
  return worst;
}

void check_embeddings(Arithmetic arithmetic, const char* row) {
  bool any = false;
  for (const char* name : kVisionPairs) {
    const auto json = vision_cases(name);
    if (!json) continue;
    any = true;
    const auto pair = open_pair(*json);
    if (!pair) continue;
    auto backend = make_cpu_backend({.threads = 2, .arithmetic = arithmetic});
    REQUIRE(backend.ok());
    auto encoder = VisionEncoder::load(*pair->file, pair->model, **backend);
    if (!encoder) {
      check::fail(__FILE__, __LINE__, std::string(name) + ": " + encoder.error().message);
      continue;
    }
    const Worst worst = check_pair(*json, *pair, encoder->get(), INT64_MAX);
    const auto limits = (*json)["tolerance"]["embeddings"][row].numbers<double>();
    REQUIRE(limits.size() == 2);
    char text[160];
    std::snprintf(text, sizeof text, "%s: max %.2g of %.2g, rms %.2g of %.2g", name, worst.max, limits[0], worst.rms,
                  limits[1]);
    check::note(text);
    if (!(worst.max <= limits[0] && worst.rms <= limits[1])) check::fail(__FILE__, __LINE__, text);
  }
  if (!any) check::skip("vision vectors not found; set $MONOLITH_VISION (docs/internals/performance.md)");
}

}  // namespace

TEST(pixels_plans_tokens_and_positions_match_the_vision_vectors) {
  bool any = false;
  for (const char* name : kVisionPairs) {
    const auto json = vision_cases(name);
    if (!json) continue;
    any = true;
    if (const auto pair = open_pair(*json)) check_pair(*json, *pair, nullptr, 0);
  }
  if (!any) check::skip("vision vectors not found; set $MONOLITH_VISION (docs/internals/performance.md)");
}

TEST(embeddings_in_exact_arithmetic_match_the_vision_vectors) { check_embeddings(Arithmetic::kExact, "f32"); }

TEST(embeddings_in_production_arithmetic_match_the_vision_vectors) { check_embeddings(Arithmetic::kProduction, "f16"); }
