// Fingerprint of a model file, used as a key for data that outlives the process (stored KV pages, benchmark results).
// It distinguishes files, but does not prove that a file is undamaged or authentic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "formats/gguf/gguf.h"

namespace monolith {

// Computes a 64-bit hash of `bytes`, chained from `seed`. Each 16 bytes are combined with the running state by a
// 64x64-bit multiplication whose 128-bit product is folded (the "multiply-mix" step known from wyhash). The length is
// hashed last. Fast (several GB/s), with well-distributed output, but not collision-resistant against attackers.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed);

// Hashes the key, type and bytes of every metadata entry, and the name, type and shape of every tensor. In files of up
// to 64 MiB, tensor data is hashed completely (in about ten milliseconds), so a single changed weight changes the hash.
// In larger files, small tensors are hashed completely, and other tensors through 16 evenly spaced samples of 256 bytes
// that include the first and last bytes. At most 16 pages per tensor are read, so a file of any size is hashed in well
// under a second. Two large files that differ in only a few weights may have the same hash.
uint64_t file_hash(const GgufFile& file);

// Formats a hash as 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

}  // namespace monolith
