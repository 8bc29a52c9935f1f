#include "addon/functions.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "addon/arguments.h"
#include "addon/objects.h"
#include "addon/options.h"
#include "addon/promise_work.h"
#include "engine/debug/debug_vision_logits.h"
#include "engine/load/load_engine.h"
#include "backend/registry/registry.h"

namespace monolith::addon {
namespace {

constexpr size_t kMaxPromptBytes = size_t{1} << 24;
constexpr uint32_t kMaxDebugImages = 256;
constexpr int kMaxDebugSide = 1 << 16;
constexpr int kMaxContinued = 1 << 16;

struct Answer {
  DebugVision vision;
  std::optional<DebugVisionLogits> logits;
};

Napi::Value hex(Napi::Env env, const ContentHash& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return to_string(env, text);
}

Napi::Object to_object(Napi::Env env, const DebugVisionEntry& entry, int64_t row_width) {
  Napi::Object object = Napi::Object::New(env);
  const auto number = [&](const char* key, double value) { object.Set(key, Napi::Number::New(env, value)); };
  number("position", entry.position);
  if (!entry.tokens.empty()) {
    object.Set("tokens", to_int32_array(env, entry.tokens));
    return object;
  }
  const ImagePiece& piece = entry.piece;
  number("image", entry.image);
  object.Set("part", to_string(env, piece.part == PiecePart::kTile       ? "tile"
                                    : piece.part == PiecePart::kOverview ? "overview"
                                                                         : "image"));
  number("row", piece.row);
  number("column", piece.column);
  number("width", piece.width);
  number("height", piece.height);
  number("nTokens", piece.n_rows);
  number("nPositions", piece.n_positions());
  object.Set("bidirectional", Napi::Boolean::New(env, piece.bidirectional));
  object.Set("hash", hex(env, entry.hash));
  object.Set("pixelsU8Sha256", to_string(env, entry.pixels_u8_sha256));
  object.Set("pixelsF32Sha256", to_string(env, entry.pixels_f32_sha256));
  number("embeddingSize", static_cast<double>(row_width));
  object.Set("embeddings", to_uint8_array(env, entry.embeddings.data(), entry.embeddings.size() * sizeof(float)));
  object.Set("positions", env.Null());
  if (piece.mrope) {
    std::vector<int32_t> positions;
    for (int row = 0; row < piece.n_rows; ++row) {
      const RowPosition at = piece.position(row);
      positions.insert(positions.end(), {entry.position + at.t, entry.position + at.y, entry.position + at.x});
    }
    object.Set("positions", to_int32_array(env, positions));
  }
  return object;
}

Napi::Value to_float32_array(Napi::Env env, const std::vector<float>& values) {
  Napi::Float32Array array = Napi::Float32Array::New(env, values.size());
  if (!array.IsEmpty()) std::copy(values.begin(), values.end(), array.Data());
  return array;
}

Napi::Value to_value(Napi::Env env, const DebugVisionLogits& logits) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("logits", to_float32_array(env, logits.logits));
  object.Set("tokens", to_int32_array(env, logits.tokens));
  object.Set("margins", to_float32_array(env, logits.margins));
  object.Set("lastLogits", to_float32_array(env, logits.last_logits));
  return object;
}

Napi::Value to_value(Napi::Env env, const Answer& answer) {
  const DebugVision& vision = answer.vision;
  Napi::Object object = Napi::Object::New(env);
  Napi::Array grids = Napi::Array::New(env, vision.grids.size()),
              sequence = Napi::Array::New(env, vision.sequence.size());
  for (uint32_t i = 0; i < vision.grids.size(); ++i) {
    const int32_t grid[] = {vision.grids[i].columns, vision.grids[i].rows};
    grids.Set(i, to_int32_array(env, grid));
  }
  for (uint32_t i = 0; i < vision.sequence.size(); ++i) {
    const Napi::HandleScope scope(env);
    sequence.Set(i, to_object(env, vision.sequence[i], vision.row_width));
  }
  object.Set("grids", grids);
  object.Set("sequence", sequence);
  object.Set("nTokens", Napi::Number::New(env, vision.n_tokens));
  object.Set("nPositions", Napi::Number::New(env, vision.next_position));
  object.Set("continuation", answer.logits ? to_value(env, *answer.logits) : env.Null());
  return object;
}

}  // namespace

Napi::Value js_debug_vision(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::string text_path = arguments.path(arguments.argument(0, "path")),
                    vision_path = arguments.path(arguments.argument(1, "visionPath"));
  const LoadOptions options = read_load_options(arguments, arguments.argument(2, "options"));
  const std::string prompt = arguments.string(arguments.argument(3, "prompt"), kMaxPromptBytes);
  const Named list = arguments.argument(4, "images");
  std::vector<DebugImage> images(arguments.array_length(list, kMaxDebugImages));
  for (uint32_t i = 0; i < images.size() && arguments.ok(); ++i) {
    const Named image = arguments.element(list, i);
    images[i].width = static_cast<int>(arguments.integer(arguments.field(image, "width"), 1, kMaxDebugSide));
    images[i].height = static_cast<int>(arguments.integer(arguments.field(image, "height"), 1, kMaxDebugSide));
    const Named pixels = arguments.field(image, "pixels");
    const std::span<const uint8_t> bytes = arguments.uint8_array(pixels, size_t{1} << 31);
    if (arguments.ok() &&
        bytes.size() != static_cast<size_t>(images[i].width) * static_cast<size_t>(images[i].height) * 3)
      arguments.reject(pixels, "must have width * height * 3 bytes");
    images[i].pixels.assign(bytes.begin(), bytes.end());
  }
  const auto continue_tokens =
      static_cast<int>(arguments.integer(arguments.argument(5, "continueTokens"), 0, kMaxContinued));
  if (!arguments.ok()) return info.Env().Undefined();
  return promise_of(
      info.Env(),
      [=, images = std::move(images)]() -> Result<Answer> {
        auto backend = make_backend(options.backend);
        if (!backend) return backend.error();
        auto vision =
            debug_vision(text_path, options.file(), vision_path, **backend, prompt, images, options.vision_resize);
        if (!vision) return vision.error();
        Answer answer{std::move(*vision), {}};
        if (continue_tokens == 0) return answer;
        // A backend keeps the memory that it allocates, so the text model gets its own backend, with working memory of
        // the right size.
        auto other = make_backend(options.backend);
        if (!other) return other.error();
        const DebugVisionLogitsOptions debug{.kv_type = options.kv_type,
                                             .max_batch_tokens = for_backend(options, **other).engine.max_batch_tokens,
                                             .file = options.file()};
        auto logits = debug_vision_logits(text_path, **other, debug, answer.vision, continue_tokens);
        if (!logits) return logits.error();
        answer.logits = std::move(*logits);
        return answer;
      },
      [](Napi::Env env, Answer&& answer) { return to_value(env, answer); });
}

}  // namespace monolith::addon
