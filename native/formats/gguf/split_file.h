// A model in several GGUF files, as large ones are published: NAME-00001-of-00003.gguf holds the metadata and maybe
// tensors, the others hold tensors only. Used on the thread that opens the model; private to this folder.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith {

class SplitFile {
 public:
  // Files a model may be in: far above what is published, and each takes a mapping.
  static constexpr uint64_t kMostParts = 1000;

  // How many files `file` says that its model is in; 1 if it says nothing.
  static Result<uint64_t> count(const GgufFile& file);

  // Adds to `first`, parsed from `path`, the tensors of the model's other files. Errors name the file:
  // kInvalidArgument if `path` is another part than the first, kIo if a part is missing, kInvalidFile for parts that
  // do not belong together, kUnsupported above kMostParts.
  static Status join(const std::string& path, GgufFile& first);

 private:
  static Status add(const std::string& path, uint64_t number, uint64_t count, GgufFile& first);
};

}  // namespace monolith
