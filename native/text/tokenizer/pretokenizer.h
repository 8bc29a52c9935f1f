// Splits text into the words within which BPE merges, as the pre-tokenizer that a file names would
// by its regular expressions. Hand-written: linear time, no backtracking, no allocation, constant
// stack.
#pragma once

#include <string_view>

#include "text/tokenizer/unicode.h"

namespace monolith {

enum class PreTokenizer { kDefault, kGpt2, kLlama3, kQwen2, kDeepseekCoder, kStarcoder };

// What a name in tokenizer.ggml.pre stands for: its way of splitting, and what llama.cpp ties to
// it.
struct PreTokenizerTraits {
  std::string_view name;
  PreTokenizer splitter;
  bool whole_words_first = false;   // a word that is a token is not merged ("ignore_merges")
  bool adds_bos = false;            // unless the file says otherwise
  bool cleans_up_spaces = true;     // when decoding
};

// Null if the name is unknown.
const PreTokenizerTraits* find_pretokenizer(std::string_view name);

// Calls emit(context, word) for each word, in order; the words joined are `text`.
using EmitWord = void (*)(void* context, std::string_view word);
void pretokenize(PreTokenizer splitter, std::string_view text, EmitWord emit, void* context);

}  // namespace monolith
