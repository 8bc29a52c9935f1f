// The kinds of vision files there are, by their projector, and in what they differ: one entry each, as far as a table can
// say it. Pure data; any thread.
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

// How pictures become pieces.
enum class Sizing : uint8_t {
  kFixed,       // one piece of image_size x image_size
  kSmart,       // one piece whose size follows the picture's
  kLongerSide,  // the longer side scaled to a length, cut into tiles, then an overview (Idefics 3)
  kCandidates,  // the best of some grids, cut into tiles, then an overview (InternVL, LLaVA 1.6)
  kLfm2,        // tiles for large pictures, and an overview whose size follows the picture's
};

enum class Filter : uint8_t { kBilinear, kBicubic };

// Where the vectors come from that tell patches where they are.
enum class PatchPositions : uint8_t {
  kNone,
  kLearned,    // one for each patch
  kBilinear,   // those of a square grid, interpolated: corners aligned
  kTriangle,   // likewise, with a triangle filter that widens where there are fewer patches than vectors
  kBicubic,    // those of any grid: half-pixel centres, a = -0.75
  kTwoTables,  // one by column and one by row, added
};

// How queries and keys turn; d is the size of a head.
enum class PatchRotation : uint8_t {
  kNone,
  kQwen,  // pairs (i, i + d/2): the first d/4 by row, the next by column
  // neighbours: the first half of the head by row, the second by column at frequencies between the first's
  kPixtral,
  kGemma4,  // halves of halves: the first by column, the second by row
  kKimi,    // neighbours: the first half by column, the second by row
};

struct ProjectorTraits {
  std::string_view name;  // clip.projector_type
  Projector projector;
  Sizing sizing;
  Filter filter = Filter::kBilinear;  // of what is padded to its place; overviews are bilinear
  uint8_t pad[3] = {0, 0, 0};         // the colour around it
  std::string_view merge_key = {};    // patches of so many rows and columns become one row of embeddings
  int merge = 1;                      // where the key is absent
  PatchPositions positions = PatchPositions::kLearned;
  PatchRotation rotation = PatchRotation::kNone;
  double rope_base = 10000;
  bool class_vector = false;   // one row more, behind those of the patches; of kMlp where the file has one
  bool rms = false;            // the tower's norms are RMS norms; else LayerNorms, with a bias or without
  bool bidirectional = false;  // the decoder sees the rows in both directions
  bool mrope = false;
  // Of sizes that follow the picture's: pixels at least and at most, in squares of patch * merge.
  int least = 0, most = 0;
  // Tokens around all rows; empty: none.
  std::string_view before = {}, after = {};
};

// Null if `name` is none of them.
const ProjectorTraits* projector_traits(std::string_view name);
// All names, for messages: "a, b, c".
std::string projector_names();

}  // namespace monolith
