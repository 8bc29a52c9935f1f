// The public interface of the vision module: loading a vision encoder with its projector (GGUF "mmproj"), planning and
// preparing images for it, and running the encoder.
//
//   VisionModel::load     reads and checks the file's hyperparameters; no weights   any thread, once
//   VisionModel::fit      checks whether the file matches a text model              any thread, once
//   VisionModel::plan     image size -> parts, tokens, positions                    any thread; microseconds
//   VisionModel::prepare  plan and RGB -> the pixels of each part, and their hash   any thread; milliseconds
//   VisionEncoder::load   loads the weights into a backend's memory                 the loading thread
//   VisionEncoder::begin  a part -> a run that advance() computes step by step      the backend's thread
//
// A VisionModel is immutable. Formulas and golden test vectors follow llama.cpp's libmtmd (August 2026), so a file
// produces the same results as in llama.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/content_hash.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"
#include "vision/image_plan.h"

namespace monolith {

struct VisionParams;

// Selects the image preprocessing if there are two kinds: llama.cpp's, which users of GGUF files expect, and the one in
// the model's reference implementation (original_size.h, resample.h). Also determines which position embedding the
// class token uses.
enum class VisionResize : uint8_t { kLlamaCpp, kOriginal };

// Limits set by the operator. They cannot exceed the limits in the file. 0 = the file's limit.
struct VisionBounds {
  int64_t max_source_pixels = int64_t{1} << 27;  // Maximum size of an image as sent.
  int64_t max_pixels = 0;                        // Maximum size of a part whose size depends on the image.
  int max_tiles = 0;                             // Maximum number of tiles per image; the file's limit may be lower.
  VisionResize resize = VisionResize::kLlamaCpp;
};

// Options of a request.
struct PlanOptions {
  // Whether to use no tiles and, if sizes depend on the image, as few pixels as the file allows ("low" detail).
  bool overview_only = false;
};

// Properties of the text model's file that the vision file must match.
struct TextModelFacts {
  std::string_view architecture;  // Value of general.architecture.
  int64_t n_embd = 0;
  bool mrope = false;   // The model uses three-dimensional M-RoPE positions.
  int n_deepstack = 0;  // Number of deepstack features that the model adds after its first layers.
  const Tokenizer* tokenizer = nullptr;
};

// Token IDs, in a text model's vocabulary, of the markers that image plans put around images and between tiles.
class MarkerTokens {
 public:
  // Returns kNoToken if no plan uses the marker or the vocabulary does not contain it. Only markers for tiles far to
  // the right or at the bottom may be missing; images that need such a marker are rejected.
  TokenId id(std::string_view marker) const;

 private:
  friend class VisionModel;
  std::vector<std::pair<std::string, TokenId>> ids_;  // Pairs of name and ID.
};

// A decoded image: 8 bits each of red, green and blue, row by row without padding. There is no alpha channel, and gray
// values are stored in all three channels.
struct RgbImage {
  int width = 0, height = 0;
  std::span<const uint8_t> pixels;  // height * width * 3 bytes.
};

// The encoder input for one image part.
struct PreparedPiece {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;          // height * width * 3 bytes, after resizing, padding and cropping.
  std::optional<TiledRows> tiled = {};  // Layout of the views, copied from the plan.
  // A hash of the pixels, the image size, and the identity of the vision file (VisionParams::file). Equal hashes imply
  // equal embeddings.
  ContentHash hash;
};

class VisionModel {
 public:
  // Errors: kUnsupported (the projector type is unknown; the message contains it), kInvalidFile (the message names a
  // key or tensor that is missing, contradicts another one, or is out of range). `file` need not outlive the call.
  static Result<std::shared_ptr<const VisionModel>> load(const GgufFile& file, const VisionBounds& bounds);
  ~VisionModel();

  // Errors: kInvalidArgument, stating the mismatch: embedding size, positions, deepstack layers, or a missing marker
  // token.
  Result<MarkerTokens> fit(const TextModelFacts& text) const;

  // Errors: kInvalidArgument if a side is below 1, the image exceeds max_source_pixels, or its aspect ratio is so
  // extreme that it does not fit in any part of an allowed size.
  Result<ImagePlan> plan(int width, int height, const PlanOptions& options = {}) const;

  // Returns one PreparedPiece per part of the plan. Errors: kInvalidArgument (the image does not have the size in the
  // plan), kOutOfMemory.
  Result<std::vector<PreparedPiece>> prepare(const ImagePlan& plan, const RgbImage& image) const;
  // Returns the encoder's input, (byte / 255 - mean) / deviation with each step rounded to float32, as
  // [3][height][width]. Only for comparisons; encoders compute these values on the fly.
  std::vector<float> normalized(const PreparedPiece& piece) const;

  const VisionParams& params() const { return *params_; }
  std::string_view projector_type() const;  // As named in the file.
  int64_t row_width() const;                // ImagePlan::row_width, which is the same for every plan.
  int n_deepstack() const;
  int most_rows() const;    // Maximum number of embeddings in one part, over all plans.
  int most_tokens() const;  // Maximum number of tokens in a plan, including markers.
  int64_t most_piece_pixels() const;

 private:
  explicit VisionModel(std::unique_ptr<const VisionParams> params);
  std::unique_ptr<const VisionParams> params_;
};

// Arithmetic used with 16-bit weights.
enum class VisionPrecision : uint8_t {
  kFast,   // 16-bit integers with shared scales, if the device supports them; about as precise as 16-bit floats.
  kExact,  // 32-bit floats.
};

// The encoding of one image part. A run must not outlive its VisionEncoder, which can compute only one run at a time.
// Destroying an unfinished run cancels it.
class EncoderRun {
 public:
  virtual ~EncoderRun() = default;
  // Computes about `budget` more multiplications, but at least one indivisible unit of about 2^24. Calls begin_step()
  // and end_step() itself. Returns true when the run is complete. Results do not depend on the budgets.
  virtual bool advance(int64_t budget) = 0;
  // Return the remaining and the total work, in the same unit as `budget`.
  virtual int64_t left() const = 0;
  virtual int64_t total() const = 0;
  // Returns the embeddings, [n_rows][row_width]. May be called once, after advance() has returned true.
  virtual std::vector<float> take_rows() = 0;
};

// The vision encoder's weights and working memory on a backend.
class VisionEncoder {
 public:
  // Bytes of backend memory that load() will use for weights, and for the working memory of the largest image part. On
  // a CPU, only the pages of the working memory that are needed are touched.
  static size_t weight_bytes(const GgufFile& file, const VisionModel& model, Backend& backend,
                             VisionPrecision precision = VisionPrecision::kFast);
  static size_t work_bytes(const GgufFile& file, const VisionModel& model, Backend& backend,
                           VisionPrecision precision = VisionPrecision::kFast);
  // Errors: kInvalidFile (the message names a tensor that is missing or has the wrong shape), kUnsupported (the backend
  // does not support vision encoders), kOutOfMemory. `backend` must outlive the VisionEncoder; load() calls its
  // reserve().
  static Result<std::unique_ptr<VisionEncoder>> load(const GgufFile& file, std::shared_ptr<const VisionModel> model,
                                                     Backend& backend,
                                                     VisionPrecision precision = VisionPrecision::kFast);
  virtual ~VisionEncoder() = default;
  // `piece` must have been prepared by the same model, and must outlive the run. Only one run may exist at a time.
  virtual std::unique_ptr<EncoderRun> begin(const PreparedPiece& piece) = 0;
};

}  // namespace monolith
