// Reads a model that is split into several GGUF files, as large models usually are. NAME-00001-of-00003.gguf contains
// the metadata and possibly tensors; the other files contain only tensors. Used on the thread that opens the model.
// Private to this directory.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith {

class SplitFile {
 public:
  // Maximum number of files per model. Published models have far fewer. Each file needs its own memory mapping.
  static constexpr uint64_t kMaxParts = 1000;

  // Returns the model's number of files according to the metadata of `file`; 1 if the key is missing.
  static Result<uint64_t> count(const GgufFile& file);

  // Adds the tensors of the model's other files to `first`, which was parsed from `path`. Error messages name the file.
  // kInvalidArgument: `path` is not the first part. kIo: a part is missing. kInvalidFile: the parts do not belong
  // together. kUnsupported: there are more than kMaxParts parts.
  static Status join(const std::string& path, GgufFile& first);

 private:
  static Status add(const std::string& path, uint64_t number, uint64_t count, GgufFile& first);
};

}  // namespace monolith
