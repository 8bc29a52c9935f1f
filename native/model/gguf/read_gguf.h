// Reading something out of a model file by its path. Any thread.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "model/gguf/gguf.h"

namespace monolith {

// Opens the file at `path` and returns what `read` makes of it, a Result. Whatever `read` finds wrong is
// told with the path in front, as errors of GgufFile::open() are. The file is closed on return.
template <typename Read>
std::invoke_result_t<Read, const GgufFile&> read_gguf(const std::string& path, Read&& read) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  auto result = std::forward<Read>(read)(**file);
  if (!result) return Error{result.error().code, path + ": " + result.error().message};
  return result;
}

}  // namespace monolith
