// Fuzz target: any Hugging Face model directory is either rejected with a message that starts with its path, or
// translated to a model file and a vision file. Every value and tensor of these can be read. The input consists of the
// files, each preceded by a header line "%%% NAME". For a safetensors file, the header line is "%%%s NAME", followed by
// a line with the length of the tensor data and then the file's JSON header.
#include <algorithm>
#include <cstring>

#include "formats/hf/model_file.h"
#include "fuzz/json_mutator.h"
#include "fuzz/target.h"
#include "support/hf_folder.h"
#include "formats/gguf/tokenizer.h"

using namespace monolith;
using namespace monolith::fuzzing;

namespace {

constexpr const char* kNames[] = {"config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "generation_config.json",
                                  "chat_template.json",
                                  "chat_template.jinja",
                                  "tiktoken.model",
                                  "preprocessor_config.json",
                                  "processor_config.json",
                                  "model.safetensors",
                                  "model.safetensors.index.json",
                                  "model-00001-of-00002.safetensors",
                                  "model-00002-of-00002.safetensors"};
constexpr size_t kMaxData = 1 << 16;

// Builds a safetensors file from "BYTES\nHEAD": the length of the tensor data, then the JSON header.
std::string with_head(std::string_view written) {
  const size_t line = std::min(written.find('\n'), written.size());
  const size_t n_data =
      std::min<size_t>(std::strtoull(std::string(written.substr(0, line)).c_str(), nullptr, 10), kMaxData);
  const std::string_view head = written.substr(std::min(line + 1, written.size()));
  const uint64_t size = head.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out.append(head).append(n_data, '\x3c');
}

void read_all(const GgufFile& file) {
  std::vector<std::byte> scratch;
  volatile uint8_t sum = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    // Reads the first few rows and the last row, because out-of-bounds reads are most likely in the code that converts
    // rows.
    const TensorTypeTraits& traits = traits_of(tensor.type);
    // The stored rows of a convolution kernel are longer than the rows of the tensor's shape.
    const auto row = tensor.source != nullptr && tensor.source->rows() > 0
                         ? tensor.bytes() / static_cast<size_t>(tensor.source->rows())
                         : static_cast<size_t>(tensor.shape[0] / traits.block_values * traits.block_bytes);
    if (row == 0 || tensor.bytes() == 0 || row > kMaxData) continue;
    for (const size_t at : {size_t{0}, tensor.bytes() - row}) {
      const auto bytes = file.read(tensor, at, row, scratch);
      insist(bytes.size() == row, "as many bytes are read as requested");
      for (const std::byte byte : bytes) sum = sum ^ static_cast<uint8_t>(byte);
    }
  }
  for (const auto& [key, value] : file.metadata()) insist(file.find(key) == &value, "find() finds each key");
}

void check_path_and_refusal(const Error& error, const std::string& path) {
  insist(error.message.starts_with(path), "a refusal names the folder", error.message);
  insist(error.message.find(path, path.size()) == std::string::npos, "and only once", error.message);
  check_refusal(error);
}

}  // namespace

FUZZ_TARGET(folder) {
  const testing::ScratchFolder folder;
  std::string_view rest = text_of(input);
  while (rest.starts_with("%%%")) {
    const bool headed = rest.starts_with("%%%s ");
    const size_t line = rest.find('\n');
    if (line == std::string_view::npos) break;
    const size_t space = rest.find(' ');
    const std::string_view name = space < line ? rest.substr(space + 1, line - space - 1) : std::string_view();
    rest.remove_prefix(line + 1);
    const size_t next = rest.find("\n%%%");
    const std::string_view content = rest.substr(0, next);
    rest = next == std::string_view::npos ? std::string_view() : rest.substr(next + 1);
    if (std::ranges::find(kNames, name) != std::end(kNames))
      folder.write(std::string(name), headed ? with_head(content) : std::string(content));
  }
  if (const auto file = open_model_file(
          folder.path(),
          {.quantize = input.size() % 2 ? std::optional(TensorType::kQ8_0) : std::nullopt, .threads = 1})) {
    read_all(**file);
    if (const auto tokenizer = load_tokenizer(**file); !tokenizer)
      check_refusal(tokenizer.error());
    else
      ++n_reached();
  } else {
    check_path_and_refusal(file.error(), folder.path());
  }
  if (const auto file = open_vision_file(folder.path()))
    read_all(**file);
  else
    check_path_and_refusal(file.error(), folder.path());
}

// Mutates one of the directory's files as JSON, or replaces it with a file from another directory.
FUZZ_MUTATOR(folder) {
  static JsonMutator json({}, {});
  static Donors<std::string> donors;
  struct File {
    size_t begin, end;
    std::string_view head;
  };
  const auto files_of = [](std::string_view text) {
    std::vector<File> files;
    for (size_t at = text.starts_with("%%%") ? 0 : std::string_view::npos; at != std::string_view::npos;) {
      const size_t line = std::min(text.find('\n', at), text.size() - 1), next = text.find("\n%%%", line);
      files.push_back({line + 1, std::min(next, text.size()), text.substr(at, line - at)});
      at = next == std::string_view::npos ? next : next + 1;
    }
    return files;
  };
  const std::vector<File> files = files_of(input);
  if (files.empty()) return std::nullopt;
  donors.keep(std::string(input), chance);
  const File file = chance.of(files);
  std::string_view content = input.substr(file.begin, file.end - file.begin);
  std::string out(input.substr(0, file.begin));
  if (chance.one_in(6)) {
    const std::string& donor = donors.any(chance);
    for (const File& theirs : files_of(donor))
      if (theirs.head == file.head)
        return out.append(donor, theirs.begin, theirs.end - theirs.begin).append(input.substr(file.end));
    return std::nullopt;
  }
  if (file.head.starts_with("%%%s")) {  // The line with the length of the tensor data stays unchanged.
    const size_t line = std::min(content.find('\n') + 1, content.size());
    out += content.substr(0, line);
    content.remove_prefix(line);
  }
  return out.append(json(content, chance)).append(input.substr(file.end));
}
