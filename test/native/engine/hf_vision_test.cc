// Compares vision models' Hugging Face directories with the pairs of GGUF files that they were made from. Tokens, tiles
// and positions are equal, and pixels, embeddings and logits are bit-identical. Images are resized both as in llama.cpp
// and as in the original processors.
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "engine/debug/debug_vision_logits.h"
#include "formats/hf/folder.h"
#include "support/hf_folder.h"
#include "support/vision_folder.h"

namespace monolith {
namespace {

using namespace testing;

constexpr const char* kPrompt = "Look: <__media__> and <__media__>, which?";

std::vector<DebugImage> pictures() {
  std::vector<DebugImage> images;
  for (const char* const name : {"shapes.png", "grey.png"}) {
    auto picture = vision_picture(name);
    if (picture) images.push_back({picture->width, picture->height, std::move(picture->rgb)});
  }
  return images;
}

struct Seen {
  DebugVision vision;
  std::vector<float> logits;
};

std::optional<Seen> look(const std::string& what, const std::string& text, const std::string& encoder, Backend& backend,
                         VisionResize resize) {
  auto vision = debug_vision(text, {}, encoder, backend, kPrompt, pictures(), resize);
  if (!vision) return check::fail(__FILE__, __LINE__, what + ": " + vision.error().message), std::nullopt;
  auto other = make_cpu_backend({.threads = 2, .arithmetic = Arithmetic::kExact});
  auto logits = debug_vision_logits(text, **other, {.kv_type = KvType::kF32}, *vision, 1);
  if (!logits) return check::fail(__FILE__, __LINE__, what + ": " + logits.error().message), std::nullopt;
  return Seen{std::move(*vision), std::move(logits->logits)};
}

void compare(const std::string& what, const Seen& want, const Seen& got) {
  const auto fail = [&](const std::string& stage) { check::fail(__FILE__, __LINE__, what + ": " + stage); };
  if (want.vision.sequence.size() != got.vision.sequence.size()) return fail("tiles");
  for (size_t i = 0; i < want.vision.sequence.size(); ++i) {
    const DebugVisionEntry &a = want.vision.sequence[i], &b = got.vision.sequence[i];
    if (a.tokens != b.tokens) return fail("tokens");
    if (a.position != b.position || a.piece.n_rows != b.piece.n_rows || a.piece.bidirectional != b.piece.bidirectional)
      return fail("places");
    if (a.pixels_u8_sha256 != b.pixels_u8_sha256) return fail("pixels");
    if (a.pixels_f32_sha256 != b.pixels_f32_sha256) return fail("colors");
    if (a.embeddings != b.embeddings) return fail("embeddings");
  }
  if (want.logits.empty() || want.logits != got.logits) fail("logits");
}

}  // namespace

TEST(folders_of_vision_models_match_their_gguf_pairs) {
  if (vision_path("models/gemma3.mmproj.gguf").empty())
    return check::skip("no vision vectors: set $MONOLITH_VISION (docs/internals/performance.md)");
  for (const VisionFolder& one : vision_folders()) {
    const auto cases = vision_cases(one.pair);
    REQUIRE(cases.has_value());
    const auto text = GgufFile::open(vision_path("models/" + (*cases)["text_model"].string()));
    const auto encoder = GgufFile::open(vision_path("models/" + (*cases)["mmproj"].string()));
    REQUIRE(text.ok() && encoder.ok());
    const VisionPairFiles files;
    write_vision_folder(one, **text, **encoder, files);
    auto backend = make_cpu_backend({.threads = 2, .arithmetic = Arithmetic::kExact});
    REQUIRE(backend.ok());
    std::optional<Seen> by_file;
    for (const VisionResize resize : {VisionResize::kLlamaCpp, VisionResize::kOriginal}) {
      const bool original = resize == VisionResize::kOriginal;
      const std::string what = std::string(one.name) + " of " + one.pair +
                               (original ? ", resized as in the original processor" : ", resized as in llama.cpp");
      const auto want = look(what, files.text(), files.encoder(), **backend, resize);
      const auto got =
          look(what, one.whole ? files.folder.path() : files.text(), files.folder.path(), **backend, resize);
      if (!want || !got) continue;
      compare(what, *want, *got);
      // For Hugging Face directories, the default is the original resizing.
      if (original) by_file = want;
    }
    const auto unsaid = debug_vision(one.whole ? files.folder.path() : files.text(), {}, files.folder.path(), **backend,
                                     kPrompt, pictures());
    if (!unsaid) check::fail(__FILE__, __LINE__, unsaid.error().message);
    if (unsaid && by_file) compare(std::string(one.name) + ", unsaid", *by_file, {*unsaid, by_file->logits});
  }
}

// Replaces each number in the files of every kind of directory with an invalid one. If the changed directory can still
// be parsed, the test loads its vision file.
TEST(invalid_numbers_in_vision_folders_are_rejected_or_harmless) {
  size_t n_read = 0, n_refused = 0;
  for (const VisionFolder& one : vision_folders()) {
    const ScratchFolder folder;
    folder.write("tokenizer.json", R"({"added_tokens":[{"id":3,"content":"[IMG_BREAK]"}]})");
    folder.write("model.safetensors",
                 safetensors_of({{"model.embed_tokens.weight", "F32", {4, 2}, std::string(32, 'a')}}));
    const std::string texts[] = {
        "{\"architectures\":[" + json_text(one.name) + "],\"text_config\":{}," + one.config + "}",
        "{" + one.processor + "}"};
    const char* const names[] = {"config.json", "preprocessor_config.json"};
    for (size_t changed = 0; changed < 2; ++changed)
      for (size_t at = 0; (at = texts[changed].find_first_of("0123456789", at)) != std::string::npos;) {
        const size_t end = texts[changed].find_first_not_of("0123456789.e-", at);
        if (const char before = texts[changed][at - 1];
            before == ':' || before == '[' || before == ',' || before == '-')
          for (const char* const value :
               {"0", "-1", "1048576", "2147483647", "4611686018427387904", "1e300", "[]", "\"7\""}) {
            std::string text = texts[changed];
            text.replace(at, end - at, value);
            folder.write(names[changed], text);
            folder.write(names[1 - changed], texts[1 - changed]);
            const auto file = hf::open_vision_folder(folder.path());
            if (!file) {
              CHECK(file.error().message.starts_with(folder.path()));
              ++n_refused;
              continue;
            }
            // The vision file has no tensors, so loading must fail.
            for (const VisionResize resize : {VisionResize::kOriginal, VisionResize::kLlamaCpp})
              CHECK(!VisionModel::load(**file, {.resize = resize}).ok());
            ++n_read;
          }
        at = end;
      }
  }
  CHECK(n_refused > 1000 && n_read > 300);
}

}  // namespace monolith
