// Shows, stage by stage, how a text model and a vision encoder file process a prompt with images, for comparison with
// other engines. Each call uses its own model instances. Not optimized for speed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/result.h"
#include "formats/hf/model_file.h"
#include "vision/vision.h"

namespace monolith {

// A decoded RGB image: height * width * 3 bytes.
struct DebugImage {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

// A run of tokens in the decoder's input, or one image tile.
struct DebugVisionEntry {
  int position = 0;             // RoPE position of the entry's first token or row.
  std::vector<int32_t> tokens;  // Empty if the entry is an image tile.
  int image = 0;
  ImagePiece piece;
  ContentHash hash;
  std::string pixels_u8_sha256, pixels_f32_sha256;
  std::vector<float> embeddings;  // The tile's image embeddings, shape [piece.n_rows][row_width].
};

struct DebugVision {
  struct Grid {
    int columns, rows;
  };
  std::vector<Grid> grids;  // Tile grid of each image.
  std::vector<DebugVisionEntry> sequence;
  int64_t row_width = 0;
  int n_tokens = 0, next_position = 0;
};

// `prompt` has "<__media__>" at the position of each image; special tokens in it are recognized. The text segments
// between images are tokenized separately; only the first gets the special tokens that the file prescribes. `resize`:
// resizing method; if empty, the method that resize_of() returns. Errors: kInvalidArgument if the number of images
// differs from the number of markers in the prompt, or if the vision encoder does not fit the text model; also errors
// in either file, which start with its path.
Result<DebugVision> debug_vision(const std::string& text_path, const ModelFileOptions& text_file,
                                 const std::string& vision_path, Backend& backend, const std::string& prompt,
                                 const std::vector<DebugImage>& images,
                                 std::optional<VisionResize> resize = std::nullopt);

}  // namespace monolith
