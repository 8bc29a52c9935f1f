// Which vision file is this: what the hash of a piece of a picture begins with. Any thread.
#pragma once

#include "base/content_hash.h"
#include "formats/gguf/gguf.h"

namespace monolith {

// Of every metadata key with its bytes, of every tensor's name, type and shape, and of its data: the whole of up to 4 KiB,
// else 16 evenly spread samples of 256 bytes. So that any file is read in well under a second; two that differ in few
// weights may be taken for one.
ContentHash file_identity(const GgufFile& file);

}  // namespace monolith
