#include "engine/debug/debug_vision.h"

#include <memory>
#include <string_view>

#include "base/sha256.h"
#include "formats/gguf/tokenizer.h"
#include "vision/load_options.h"

namespace monolith {
namespace {

constexpr std::string_view kPlace = "<__media__>";

std::vector<std::string_view> stretches(std::string_view prompt) {
  std::vector<std::string_view> parts;
  for (size_t at; (at = prompt.find(kPlace)) != std::string_view::npos; prompt.remove_prefix(at + kPlace.size()))
    parts.push_back(prompt.substr(0, at));
  parts.push_back(prompt);
  return parts;
}

struct Pair {
  std::shared_ptr<const VisionModel> model;
  std::unique_ptr<VisionEncoder> encoder;
  std::unique_ptr<const Tokenizer> tokenizer;
  MarkerTokens markers;
};

class Sequence {
 public:
  Sequence(const Pair& pair, DebugVision& result) : pair_(pair), result_(result) {}

  void text(std::string_view text, bool first) {
    pair_.tokenizer->encode(text, {.add_special = first, .parse_special = true}, tokens_);
  }

  Status image(int index, const DebugImage& image) {
    Result<ImagePlan> plan = pair_.model->plan(image.width, image.height);
    if (!plan) return plan.error();
    auto prepared = pair_.model->prepare(*plan, {image.width, image.height, image.pixels});
    if (!prepared) return prepared.error();
    result_.grids.push_back({plan->columns, plan->rows});
    for (size_t i = 0; i < plan->pieces.size(); ++i) {
      if (Status s = mark(plan->pieces[i].before); !s) return s;
      close();
      DebugVisionEntry entry;
      entry.image = index;
      entry.piece = std::move(plan->pieces[i]);
      const PreparedPiece& piece = (*prepared)[i];
      entry.hash = piece.hash;
      entry.pixels_u8_sha256 = Sha256::hex_of(std::as_bytes(std::span(piece.pixels)));
      const std::vector<float> numbers = pair_.model->normalized(piece);
      entry.pixels_f32_sha256 = Sha256::hex_of(std::as_bytes(std::span(numbers)));
      const std::unique_ptr<EncoderRun> run = pair_.encoder->begin(piece);
      while (!run->advance(INT64_MAX)) {
      }
      entry.embeddings = run->take_rows();
      add(std::move(entry));
    }
    return mark(plan->after);
  }

  // Adds the tokens collected so far to the result, as one entry.
  void close() {
    if (tokens_.empty()) return;
    DebugVisionEntry entry;
    entry.tokens.assign(tokens_.begin(), tokens_.end());
    tokens_.clear();
    add(std::move(entry));
  }

 private:
  Status mark(const std::vector<std::string>& markers) {
    for (const std::string& marker : markers) {
      const TokenId id = pair_.markers.id(marker);
      if (id == kNoToken)
        return Error{ErrorCode::kInvalidArgument,
                     "the vocabulary has no token \"" + marker + "\", which this image needs"};
      tokens_.push_back(id);
    }
    return {};
  }

  void add(DebugVisionEntry entry) {
    entry.position = result_.next_position;
    const bool piece = entry.tokens.empty();
    result_.next_position += piece ? entry.piece.n_positions() : static_cast<int>(entry.tokens.size());
    result_.n_tokens += piece ? entry.piece.n_rows : static_cast<int>(entry.tokens.size());
    result_.sequence.push_back(std::move(entry));
  }

  const Pair& pair_;
  DebugVision& result_;
  std::vector<TokenId> tokens_;
};

Error of_file(const std::string& path, const Error& error) {
  return error.message.starts_with(path) ? error : Error{error.code, path + ": " + error.message};
}

Result<Pair> open_pair(const std::string& text_path, const ModelFileOptions& text_file, const std::string& vision_path,
                       Backend& backend, std::optional<VisionResize> resize) {
  Pair pair;
  auto file = open_vision_file(vision_path);
  if (!file) return of_file(vision_path, file.error());
  auto model = VisionModel::load(**file, {.resize = resize.value_or(resize_of(**file))});
  if (!model) return of_file(vision_path, model.error());
  pair.model = std::move(*model);
  const auto fits = read_model_file(text_path, text_file, [&](const GgufFile& text) -> Result<bool> {
    auto tokenizer = load_tokenizer(text);
    if (!tokenizer) return tokenizer.error();
    const Result<TextModelFacts> facts = read_text_facts(text, **tokenizer);
    if (!facts) return facts.error();
    Result<MarkerTokens> markers = pair.model->fit(*facts);
    if (!markers) return markers.error();
    pair.tokenizer = std::move(*tokenizer);
    pair.markers = std::move(*markers);
    return true;
  });
  if (!fits) return fits.error();
  auto encoder = VisionEncoder::load(**file, pair.model, backend);
  if (!encoder) return of_file(vision_path, encoder.error());
  pair.encoder = std::move(*encoder);
  return pair;
}

}  // namespace

Result<DebugVision> debug_vision(const std::string& text_path, const ModelFileOptions& text_file,
                                 const std::string& vision_path, Backend& backend, const std::string& prompt,
                                 const std::vector<DebugImage>& images, std::optional<VisionResize> resize) {
  const std::vector<std::string_view> text = stretches(prompt);
  if (text.size() != images.size() + 1)
    return Error{ErrorCode::kInvalidArgument, "the prompt has " + std::to_string(text.size() - 1) + " times " +
                                                  std::string(kPlace) + ", but there are " +
                                                  std::to_string(images.size()) + " images"};
  Result<Pair> pair = open_pair(text_path, text_file, vision_path, backend, resize);
  if (!pair) return pair.error();
  DebugVision result;
  result.row_width = pair->model->row_width();
  Sequence sequence(*pair, result);
  for (size_t i = 0; i < text.size(); ++i) {
    sequence.text(text[i], i == 0);
    if (i == images.size()) break;
    if (Status s = sequence.image(static_cast<int>(i), images[i]); !s)
      return Error{s.error().code, "image " + std::to_string(i) + ": " + s.error().message};
  }
  sequence.close();
  return result;
}

}  // namespace monolith
