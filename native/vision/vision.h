// The public face of the room that sees: a file of a vision tower and its projector (GGUF "mmproj"), what becomes of a
// picture under it, and the tower's run over the pieces.
//
//   VisionModel::load     the file's hyper-parameters, checked; no weights        any thread, once
//   VisionModel::fit      does it belong to this text model                       any thread, once
//   VisionModel::plan     size of a picture -> pieces, tokens, positions          any thread; microseconds
//   VisionModel::prepare  plan and RGB -> the bytes of each piece, and its hash   any thread; milliseconds
//   VisionTower::load     weights, in a backend's memory                          the loading thread
//   VisionTower::begin    a piece -> a run, which advance() computes bit by bit   the backend's thread
//
// A VisionModel is immutable. Formulas and golden vectors follow llama.cpp's libmtmd (August 2026), so that a file sees
// here what it sees there.
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

// Whose way of making pieces of a picture, where the two differ: llama.cpp's, which GGUF files' users see everywhere, or that of
// the programs of the model's makers (original_size.h, resample.h; also in which order a class vector has its position).
enum class VisionResize : uint8_t { kLlamaCpp, kOriginal };

// What the operator allows, within what the file says. 0: as the file has it.
struct VisionBounds {
  int64_t max_source_pixels = int64_t{1} << 27;  // of a picture as it was sent
  int64_t max_pixels = 0;                        // of a piece whose size follows the picture's
  int max_tiles = 0;                             // of a picture; fewer where the file says so
  VisionResize resize = VisionResize::kLlamaCpp;
};

// What a request asks for.
struct PlanOptions {
  // no tiles; where size follows the picture's, as few pixels as the file allows ("low" detail)
  bool overview_only = false;
};

// What a pair has to agree on, as the text model's file has it.
struct TextModelFacts {
  std::string_view architecture;  // general.architecture
  int64_t n_embd = 0;
  bool mrope = false;   // positions of three numbers
  int n_deepstack = 0;  // parts that it adds behind its first layers
  const Tokenizer* tokenizer = nullptr;
};

// The tokens that plans name, in a text model's vocabulary.
class MarkerTokens {
 public:
  // kNoToken if no plan names it, or the vocabulary has no such token: only of tiles that lie far to the right or below. A
  // picture that needs one is refused.
  TokenId id(std::string_view marker) const;

 private:
  friend class VisionModel;
  std::vector<std::pair<std::string, TokenId>> ids_;  // by name
};

// A decoded picture: 8 bits each of red, green and blue, row by row without gaps. Alpha dropped, grey three times.
struct RgbImage {
  int width = 0, height = 0;
  std::span<const uint8_t> pixels;  // height * width * 3
};

// What the tower is given of one piece.
struct PreparedPiece {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;          // height * width * 3, resized, padded, cut
  std::optional<TiledRows> tiled = {};  // the plan's
  // Of these pixels, their shape, and the tower's file (its metadata and weights): equal only for equal embeddings.
  ContentHash hash;
};

class VisionModel {
 public:
  // Errors: kUnsupported (a projector this build does not know, by name), kInvalidFile (a key or tensor that is missing,
  // contradicts another, or is out of bounds, by name). `file` is not kept.
  static Result<std::shared_ptr<const VisionModel>> load(const GgufFile& file, const VisionBounds& bounds);
  ~VisionModel();

  // Errors: kInvalidArgument says what differs: width, positions, deepstack parts, or a marker token that is missing.
  Result<MarkerTokens> fit(const TextModelFacts& text) const;

  // Errors: kInvalidArgument: a side below 1, more than max_source_pixels, or sides so unequal that no piece of the
  // allowed size holds them.
  Result<ImagePlan> plan(int width, int height, const PlanOptions& options = {}) const;

  // One PreparedPiece per piece of the plan. Errors: kInvalidArgument (the image is not of the plan's size),
  // kOutOfMemory.
  Result<std::vector<PreparedPiece>> prepare(const ImagePlan& plan, const RgbImage& image) const;
  // The tower's input: (byte / 255 - mean) / deviation, each step rounded to float32: [3][height][width]. For comparisons;
  // towers compute it as they go.
  std::vector<float> normalized(const PreparedPiece& piece) const;

  const VisionParams& params() const { return *params_; }
  std::string_view projector_type() const;  // as the file names it
  int64_t row_width() const;                // ImagePlan::row_width of every plan
  int n_deepstack() const;
  int most_rows() const;    // of one piece of any plan
  int most_tokens() const;  // of any plan: rows and markers
  int64_t most_piece_pixels() const;

 private:
  explicit VisionModel(std::unique_ptr<const VisionParams> params);
  std::unique_ptr<const VisionParams> params_;
};

// How towers compute with weights of 16 bits.
enum class VisionPrecision : uint8_t {
  kFast,   // in 16-bit integers with shared steps, where the device has them: about as exact as floats of 16 bits
  kExact,  // in floats of 32 bits
};

// One piece on its way through the tower. Lives no longer than its tower, which computes one at a time; destroying it
// before its end is how it is cancelled.
class TowerRun {
 public:
  virtual ~TowerRun() = default;
  // Computes on, about `budget` multiplications (at least one indivisible part, some 2^24 of them), between begin_step()
  // and end_step() of its own. True: all is computed. Results do not depend on the budgets.
  virtual bool advance(int64_t budget) = 0;
  // What is left, in the same unit, and what there was in the beginning.
  virtual int64_t left() const = 0;
  virtual int64_t total() const = 0;
  // [n_rows][row_width], once advance() has returned true; taken once.
  virtual std::vector<float> take_rows() = 0;
};

// A tower's weights and working memory on a backend.
class VisionTower {
 public:
  // Bytes that load() will take of the backend's memory: weights, and the working memory of the largest piece (on a
  // processor that is touched only as far as pieces need it).
  static size_t weight_bytes(const GgufFile& file, const VisionModel& model, Backend& backend,
                             VisionPrecision precision = VisionPrecision::kFast);
  static size_t work_bytes(const GgufFile& file, const VisionModel& model, Backend& backend,
                           VisionPrecision precision = VisionPrecision::kFast);
  // Errors: kInvalidFile (a tensor is missing or of the wrong shape, by name), kUnsupported (the backend computes no
  // towers), kOutOfMemory. `backend` outlives the tower; load() calls its reserve().
  static Result<std::unique_ptr<VisionTower>> load(const GgufFile& file, std::shared_ptr<const VisionModel> model,
                                                   Backend& backend,
                                                   VisionPrecision precision = VisionPrecision::kFast);
  virtual ~VisionTower() = default;
  // `piece` is one that the model prepared, and stays alive as long as the run. Only one run exists at a time.
  virtual std::unique_ptr<TowerRun> begin(const PreparedPiece& piece) = 0;
};

}  // namespace monolith
