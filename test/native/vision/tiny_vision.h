// Builds small vision files of every kind, and a test image. Tests may change any part of a file before it is written.
// For tests only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/tiny_model.h"
#include "vision/projectors.h"
#include "vision/vision.h"

namespace monolith::testing {

inline constexpr const char* kProjectorNames[] = {"idefics3",       "gemma3",  "qwen2vl_merger", "qwen2.5vl_merger",
                                                  "qwen3vl_merger", "pixtral", "internvl",       "mlp",
                                                  "lfm2",           "gemma4v", "kimik25"};

struct TinyVision : TinyModel {
  static constexpr uint32_t kWidth = 32, kHeads = 2, kInner = 48, kRow = 24;

  explicit TinyVision(const std::string& type);

  void key(const std::string& name, Value value) { keys["clip.vision." + name] = std::move(value); }

 private:
  void layer_norm(const std::string& name, uint64_t count);
  void add_layer(const std::string& at, bool rms, const std::string& type);
};

// An image that has stripes and gradients in all three color channels.
std::vector<uint8_t> striped_picture(int width, int height);

}  // namespace monolith::testing
