// The supported types of vision files, identified by projector type. All differences between the types are in one
// table, which has one entry per type. Constant data that any thread may read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace monolith {

enum class Projector : uint8_t {
  kIdefics3,
  kGemma3,
  kQwen2Vl,
  kQwen25Vl,
  kQwen3Vl,
  kPixtral,
  kInternVl,
  kMlp,
  kLfm2,
  kGemma4,
  kKimi25,
};

// How an image is split into parts.
enum class Sizing : uint8_t {
  kFixed,  // A single part of image_size x image_size.
  kSmart,  // A single part whose size depends on the image size.
  // The longer side is scaled to a fixed length, and the image is cut into tiles. An overview follows the tiles
  // (Idefics 3).
  kLongerSide,
  kCandidates,  // The best of several tile grids, followed by an overview (InternVL, LLaVA 1.6).
  kLfm2,        // Tiles for large images, followed by an overview whose size depends on the image size.
};

enum class Filter : uint8_t { kBilinear, kBicubic };

// Position embeddings of patches.
enum class PatchPositions : uint8_t {
  kNone,
  kLearned,   // One embedding per patch.
  kBilinear,  // The embeddings of a square grid, interpolated bilinearly with aligned corners.
  // The embeddings of a square grid, interpolated with a triangle filter, which becomes wider if there are fewer
  // patches than embeddings.
  kTriangle,
  kBicubic,    // The embeddings of a grid of any shape, interpolated bicubically with half-pixel centers, a = -0.75.
  kTwoTables,  // The sum of one embedding for the column and one for the row.
};

// How queries and keys are rotated (2D RoPE). d is the head dimension.
enum class PatchRotation : uint8_t {
  kNone,
  kQwen,  // Pairs (i, i + d/2): the first d/4 pairs rotate by row, all others by column.
  // Adjacent pairs: the first half of the head rotates by row, the second half by column. The second half's frequencies
  // lie between those of the first half.
  kPixtral,
  kGemma4,  // Splits each half of the head in two again: the first half rotates by column, the second by row.
  kKimi,    // Adjacent pairs: the first half rotates by column, the second by row.
};

struct ProjectorTraits {
  std::string_view name;  // Value of clip.projector_type.
  Projector projector;
  Sizing sizing;
  Filter filter = Filter::kBilinear;  // Filter for images that are padded to size; overviews are always bilinear.
  uint8_t pad[3] = {0, 0, 0};         // Padding color.
  std::string_view merge_key = {};    // Metadata key of the merge size: merge x merge patches become one embedding.
  int merge = 1;                      // Merge size if the key is missing.
  PatchPositions positions = PatchPositions::kLearned;
  PatchRotation rotation = PatchRotation::kNone;
  double rope_base = 10000;
  bool class_vector = false;   // A class token follows the patches. For kMlp: only if the file has one.
  bool rms = false;            // The encoder uses RMS norms, rather than layer norms with or without bias.
  bool bidirectional = false;  // In the decoder, the embeddings attend in both directions.
  bool mrope = false;
  // For encoders whose input size depends on the image: the minimum and maximum area, in squares with sides of patch *
  // merge pixels.
  int least = 0, most = 0;
  // Marker tokens before and after all embeddings; empty = no token.
  std::string_view before = {}, after = {};
};

// Returns null if `name` is not a known projector type.
const ProjectorTraits* projector_traits(std::string_view name);
// Returns all names, for use in messages: "a, b, c".
std::string projector_names();

}  // namespace monolith
