#include "vision/vision_params.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/sha256.h"
#include "formats/gguf/parser.h"
#include "model/metadata_reader.h"
#include "vision/original_size.h"
#include "vision/encoder_weights.h"

namespace monolith {
namespace {

// Limits that are far above the values of any existing encoder, and low enough that products of the values cannot
// overflow.
constexpr int kMaxSide = 1 << 14, kMaxPatch = 256, kMaxWidth = 1 << 15, kMaxInner = 1 << 18, kMaxLayers = 512;
constexpr int kMaxHeadDim = 1024, kMaxMerge = 16, kMaxTiles = 256, kMaxCandidates = 4096;
constexpr int64_t kMaxPixels = int64_t{1} << 26;   // Maximum number of pixels in an image part.
constexpr int64_t kMaxResized = int64_t{1} << 27;  // Maximum number of pixels in all tiles together.
constexpr int kMaxPatches = 1 << 16;               // Maximum number of patches in an image part.

constexpr int kWindowPixels = 112;       // Qwen2.5-VL: a constant in the reference code; files do not contain it.
constexpr int64_t kGemma4Tokens = 1120;  // Gemma 4: the maximum that a folder may request.
constexpr int kLongerSides = 4;          // Idefics 3: default length of the longer side, in units of image_size.

Error invalid(std::string message) { return {ErrorCode::kInvalidFile, std::move(message)}; }
Error unsupported(std::string message) { return {ErrorCode::kUnsupported, std::move(message)}; }

// Identifies a vision file. The content hash of every prepared image part starts with this identity. The identity
// covers every metadata key and value, every tensor's name, type and shape, and tensor data: all data of a tensor of up
// to 4 KiB, otherwise 16 evenly spaced samples of 256 bytes. Hashing a file of any size therefore takes well under a
// second, but two files that differ in only a few weights may have the same identity.
ContentHash file_identity(const GgufFile& file) {
  constexpr size_t kWhole = 4096, kSample = 256, kSamples = 16;
  Sha256 hash;
  const auto add_text = [&](std::string_view text) {
    hash.add_number(text.size());
    hash.add(std::as_bytes(std::span(text)));
  };
  for (const auto& [key, value] : file.metadata()) {
    add_text(key);
    hash.add_number(static_cast<uint64_t>(value.type));
    hash.add_number(value.payload.size());
    hash.add(value.payload);
  }
  std::vector<std::byte> scratch;
  for (const GgufTensor& tensor : file.tensors()) {
    add_text(tensor.name);
    hash.add_number(static_cast<uint64_t>(tensor.type));
    for (const int64_t size : tensor.shape) hash.add_number(static_cast<uint64_t>(size));
    const size_t bytes = tensor.bytes();
    const std::span<const std::byte> data = tensor.source == nullptr || bytes <= kWhole
                                                ? file.read(tensor, 0, bytes, scratch)
                                                : std::span<const std::byte>{};
    if (data.size() <= kWhole) {
      hash.add(data);
      continue;
    }
    for (size_t i = 0; i < kSamples; ++i) hash.add(data.subspan(i * (data.size() - kSample) / (kSamples - 1), kSample));
  }
  return hash.content();
}

class Reader {
 public:
  Reader(const GgufFile& file, VisionParams& params) : file_(file), params_(params) {}

  Status read() {
    if (Status s = read_type(); !s) return s;
    if (Status s = read_sizes(); !s) return s;
    if (Status s = read_arithmetic(); !s) return s;
    if (Status s = read_sizing(); !s) return s;
    return check_pieces();
  }

 private:
  // Reads an integer metadata value into `to`, or returns the error. `low` must not be negative.
  Status integer(std::string_view key, int64_t low, int64_t high, int& to,
                 std::optional<int64_t> fallback = std::nullopt) {
    Result<int> value = vision_.integer(key, low, high, fallback);
    if (!value) return value.error();
    to = *value;
    return {};
  }

  Status read_type() {
    std::string_view name;
    for (const char* key : {"clip.vision.projector_type", "clip.projector_type"}) {
      auto value = file_.string(key);
      if (!value) return value.error();
      if (*value && name.empty()) name = **value;
    }
    if (name.empty()) {
      const auto architecture = file_.string("general.architecture");
      if (architecture && *architecture && **architecture != "clip")
        return invalid("general.architecture is " + in_quotes(**architecture) +
                       ": this is not a vision file (mmproj, architecture \"clip\")");
      return invalid("clip.projector_type is missing");
    }
    params_.traits = projector_traits(name);
    if (params_.traits == nullptr)
      return unsupported("clip.projector_type is " + in_quotes(name) + "; this build supports " + projector_names());
    if (vision_.has("feature_layer")) return unsupported("clip.vision.feature_layer is not supported");
    return {};
  }

  Status read_sizes() {
    const ProjectorTraits& traits = *params_.traits;
    if (Status s = integer("image_size", 1, kMaxSide, params_.image_size); !s) return s;
    if (Status s = integer("patch_size", 1, kMaxPatch, params_.patch_size); !s) return s;
    if (Status s = integer("embedding_length", 1, kMaxWidth, params_.width); !s) return s;
    if (Status s = integer("feed_forward_length", 1, kMaxInner, params_.n_ff); !s) return s;
    if (Status s = integer("block_count", 1, kMaxLayers, params_.n_file_layers); !s) return s;
    if (Status s = integer("attention.head_count", 1, params_.width, params_.n_heads); !s) return s;
    if (params_.width % params_.n_heads != 0 || params_.head_dim() > kMaxHeadDim)
      return invalid("clip.vision.attention.head_count is " + std::to_string(params_.n_heads) +
                     ", which does not divide " + std::to_string(params_.width) + " dimensions into heads of at most " +
                     std::to_string(kMaxHeadDim));
    if (traits.rotation != PatchRotation::kNone && params_.head_dim() % 4 != 0)
      return invalid("head dimension is " + std::to_string(params_.head_dim()) +
                     ", but two-dimensional RoPE requires a multiple of 4");
    // LLaVA uses either CLIP encoders, which have a class token, or SigLIP encoders, which have none.
    params_.class_vector =
        traits.class_vector && (traits.projector != Projector::kMlp || file_.tensor("v.class_embd") != nullptr);
    params_.merge = traits.merge;
    if (!traits.merge_key.empty())
      if (Status s = integer(traits.merge_key, 1, kMaxMerge, params_.merge, traits.merge); !s) return s;
    // The last layer of the encoder is not used by LLaVA.
    params_.n_layers = params_.n_file_layers - (traits.projector == Projector::kMlp ? 1 : 0);
    if (traits.projector == Projector::kQwen25Vl) {
      if (Status s = integer("n_wa_pattern", 0, kMaxLayers, params_.full_every); !s) return s;
      params_.window_blocks = kWindowPixels / params_.factor();
      if (params_.full_every > 0 && params_.window_blocks < 1)
        return unsupported("clip.vision.patch_size is " + std::to_string(params_.patch_size) + ": a window of " +
                           std::to_string(kWindowPixels) + " pixels is smaller than a merge block");
    }
    return {};
  }

  Status read_arithmetic() {
    const Result<double> eps = vision_.number("attention.layer_norm_epsilon", 0, 1);
    if (!eps) return eps.error();
    params_.eps = static_cast<float>(*eps);
    const MetadataReader clip(file_, "clip");
    const Result<bool> gelu = clip.boolean("use_gelu", false), silu = clip.boolean("use_silu", false);
    if (!gelu) return gelu.error();
    if (!silu) return silu.error();
    if (*gelu && *silu) return invalid("clip.use_gelu and clip.use_silu are both set");
    params_.activation = *gelu ? Activation::kGelu : *silu ? Activation::kSilu : Activation::kQuickGelu;
    for (const auto& [key, to] : {std::pair{"image_mean", &params_.mean}, std::pair{"image_std", &params_.deviation}}) {
      const auto values = vision_.numbers(key, 3, -1e6, 1e6);
      if (!values) return values.error();
      std::ranges::transform(values->begin(), values->begin() + 3, to->begin(),
                             [](double v) { return static_cast<float>(v); });
    }
    if (std::ranges::find(params_.deviation, 0.0f) != params_.deviation.end())
      return invalid("clip.vision.image_std contains a zero");
    return {};
  }

  Status read_sizing() {
    const ProjectorTraits& traits = *params_.traits;
    params_.sizing = traits.sizing;
    const int64_t square = int64_t{params_.factor()} * params_.factor(), size = params_.image_size;
    params_.least_pixels = traits.least * square;
    params_.most_pixels = traits.most * square;
    if (params_.original() && traits.projector == Projector::kPixtral) {
      const int64_t side = (size + params_.factor() - 1) / params_.factor() * params_.factor();
      params_.most_pixels = std::min(side * side, kMaxPixels);
    }
    const Result<bool> folder = vision_.boolean("from_folder", false);
    if (!folder) return folder.error();
    if (*folder && has_sizes_in_folders(traits.projector)) {
      // A folder may specify a smaller value than the default, but not a larger one. Gemma 4 is an exception, because
      // its default is not the maximum.
      const int64_t most = traits.projector == Projector::kGemma4 ? kGemma4Tokens * square : params_.most_pixels;
      if (Status s = folder_pixels("image_max_pixels", square, most, params_.most_pixels); !s) return s;
      if (Status s = folder_pixels("image_min_pixels", 1, params_.most_pixels, params_.least_pixels); !s) return s;
    }
    if (traits.projector == Projector::kKimi25) {
      for (const auto& [key, to] : {std::pair{"image_min_pixels", &params_.least_pixels},
                                    std::pair{"image_max_pixels", &params_.most_pixels}}) {
        const Result<int> value = vision_.integer(key, square, kMaxPixels, std::clamp(*to, square, kMaxPixels));
        if (!value) return value.error();
        *to = *value;
      }
    }
    if (params_.bounds.max_pixels > 0)
      params_.most_pixels = std::max(square, std::min(params_.most_pixels, params_.bounds.max_pixels));
    params_.least_pixels = std::min(params_.least_pixels, params_.most_pixels);
    const int allowed = params_.bounds.max_tiles > 0 ? std::min(params_.bounds.max_tiles, kMaxTiles) : kMaxTiles;
    if (params_.sizing == Sizing::kLongerSide) {
      const int64_t usual = std::min<int64_t>(kLongerSides * size, kMaxSide);
      if (Status s = integer("preproc_image_size", 1, kMaxSide, params_.longer_side, usual); !s) return s;
      int sides = static_cast<int>((params_.longer_side + size - 1) / size);
      while (sides > 1 && sides * sides > allowed) --sides;
      params_.longer_side = static_cast<int>(std::min<int64_t>(params_.longer_side, sides * size));
      params_.max_tiles = (sides + 1) * (sides + 1);  // Rounding up may add a row or a column.
    }
    if (params_.sizing == Sizing::kLfm2) params_.max_tiles = std::min(10, allowed);
    if (traits.projector == Projector::kInternVl) {
      int most = 0;
      if (Status s = integer("preproc_max_tiles", 1, kMaxTiles, most, 12); !s) return s;
      if (Status s = integer("preproc_min_tiles", 1, most, params_.min_tiles, 1); !s) return s;
      most = std::min(most, allowed);
      params_.min_tiles = std::min(params_.min_tiles, most);
      // The reference implementation applies min_tiles to the total number of tiles. llama.cpp, which defines this key,
      // applies it to rows and columns separately.
      const int64_t least = params_.original() ? 1 : params_.min_tiles;
      for (int64_t a = least; a <= most; ++a)
        for (int64_t b = std::max(least, (params_.min_tiles + a - 1) / a); a * b <= most; ++b)
          params_.candidates.emplace_back(static_cast<int>(a * size), static_cast<int>(b * size));
    }
    if (traits.projector == Projector::kMlp && vision_.has("image_grid_pinpoints"))
      if (Status s = read_pinpoints(allowed); !s) return s;
    for (const auto& [width, height] : params_.candidates)
      params_.max_tiles = std::max(params_.max_tiles, static_cast<int>(width / size * (height / size)));
    if (!params_.candidates.empty()) params_.sizing = Sizing::kCandidates;
    return {};
  }

  static bool has_sizes_in_folders(Projector projector) {
    return projector == Projector::kQwen2Vl || projector == Projector::kQwen25Vl || projector == Projector::kQwen3Vl ||
           projector == Projector::kLfm2 || projector == Projector::kGemma4;
  }

  Status folder_pixels(std::string_view key, int64_t low, int64_t high, int64_t& to) {
    if (!vision_.has(key)) return {};
    const auto value = file_.unsigned_integer(vision_.key(key));
    if (!value) return value.error();
    to = static_cast<int64_t>(
        std::clamp<uint64_t>(value->value_or(0), static_cast<uint64_t>(low), static_cast<uint64_t>(high)));
    return {};
  }

  Status read_pinpoints(int allowed) {
    const std::string key = "clip.vision.image_grid_pinpoints";
    const auto found = file_.integers(key);
    if (!found) return found.error();
    const std::vector<int64_t> values = *found ? **found : std::vector<int64_t>{};
    if (values.size() % 2 != 0 || values.size() > 2 * kMaxCandidates)
      return invalid(key + " has " + std::to_string(values.size()) +
                     " values, expected pairs; the maximum number of pairs is " + std::to_string(kMaxCandidates));
    // The file is treated as LLaVA 1.6 even if the operator's limits rule out all of its tile grids. In that case, only
    // the overview is used.
    if (!values.empty()) params_.sizing = Sizing::kCandidates;
    params_.ends_rows = params_.original() && !values.empty();
    for (size_t i = 0; i < values.size(); i += 2) {
      const int64_t width = values[i], height = values[i + 1], size = params_.image_size;
      if (width < size || height < size || width > kMaxSide || height > kMaxSide || width % size != 0 ||
          height % size != 0)
        return invalid(key + "[" + std::to_string(i) + "] is " + std::to_string(width) + " x " +
                       std::to_string(height) + ", expected multiples of " + std::to_string(size) + " up to " +
                       std::to_string(kMaxSide));
      if (width / size * (height / size) <= allowed)
        params_.candidates.emplace_back(static_cast<int>(width), static_cast<int>(height));
    }
    return {};
  }

  Status check_pieces() {
    const int side = params_.side_patches();
    const int64_t fixed = int64_t{params_.image_size} * params_.image_size;
    const bool follows = params_.sizing == Sizing::kSmart || params_.sizing == Sizing::kLfm2;
    if (!follows && (side < 1 || side % params_.merge != 0))
      return unsupported("clip.vision.image_size of " + std::to_string(params_.image_size) + " pixels gives " +
                         std::to_string(side) + " patches per side, which is not a multiple of the merge size " +
                         std::to_string(params_.merge));
    if (params_.sizing == Sizing::kLfm2 && kLfm2Tile % params_.factor() != 0)
      return unsupported("tiles of " + std::to_string(kLfm2Tile) +
                         " pixels are not a multiple of the merge block size of " + std::to_string(params_.factor()));
    // When an image is enlarged, its sides are rounded up, so its area may exceed the minimum.
    int64_t most = follows ? std::max(params_.most_pixels, 4 * params_.least_pixels) : fixed;
    // An image of a x b whole patches within the limit takes up to (a + merge + 1) x (b + merge + 1) patches after
    // padding to whole merge blocks.
    if (params_.original() && params_.traits->projector == Projector::kKimi25)
      most +=
          int64_t{params_.merge + 1} * (2 * kKimiSide + params_.merge + 1) * params_.patch_size * params_.patch_size;
    if (params_.sizing == Sizing::kLfm2) most = std::max(most, int64_t{kLfm2Tile} * kLfm2Tile);
    const int64_t patches = most / (int64_t{params_.patch_size} * params_.patch_size);
    if (most > kMaxPixels || patches > kMaxPatches)
      return unsupported("image part of " + std::to_string(most) + " pixels has " + std::to_string(patches) +
                         " patches, more than the maximum of " + std::to_string(kMaxPatches));
    const int64_t tiles =
        params_.max_tiles * (params_.sizing == Sizing::kLfm2 ? int64_t{kLfm2Tile} * kLfm2Tile : fixed);
    if (tiles > kMaxResized)
      return unsupported("images would be resized to " + std::to_string(tiles) +
                         " pixels before they are cut into tiles, more than the maximum of " +
                         std::to_string(kMaxResized));
    params_.most_piece_pixels = params_.ends_rows ? most * (1 + params_.max_tiles) : most;
    params_.most_patches = static_cast<int>(patches);
    return {};
  }

  const GgufFile& file_;
  VisionParams& params_;
  const MetadataReader vision_{file_, "clip.vision"};
};

}  // namespace

Result<VisionParams> VisionParams::read(const GgufFile& file, const VisionBounds& bounds) {
  VisionParams params;
  params.bounds = bounds;
  if (Status s = Reader(file, params).read(); !s) return s.error();
  if (Status s = check_encoder_tensors(file, params); !s) return s.error();
  params.file = file_identity(file);
  // With the reference preprocessing, the file gets a different identity, because equal pixels may have different
  // positions with it.
  if (params.original()) params.file.low ^= 1;
  return params;
}

}  // namespace monolith
