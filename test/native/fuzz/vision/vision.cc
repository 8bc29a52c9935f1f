// Fuzz target: any GGUF file is either rejected as a vision encoder with a message, or can be used. In the latter case,
// images of any size can be planned, small images can be cut into tiles, and small encoders can process these tiles.
// The input is the file's header, a separator, and byte pairs with the side lengths of images. The tensor data is
// generated.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "fuzz/gguf_mutator.h"
#include "fuzz/target.h"
#include "text/tokenizer/support.h"
#include "vision/vision.h"

using namespace monolith;
using namespace monolith::fuzzing;

namespace {
constexpr size_t kFilled = 256 << 10;    // Maximum bytes of tensor data per file.
constexpr int64_t kMaxPixels = 1 << 16;  // Maximum pixels in an image to be cut into tiles, and in the tiles.
constexpr size_t kMaxMemory = 32 << 20;  // Maximum memory of an encoder to evaluate, in bytes.
constexpr int64_t kMaxWork = int64_t{1} << (kSanitized ? 25 : 27);  // Maximum multiplications per tile.

// Runs the vision encoder with the portable kernels (`plain`), or with the kernels that this CPU would normally use.
void see(const GgufFile& file, const std::shared_ptr<const VisionModel>& model, const PreparedPiece& piece,
         int64_t n_rows, bool plain) {
  const auto backend = make_cpu_backend({.threads = 1, .isa = plain ? "plain" : "auto"}).value();
  const auto precision = plain ? VisionPrecision::kExact : VisionPrecision::kFast;
  if (VisionEncoder::weight_bytes(file, *model, *backend, precision) +
          VisionEncoder::work_bytes(file, *model, *backend, precision) >
      kMaxMemory)
    return;
  const auto encoder = VisionEncoder::load(file, model, *backend, precision);
  if (!encoder) return check_refusal(encoder.error());
  const auto run = (*encoder)->begin(piece);
  if (run->total() > kMaxWork) return;
  while (!run->advance(1 << 20)) continue;
  insist(static_cast<int64_t>(run->take_rows().size()) == n_rows * model->row_width(),
         "a part has as many embeddings as planned");
  ++n_reached();
}
}  // namespace

FUZZ_TARGET(vision) {
  const auto [head, sides] = halves(input);
  std::vector<std::byte> image(head.size() + kFilled, std::byte{0x3c});
  std::memcpy(image.data(), head.data(), head.size());
  const auto file = GgufFile::parse(image);
  if (!file) return;  // The `gguf` fuzz target covers files that the parser rejects.
  VisionBounds bounds;
  if (input.size() % 2) bounds.resize = VisionResize::kOriginal;
  if (input.size() % 3 == 0) bounds.max_tiles = 3;
  const auto model = VisionModel::load(**file, bounds);
  if (!model) return check_refusal(model.error());
  insist((*model)->row_width() > 0 && (*model)->most_rows() > 0 && (*model)->most_piece_pixels() > 0,
         "an encoder has embeddings");
  static const std::unique_ptr<const Tokenizer> tokenizer =
      testing::load(testing::VocabularyFile::byte_level({"< i", "i m"})).value();
  const auto fit = (*model)->fit({.architecture = "qwen3vl",
                                  .n_embd = (*model)->row_width(),
                                  .mrope = true,
                                  .n_deepstack = (*model)->n_deepstack(),
                                  .tokenizer = tokenizer.get()});
  if (!fit) check_refusal(fit.error());
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i + 1 < std::min<size_t>(sides.size(), 8); i += 2) {
    const auto side = [sides = sides](size_t at) {
      return static_cast<int8_t>(sides[at]) < 0 ? static_cast<uint8_t>(sides[at]) * 1009 - 140'000
                                                : static_cast<uint8_t>(sides[at]) + 1;
    };
    const int width = side(i), height = side(i + 1);
    const auto plan = (*model)->plan(width, height, {.overview_only = (i & 2) != 0});
    if (!plan) {
      check_refusal(plan.error());
      continue;
    }
    insist(width > 0 && height > 0, "an image is not empty");
    insist(!plan->pieces.empty() && plan->n_rows() > 0, "an image becomes embeddings");
    insist(plan->n_tokens() <= (*model)->most_tokens(), "no plan has more tokens than the most");
    int64_t work = int64_t{width} * height;
    for (const ImagePiece& piece : plan->pieces) {
      insist(piece.n_rows <= (*model)->most_rows(), "no part has more embeddings than the limit");
      insist(int64_t{piece.width} * piece.height <= (*model)->most_piece_pixels(),
             "no part has more pixels than the limit");
      work += int64_t{piece.width} * piece.height;
    }
    if (work > kMaxPixels || int64_t{plan->resized_width} * plan->resized_height > kMaxPixels) continue;
    pixels.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, static_cast<uint8_t>(i * 77));
    const auto prepared = (*model)->prepare(*plan, {width, height, pixels});
    if (!prepared) {
      check_refusal(prepared.error());
      continue;
    }
    insist(prepared->size() == plan->pieces.size(), "every part is prepared");
    see(**file, *model, prepared->back(), plan->pieces.back().n_rows, i % 4 != 0);
    for (const PreparedPiece& piece : *prepared)
      insist(piece.pixels.size() == static_cast<size_t>(piece.width) * static_cast<size_t>(piece.height) * 3,
             "a part has the size that it reports");
  }
}

FUZZ_MUTATOR(vision) {
  static GgufMutator gguf;
  return mutate_halves(input, gguf, chance);
}
