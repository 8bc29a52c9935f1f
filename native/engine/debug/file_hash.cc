#include "engine/debug/file_hash.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace monolith {
namespace {

__extension__ using Uint128 = unsigned __int128;

// Odd constants with about as many one bits as zero bits, from the fractional parts of the square roots of small
// primes.
constexpr uint64_t kFirst = 0x6a09e667f3bcc909;
constexpr uint64_t kSecond = 0xbb67ae8584caa73b;
constexpr uint64_t kSeed = 0x3c6ef372fe94f82b;

constexpr size_t kHashedWhole = size_t{64} << 20;  // Files up to this many bytes are hashed completely.
constexpr size_t kSamples = 16;
constexpr size_t kSampleBytes = 256;

uint64_t multiply_mix(uint64_t a, uint64_t b) {
  const Uint128 product = static_cast<Uint128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_number(uint64_t number, uint64_t seed) { return hash_bytes(std::as_bytes(std::span(&number, 1)), seed); }

// Calls use(part) for the parts of `data` that are hashed: kSamples ranges of kSampleBytes, or all of it if it is
// small.
template <typename Use>
void for_each_sample(std::span<const std::byte> data, Use&& use) {
  if (data.size() <= kSamples * kSampleBytes) return use(data);
  const size_t last = data.size() - kSampleBytes;
  for (size_t i = 0; i < kSamples; ++i) {
    // The division comes before the multiplication to avoid overflow. The last sample still ends exactly at the end of
    // the data.
    const size_t at = i == kSamples - 1 ? last : last / (kSamples - 1) * i;
    use(data.subspan(at, kSampleBytes));
  }
}

uint64_t hash_sampled(std::span<const std::byte> data, uint64_t seed) {
  for_each_sample(data, [&](std::span<const std::byte> sample) { seed = hash_bytes(sample, seed); });
  return data.size() <= kSamples * kSampleBytes ? seed : hash_number(data.size(), seed);
}

// Calls use(data) for the file ranges that contain the tensor.
template <typename Use>
void for_each_place(const GgufTensor& tensor, Use&& use) {
  if (tensor.source == nullptr) return use(tensor.data);
  for (const auto part : tensor.source->places()) use(part);
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  uint64_t state = seed ^ kSeed;
  for (size_t at = 0; at < bytes.size(); at += 16) {
    std::array<uint64_t, 2> words{};
    std::memcpy(words.data(), bytes.data() + at, std::min<size_t>(16, bytes.size() - at));
    state = multiply_mix(words[0] ^ kFirst ^ state, words[1] ^ kSecond ^ (state >> 32 | state << 32));
  }
  return multiply_mix(state ^ bytes.size() ^ kFirst, kSecond);
}

uint64_t file_hash(const GgufFile& file) {
  const bool whole = file.file_bytes() <= kHashedWhole;
  uint64_t hash = 0;
  for (const auto& [key, value] : file.metadata()) {
    hash = hash_bytes(std::as_bytes(std::span(key)), hash);
    hash = hash_number(static_cast<uint64_t>(value.type) << 32 | static_cast<uint64_t>(value.element_type), hash);
    hash = hash_bytes(value.payload, hash);
  }
  // Requests all samples in advance, so that the disk reads only the samples and can do so in parallel. Without this
  // hint, the kernel would read a large part of the file around each sample.
  for (const GgufTensor& tensor : file.tensors()) {
    if (whole) break;
    for_each_place(tensor, [&](std::span<const std::byte> data) {
      for_each_sample(data, [&](std::span<const std::byte> sample) { file.will_need(sample); });
    });
  }
  for (const GgufTensor& tensor : file.tensors()) {
    hash = hash_bytes(std::as_bytes(std::span(tensor.name)), hash);
    hash = hash_number(static_cast<uint64_t>(tensor.type), hash);
    for (const int64_t length : tensor.shape) hash = hash_number(static_cast<uint64_t>(length), hash);
    for_each_place(tensor, [&](std::span<const std::byte> data) {
      hash = whole ? hash_bytes(data, hash) : hash_sampled(data, hash);
    });
  }
  return hash;
}

std::string hash_text(uint64_t hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[i] = kDigits[hash >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace monolith
