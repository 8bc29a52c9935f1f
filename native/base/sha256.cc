#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace monolith {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

uint32_t big_endian(const std::byte* at) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | static_cast<uint32_t>(at[i]);
  return word;
}

}  // namespace

void Sha256::block(const std::byte* data) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(data + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    const uint32_t low = std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3,
                   high = std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t one =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const uint32_t words[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += words[i];
}

void Sha256::add(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  if (n_held_ > 0) {
    const size_t taken = std::min(bytes.size(), held_.size() - n_held_);
    std::copy_n(bytes.begin(), taken, held_.begin() + static_cast<std::ptrdiff_t>(n_held_));
    n_held_ += taken;
    bytes = bytes.subspan(taken);
    if (n_held_ < held_.size()) return;
    block(held_.data());
    n_held_ = 0;
  }
  for (; bytes.size() >= held_.size(); bytes = bytes.subspan(held_.size())) block(bytes.data());
  std::ranges::copy(bytes, held_.begin());
  n_held_ = bytes.size();
}

void Sha256::add_number(uint64_t number) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  add(bytes);
}

Sha256::Digest Sha256::finish() {
  const uint64_t bits = length_ * 8;
  const std::byte one{0x80}, zero{0};
  add({&one, 1});
  while (n_held_ != 56) add({&zero, 1});
  std::byte length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(length);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

ContentHash Sha256::content() {
  const Digest digest = finish();
  ContentHash hash;
  for (size_t i = 0; i < 8; ++i) {
    hash.high = hash.high << 8 | digest[i];
    hash.low = hash.low << 8 | digest[i + 8];
  }
  return hash;
}

std::string Sha256::hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

std::string Sha256::hex_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hex(hash.finish());
}

}  // namespace monolith
