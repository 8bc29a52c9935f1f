#include "text/tokenizer/clean_up_spaces.h"

#include <string_view>

namespace monolith {
namespace {

enum class Drop { kNothing, kSpaceBefore, kSpacesAround };

// Rewrites `text` in place. For each character that follows a space, `rule` receives the original text from that
// character to the end.
template <typename Rule>
void pass(std::string& text, Rule rule) {
  size_t written = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    // text[i - 1] is still the original character: the write position lags behind the read position by the number of
    // dropped characters.
    const bool after_space = i > 0 && text[i - 1] == ' ';
    const Drop drop = after_space ? rule(std::string_view(text).substr(i)) : Drop::kNothing;
    const char c = text[i];
    if (drop != Drop::kNothing) --written;
    text[written++] = c;
    // Overwritten so that the next character does not count as following a space.
    if (drop == Drop::kSpacesAround) text[++i] = '\0';
  }
  text.resize(written);
}

}  // namespace

void clean_up_spaces(std::string& text) {
  pass(text, [](std::string_view rest) {
    const char c = rest[0];
    return c == '?' || c == '!' || c == '.' || c == ',' ? Drop::kSpaceBefore : Drop::kNothing;
  });
  pass(text, [](std::string_view rest) { return rest.starts_with("' ") ? Drop::kSpacesAround : Drop::kNothing; });
  pass(text, [](std::string_view rest) {
    for (const std::string_view suffix : {"'s", "'m", "'re", "'ve"})
      if (rest.starts_with(suffix)) return Drop::kSpaceBefore;
    return Drop::kNothing;
  });
}

}  // namespace monolith
