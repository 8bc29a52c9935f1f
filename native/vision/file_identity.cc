#include "vision/file_identity.h"

#include <algorithm>

#include "base/sha256.h"

namespace monolith {
namespace {

constexpr size_t kWhole = 4096, kSample = 256, kSamples = 16;

}  // namespace

ContentHash file_identity(const GgufFile& file) {
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

}  // namespace monolith
