#include "engine/load/load_vision.h"

#include <algorithm>
#include <utility>

#include "backend/registry/registry.h"
#include "formats/gguf/tokenizer.h"
#include "formats/hf/model_file.h"
#include "vision/load_options.h"

namespace monolith {
namespace {

VisionBounds bounds_of(const LoadOptions& options, const GgufFile& file) {
  VisionBounds bounds;
  if (options.vision_max_pixels > 0) bounds.max_source_pixels = options.vision_max_pixels;
  bounds.max_tiles = options.vision_max_tiles;
  bounds.resize = options.vision_resize.value_or(resize_of(file));
  return bounds;
}

Error named(const LoadOptions& options, const Error& error) {
  return error.message.find(options.vision_path) == std::string::npos
             ? Error{error.code, options.vision_path + ": " + error.message}
             : error;
}

}  // namespace

Result<LoadedVision> read_vision(const LoadOptions& options, const GgufFile& text, const Tokenizer& tokenizer) {
  LoadedVision vision;
  if (options.vision_path.empty()) return vision;
  const auto refused = [&](const Error& error) -> Result<LoadedVision> {
    if (!options.vision_optional) return named(options, error);
    LoadedVision none;
    none.problem = named(options, error).message;
    return none;
  };
  auto file = open_vision_file(options.vision_path);
  if (!file) return refused(file.error());
  auto model = VisionModel::load(**file, bounds_of(options, **file));
  if (!model) return refused(model.error());
  auto facts = read_text_facts(text, tokenizer);
  if (!facts) return facts.error();
  auto markers = (*model)->fit(*facts);
  if (!markers) return refused(markers.error());
  vision.model = std::move(*model);
  vision.markers = std::move(*markers);
  return vision;
}

int rows_at_once(const LoadedVision& vision) {
  // The image size does not matter: with a given vision encoder, either all image parts use bidirectional attention or
  // none do.
  constexpr int kUsualSide = 512;
  if (!vision.model) return 0;
  const auto plan = vision.model->plan(kUsualSide, kUsualSide);
  const bool at_once =
      plan && std::ranges::any_of(plan->pieces, [](const ImagePiece& piece) { return piece.bidirectional; });
  return at_once ? vision.model->most_rows() : 0;
}

Result<InspectedVision> inspect_vision(const LoadOptions& options, const std::string& text_path, Backend& backend) {
  InspectedVision found;
  const auto refused = [&](const Error& error) -> Result<InspectedVision> {
    if (!options.vision_optional) return named(options, error);
    found.problem = named(options, error).message;
    return found;
  };
  auto file = open_vision_file(options.vision_path);
  if (!file) return refused(file.error());
  auto model = VisionModel::load(**file, bounds_of(options, **file));
  if (!model) return refused(model.error());
  found.projector = (*model)->projector_type();
  found.weight_bytes = VisionEncoder::weight_bytes(**file, **model, backend, options.vision_precision);
  found.work_bytes = VisionEncoder::work_bytes(**file, **model, backend, options.vision_precision);
  for (const auto& [width, height] : {std::pair{512, 512}, {1024, 768}, {1920, 1080}})
    if (const auto plan = (*model)->plan(width, height))
      found.image_tokens.push_back({width, height, plan->n_tokens()});
  const auto fits = read_model_file(text_path, options.file(), [&](const GgufFile& text) -> Result<bool> {
    auto tokenizer = load_tokenizer(text);
    if (!tokenizer) return tokenizer.error();
    LoadOptions strict = options;
    strict.vision_optional = false;
    auto vision = read_vision(strict, text, **tokenizer);
    if (!vision) return vision.error();
    return true;
  });
  if (!fits) found.problem = fits.error().message;
  return found;
}

Result<EngineVision> load_encoder(const LoadOptions& options, const LoadedVision& vision, Backend& backend) {
  auto file = open_vision_file(options.vision_path);
  if (!file) return named(options, file.error());
  EngineVision sight;
  auto encoder = VisionEncoder::load(**file, vision.model, backend, options.vision_precision);
  if (!encoder && encoder.error().code == ErrorCode::kUnsupported && !backend.is_host_memory()) {
    BackendOptions cpu = options.backend;
    cpu.device = "cpu";
    auto processor = make_backend(cpu);
    if (!processor) return processor.error();
    sight.backend = std::move(*processor);
    encoder = VisionEncoder::load(**file, vision.model, *sight.backend, options.vision_precision);
  }
  if (!encoder) return named(options, encoder.error());
  sight.encoder = std::move(*encoder);
  return sight;
}

}  // namespace monolith
