// Builds Hugging Face directories from GGUF files. This reverses the conversion under test, but is implemented
// independently of it. For tests only.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf/gguf.h"

namespace monolith::testing {

// A temporary directory that is deleted together with this object.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  const std::string& path() const { return path_; }
  void write(const std::string& name, std::string_view text) const;

 private:
  std::string path_;
};

std::string json_text(std::string_view text);

// One tensor in a safetensors file.
struct SafetensorData {
  std::string name, type;
  std::vector<int64_t> shape;  // The last dimension is the row length.
  std::string bytes;
};

std::string safetensors_of(const std::vector<SafetensorData>& tensors);

// Returns the checkpoint name of a llama, qwen2, qwen3 or gemma3 tensor.
std::string checkpoint_name(std::string_view gguf);

// Converts the rows of attention heads from interleaved pairs to the two halves that rotate_half expects.
std::string with_halves(std::string_view rows, int64_t heads, int64_t n_rows);

uint64_t stated(const GgufFile& file, const std::string& key);

// Returns the tensors of `file` in the checkpoint's layout.
std::vector<SafetensorData> checkpoint_of(const GgufFile& file, const std::string& architecture);

std::string config_of(const GgufFile& file, const std::string& name, const std::string& architecture,
                      const std::string& more = {});

// Returns the vocabulary of `file`, byte-level or SentencePiece, as a tokenizer.json. `splitting` lists the
// pre-tokenizer steps before ByteLevel. If a SentencePiece vocabulary has no merges, they are derived from its scores.
std::string tokenizer_of(const GgufFile& file, const std::string& splitting, bool add_bos);

std::string tokenizer_settings_of(const GgufFile& file);

}  // namespace monolith::testing
