// A fingerprint of a model file: which weights are these? It keys what outlives a process (stored
// KV, benchmark results). It tells files apart; it does not prove that a file is undamaged or
// authentic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "formats/gguf/gguf.h"

namespace monolith {

// 64 bits of `bytes`, chained from `seed`. Each 16 bytes are multiplied into 128 bits with the
// running state and folded (the "multiply-mix" step that wyhash made known); the length ends the
// input. Quick (several GB/s) and well mixed, but not proof against somebody who wants a collision.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed);

// Every metadata key with its type and bytes; every tensor's name, type and shape; and of its data
// the whole in a file of up to 64 MiB (some ten milliseconds), so that one changed weight changes
// the hash. In a larger file of each tensor the whole if it is small, else 16 evenly spread samples
// of 256 bytes, the first and last bytes included: at most 16 pages per tensor are touched, so that
// any file is hashed in well under a second, but two that differ in few weights may hash alike.
uint64_t file_hash(const GgufFile& file);

// 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

}  // namespace monolith
