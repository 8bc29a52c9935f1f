// Malicious vision files of kinds that have broken readers of vision files: sizes that are zero, overflow or contradict
// each other, out-of-range indices, and too many numbers. Each file is either rejected with an error that states the
// reason, or loads as an encoder that can run. For tests and fuzz seeds.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vision/tiny_vision.h"

namespace monolith::testing {

struct HostileVision {
  std::string name;
  TinyVision model;
  std::string_view refused_by;              // Expected part of the error message. Empty: the file may load.
  std::function<void(Bytes&)> tamper = {};  // Changes the written image.
};

// Each of these functions changes the bytes that follow a name in the image: tampered() applies `change` to them,
// negative() sets a metadata value to -1 as a 32-bit number, and dimension() sets the first dimension of a tensor.
std::function<void(Bytes&)> tampered(const std::string& name, const std::function<void(std::byte*)>& change);
std::function<void(Bytes&)> negative(const std::string& key);
std::function<void(Bytes&)> dimension(const std::string& tensor, uint64_t length);

std::vector<HostileVision> hostile_vision();

}  // namespace monolith::testing
