// What a pair of a text model and a vision file makes of a prompt with pictures, stage by stage: for those who compare
// engines. One run at a time, on a backend of its own. Slow callers only.
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

// Decoded: height * width * 3 bytes.
struct DebugImage {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

// Tokens of the decoder's input, or one piece of a picture.
struct DebugVisionEntry {
  int position = 0;             // of the position counter before it
  std::vector<int32_t> tokens;  // empty: a piece
  int image = 0;
  ImagePiece piece;
  ContentHash hash;
  std::string pixels_u8_sha256, pixels_f32_sha256;
  std::vector<float> embeddings;  // [piece.n_rows][row_width]
};

struct DebugVision {
  struct Grid {
    int columns, rows;
  };
  std::vector<Grid> grids;  // of each image
  std::vector<DebugVisionEntry> sequence;
  int64_t row_width = 0;
  int n_tokens = 0, next_position = 0;
};

// `prompt` has "<__media__>" where each picture comes; special tokens in it are recognized. Text between pictures is
// tokenized apart, the beginning with what the file says to add.
// `resize`: whose way of making pieces; nothing: as resize_of() says.
// Errors: kInvalidArgument (pictures and their places differ in number, or the pair does not fit), and those of the files,
// which begin with the path.
Result<DebugVision> debug_vision(const std::string& text_path, const ModelFileOptions& text_file,
                                 const std::string& vision_path, Backend& backend, const std::string& prompt,
                                 const std::vector<DebugImage>& images,
                                 std::optional<VisionResize> resize = std::nullopt);

}  // namespace monolith
