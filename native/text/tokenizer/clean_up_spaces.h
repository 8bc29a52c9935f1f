// Hugging Face's clean_up_tokenization_spaces as llama.cpp applies it when it renders a whole text.
#pragma once

#include <string>

namespace monolith {

// In this order: no space before ? ! . and ,; " ' " loses both spaces; no space before 's 'm 're
// 've.
void clean_up_spaces(std::string& text);

}  // namespace monolith
