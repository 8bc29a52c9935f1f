#include "text/tokenizer/charsmap.h"

#include <cstring>

#include "text/tokenizer/unicode.h"

namespace monolith {

Result<std::unique_ptr<const Charsmap>> Charsmap::parse(std::span<const std::byte> bytes) {
  uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size % sizeof(uint32_t) != 0 || size > bytes.size() - sizeof size)
    return Error{ErrorCode::kInvalidFile, "tokenizer.ggml.precompiled_charsmap has " + std::to_string(bytes.size()) +
                                              " bytes, but its header claims " + std::to_string(size) +
                                              " bytes for the trie"};
  auto map = std::make_unique<Charsmap>();
  map->units_.resize(size / sizeof(uint32_t));
  if (size > 0) std::memcpy(map->units_.data(), bytes.data() + sizeof size, size);
  const auto rest = bytes.subspan(sizeof size + size);
  map->replacements_.assign(reinterpret_cast<const char*>(rest.data()), rest.size());
  map->replacements_.push_back('\0');
  return std::unique_ptr<const Charsmap>(std::move(map));
}

size_t Charsmap::longest(std::string_view text, std::string_view& replacement) const {
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); };
  if (units_.empty()) return 0;
  size_t best = 0;
  uint32_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xFF)) != byte) break;
    node ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (node >= units_.size()) break;
    const uint32_t at = units_[node] & ~(1u << 31);
    if (at >= replacements_.size()) break;
    // The replacement is terminated by a zero byte. There always is one, because parse() has appended one at the end.
    replacement = replacements_.data() + at;
    best = i + 1;
  }
  return best;
}

void Charsmap::normalize(std::string_view text, std::string& out) const {
  while (!text.empty()) {
    std::string_view replacement;
    if (const size_t taken = longest(text, replacement)) {
      out.append(replacement);
      text.remove_prefix(taken);
      continue;
    }
    const Utf8Char character = decode_utf8(text);
    if (character.code_point == kInvalidByte)
      append_utf8(0xFFFD, out);
    else
      out.append(text.substr(0, character.size));
    text.remove_prefix(character.size);
  }
}

}  // namespace monolith
