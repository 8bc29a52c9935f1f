// The vision vectors: llama.cpp's results at each stage for several images, for pairs of a text model and a vision
// file. Located in $MONOLITH_VISION, test/data/vision or ../shared/vision. For tests only.
#pragma once

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "support/golden.h"
#include "support/inflate.h"
#include "support/json.h"

namespace monolith::testing {

inline constexpr const char* kVisionPairs[] = {"idefics3", "gemma3",  "qwen25vl", "qwen3vl", "pixtral", "mistral3",
                                               "internvl", "llava15", "llava16",  "lfm2",    "gemma4v", "kimik25"};

// Returns an empty string if the file does not exist.
std::string vision_path(const std::string& relative);

std::vector<uint8_t> bytes_of_file(const std::string& path);

std::optional<Picture> vision_picture(const std::string& name);

std::optional<Json> vision_cases(const std::string& pair);

// Decodes base64 without padding, the form in which floats are encoded.
std::vector<uint8_t> bytes_from_base64(std::string_view text);

// The largest difference and the root mean square difference between the embeddings of one image part and the expected
// embeddings, in standard deviations of the expected embeddings of the case. Infinite if embeddings are missing.
struct EmbeddingError {
  double max = 0, rms = 0;
};
EmbeddingError embedding_error(const Json& piece, const std::vector<float>& rows, double unit);

}  // namespace monolith::testing
