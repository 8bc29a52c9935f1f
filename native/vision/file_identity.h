// Identifies a vision file. The identity is the prefix of the content hash of every prepared image part. Any thread.
#pragma once

#include "base/content_hash.h"
#include "formats/gguf/gguf.h"

namespace monolith {

// Hashes every metadata key and value, every tensor's name, type and shape, and tensor data: all of it up to 4 KiB,
// otherwise 16 evenly spread samples of 256 bytes. Any file is thus read in well under a second, but two files that
// differ in only a few weights may get the same identity.
ContentHash file_identity(const GgufFile& file);

}  // namespace monolith
