// Structure-aware mutator for languages that consist of brackets, atoms and operators (regular expressions, grammar
// rules). It removes, repeats and swaps parts of a text, takes parts from earlier texts, and inserts words of the
// language.
#pragma once

#include <algorithm>
#include <cctype>
#include <span>

#include "fuzz/mutate.h"

namespace monolith::fuzzing {

class TextMutator {
 public:
  explicit TextMutator(std::span<const std::string_view> words) : words_(words) {}

  std::string operator()(std::string_view given, Chance& chance) {
    std::string text(given);
    donors_.keep(text, chance);
    for (size_t n = 1 + chance.below(chance.one_in(4) ? 10 : 4); n > 0; --n) text = once(text, chance);
    return text;
  }

 private:
  struct Piece {
    size_t begin, end;
  };

  // Splits a text into parts: escapes, groups in brackets or quotes, words, numbers and single characters. Parts may be
  // nested.
  static std::vector<Piece> pieces_of(std::string_view text) {
    std::vector<Piece> pieces;
    std::vector<size_t> open;
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; };
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      const char c = text[i++];
      if (c == '\\') {
        i = std::min(i + 1, text.size());
      } else if (c == '(' || c == '[' || c == '{') {
        open.push_back(pieces.size());
      } else if ((c == ')' || c == ']' || c == '}') && !open.empty()) {
        pieces[open.back()].end = i;
        open.pop_back();
        continue;
      } else if (is_word(c)) {
        while (i < text.size() && is_word(text[i])) ++i;
      }
      pieces.push_back({begin, i});
    }
    return pieces;
  }

  std::string once(const std::string& text, Chance& chance) const {
    const std::vector<Piece> pieces = pieces_of(text);
    if (pieces.empty()) return text + std::string(chance.of(words_));
    // Selects up to three consecutive parts.
    const auto some = [&](const std::string& from, const std::vector<Piece>& of) {
      const size_t first = chance.below(of.size()), last = std::min(of.size() - 1, first + chance.below(3));
      return Piece{of[first].begin, std::max(of[first].end, std::min(of[last].end, from.size()))};
    };
    const Piece at = some(text, pieces);
    const std::string was = text.substr(at.begin, at.end - at.begin);
    const auto replaced = [&](std::string_view by) { return text.substr(0, at.begin).append(by).append(text, at.end); };
    switch (chance.below(8)) {
      case 0: return replaced({});
      case 1: return replaced(was + was);
      case 2: return replaced("(" + was + ")" + std::string(chance.of(words_)));
      case 3: return replaced(was + std::string(chance.of(words_)));
      case 4: return replaced(chance.of(words_));
      case 5: {
        if (was.find_first_not_of("0123456789") != std::string::npos)
          return replaced(was + std::string(chance.of(words_)));
        return replaced(std::to_string(odd_integer(chance, std::strtoll(was.c_str(), nullptr, 10))));
      }
      default: {
        const std::string donor = chance.one_in(2) ? text : donors_.any(chance);
        const std::vector<Piece> theirs = pieces_of(donor);
        if (theirs.empty()) return replaced({});
        const Piece from = some(donor, theirs);
        const std::string taken = donor.substr(from.begin, std::min<size_t>(from.end - from.begin, 400));
        return chance.one_in(2) ? replaced(taken) : replaced(was + taken);
      }
    }
  }

  std::span<const std::string_view> words_;
  Donors<std::string> donors_;
};

}  // namespace monolith::fuzzing
