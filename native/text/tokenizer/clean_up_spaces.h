// Hugging Face's clean_up_tokenization_spaces, as llama.cpp applies it to a complete text.
#pragma once

#include <string>

namespace monolith {

// Applies these rules in order: remove the space before ? ! . and ,; remove both spaces in " ' "; remove the space
// before 's 'm 're 've.
void clean_up_spaces(std::string& text);

}  // namespace monolith
