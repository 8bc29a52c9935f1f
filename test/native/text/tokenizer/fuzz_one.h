// Runs one fuzz input. Shared by the fuzz target and the test that uses damaged files. For tests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/gguf/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith::testing {

// The input is a GGUF image, a separator and a text. Returns false if an invariant is violated. `n_loaded` counts the
// vocabularies that could be loaded.
inline bool tokenize_anything(std::span<const uint8_t> input, size_t* n_loaded = nullptr) {
  const std::string_view all(reinterpret_cast<const char*>(input.data()), input.size());
  constexpr std::string_view kMark("\xFF\x00\xFF", 3);
  const size_t mark = all.rfind(kMark);
  const std::string_view image = all.substr(0, mark);
  const std::string_view text = mark == std::string_view::npos ? "" : all.substr(mark + kMark.size());

  const auto file = GgufFile::parse(std::as_bytes(std::span(image)));
  if (!file) return true;  // The `gguf` fuzz target covers files that the parser rejects.
  const auto loaded = load_tokenizer(**file);
  if (!loaded) return !loaded.error().message.empty() && loaded.error().message.size() < 1000;
  const Tokenizer& tokenizer = **loaded;
  if (n_loaded != nullptr) ++*n_loaded;

  for (int bits = 0; bits < 8; ++bits) {
    EncodeOptions options;
    options.add_special = bits & 1;
    options.parse_special = bits & 2;
    options.guard = bits & 4 ? U'a' : 0;
    std::vector<TokenId> ids;
    tokenizer.encode(text, options, ids);
    for (const TokenId id : ids)
      if (id < 0 || id >= tokenizer.n_vocab()) return false;
    Utf8Stream stream;
    std::string out;
    for (const TokenId id : ids) stream.push(tokenizer.bytes(id), out);
    stream.finish(out);
    if (stream.pending() != 0) return false;
    tokenizer.decode(ids);
  }
  for (TokenId id = 0; id < tokenizer.n_vocab(); ++id)
    if (tokenizer.is_end_of_generation(id) && tokenizer.bytes(id).size() > kMaxTokenBytes) return false;
  return true;
}

}  // namespace monolith::testing
