// GPT-2's byte alphabet: each byte is written as one printable character, which allows byte-level vocabularies to be
// stored as text. Printable Latin-1 characters map to themselves. The other 68 bytes map to U+0100, U+0101, ... in
// ascending order.
#pragma once

#include <array>
#include <cstdint>

namespace monolith {

inline constexpr std::array<uint16_t, 256> kCharacterOfByte = [] {
  std::array<uint16_t, 256> characters{};
  uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    characters[byte] = printable ? static_cast<uint16_t>(byte) : next++;
  }
  return characters;
}();

// Inverse of kCharacterOfByte, for U+0000 to U+0143; -1 for characters outside the alphabet.
inline constexpr std::array<int16_t, 0x144> kByteOfCharacter = [] {
  std::array<int16_t, 0x144> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kCharacterOfByte[static_cast<size_t>(byte)]] = byte;
  return bytes;
}();

}  // namespace monolith
