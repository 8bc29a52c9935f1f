#include "text/tokenizer/pretokenizer.h"

#include <cstring>

namespace monolith {
namespace {

// Names in the field and what they stand for. Regular expressions equal to one of the five share
// it.
constexpr PreTokenizerTraits kNames[] = {
    {"", PreTokenizer::kDefault},
    {"default", PreTokenizer::kDefault},
    {"gpt-2", PreTokenizer::kGpt2},
    {"phi-2", PreTokenizer::kGpt2},
    {"mpt", PreTokenizer::kGpt2},
    {"olmo", PreTokenizer::kGpt2},
    {"jais", PreTokenizer::kGpt2},
    {"gigachat", PreTokenizer::kGpt2},
    {"exaone4", PreTokenizer::kGpt2},
    {"mellum", PreTokenizer::kGpt2},
    {"a.x-4.0", PreTokenizer::kGpt2},
    {"trillion", PreTokenizer::kGpt2, false, false, false},
    {"granite-docling", PreTokenizer::kGpt2, false, false, false},
    {"llama-bpe", PreTokenizer::kLlama3, true, true},
    {"llama3", PreTokenizer::kLlama3, true, true},
    {"llama-v3", PreTokenizer::kLlama3, true, true},
    {"falcon3", PreTokenizer::kLlama3, true, true},
    {"falcon-h1", PreTokenizer::kLlama3, true, true},
    {"pixtral", PreTokenizer::kLlama3, true, true},
    {"midm-2.0", PreTokenizer::kLlama3, true, true},
    {"lfm2", PreTokenizer::kLlama3, true, true},
    {"dbrx", PreTokenizer::kLlama3},
    {"smaug-bpe", PreTokenizer::kLlama3},
    {"qwen2", PreTokenizer::kQwen2, false, false, false},
    {"qwen3", PreTokenizer::kQwen2, false, false, false},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2, false, false, false},
    {"kormo", PreTokenizer::kQwen2, false, false, false},
    {"hunyuan", PreTokenizer::kQwen2, false, false, false},
    {"solar-open", PreTokenizer::kQwen2, false, false, false},
    {"grok-2", PreTokenizer::kQwen2, false, false, false},
    {"megrez", PreTokenizer::kQwen2},
    {"stablelm2", PreTokenizer::kQwen2},
    {"deepseek-coder", PreTokenizer::kDeepseekCoder, false, false, false},
    {"starcoder", PreTokenizer::kStarcoder},
    {"refact", PreTokenizer::kStarcoder},
    {"codeshell", PreTokenizer::kStarcoder},
    {"exaone", PreTokenizer::kStarcoder},
    {"minerva-7b", PreTokenizer::kStarcoder},
    {"smollm", PreTokenizer::kStarcoder, false, false, false},
    {"command-r", PreTokenizer::kStarcoder, false, false, false},
};

// A character as the matchers see it. At the end of the text: kEnd, of no bytes.
struct Char {
  CharClass char_class;
  uint32_t code_point;
  uint32_t size;
  bool is(CharClass c) const { return char_class == c; }
  // [^\s\p{L}\p{N}]
  bool is_sign() const { return is(CharClass::kOther) || is(CharClass::kPunctuation); }
  // [\r\n]
  bool is_newline() const { return code_point == '\r' || code_point == '\n'; }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  std::string_view between(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }

  Char at(size_t i) const {
    if (i >= text_.size()) return {CharClass::kEnd, 0, 0};
    const unsigned char c = static_cast<unsigned char>(text_[i]);
    if (c < 0x80) return {classes_.of_ascii(c), c, 1};
    const Utf8Char wide = decode_utf8(text_.substr(i));
    return {classes_.of(wide.code_point), wide.code_point, wide.size};
  }

  // The end of the run of characters from `i` on that satisfy `belongs`.
  template <typename Belongs>
  size_t skip(size_t i, Belongs belongs) const {
    for (;;) {
      const Char c = at(i);
      if (c.is(CharClass::kEnd) || !belongs(c)) return i;
      i += c.size;
    }
  }
  size_t skip_class(size_t i, CharClass char_class) const {
    return skip(i, [=](const Char& c) { return c.is(char_class); });
  }

  // 's|'t|'re|'ve|'m|'ll|'d at `i`: its bytes, or 0.
  template <bool kAnyCase>
  size_t contraction(size_t i) const {
    if (text_[i] != '\'') return 0;
    const auto letter = [&](size_t k) -> char {
      if (k >= text_.size()) return 0;
      const char c = text_[k];
      return kAnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    const char first = letter(i + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    const char second = letter(i + 2);
    const bool pair = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                      (first == 'l' && second == 'l');
    return pair ? 3 : 0;
  }

  // \s+(?!\S)|\s+ where a space stands at `i`: all of the run if it ends the text, else all but its
  // last.
  size_t spaces(size_t i) const {
    size_t last = i, end = i;
    for (Char c = at(i); c.is(CharClass::kSpace); c = at(end)) {
      last = end;
      end += c.size;
    }
    return end == text_.size() || last == i ? end : last;
  }

 private:
  std::string_view text_;
  const CharClasses& classes_ = CharClasses::instance();
};

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <typename Emit>
void split_gpt2(std::string_view text, Emit emit) {
  const Reader reader(text);
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    if (const size_t length = reader.contraction<false>(begin)) {
      end = begin + length;
    } else {
      const size_t body = begin + (text[begin] == ' ');
      const Char c = reader.at(body);
      if (c.is(CharClass::kLetter) || c.is(CharClass::kNumber))
        end = reader.skip_class(body + c.size, c.char_class);
      else if (c.is_sign())
        end = reader.skip(body + c.size, [](const Char& s) { return s.is_sign(); });
      else
        end = reader.spaces(begin);
    }
    emit(reader.between(begin, end));
  }
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,kMaxDigits}|
// ?[^\s\p{L}\p{N}]+[\r\n]*| \s*[\r\n]+|\s+(?!\S)|\s+
template <int kMaxDigits, typename Emit>
void split_llama3(std::string_view text, Emit emit) {
  const Reader reader(text);
  const auto match = [&](size_t begin) -> size_t {
    if (const size_t length = reader.contraction<true>(begin)) return begin + length;
    const Char first = reader.at(begin);
    if (first.is(CharClass::kLetter)) return reader.skip_class(begin + first.size, CharClass::kLetter);
    if (first.is(CharClass::kNumber)) {
      size_t end = begin + first.size;
      for (int digits = 1; digits < kMaxDigits; ++digits) {
        const Char next = reader.at(end);
        if (!next.is(CharClass::kNumber)) break;
        end += next.size;
      }
      return end;
    }
    const Char second = reader.at(begin + first.size);
    if (!first.is_newline() && second.is(CharClass::kLetter))
      return reader.skip_class(begin + first.size + second.size, CharClass::kLetter);
    if (first.is_sign() || (first.code_point == ' ' && second.is_sign())) {
      const size_t signs =
          reader.skip(begin + first.size, [](const Char& c) { return c.is_sign(); });
      return reader.skip(signs, [](const Char& c) { return c.is_newline(); });
    }
    // Only white space is left. Up to the run's last line break, if there is one.
    size_t after_newline = begin;
    for (size_t i = begin;;) {
      const Char c = reader.at(i);
      if (!c.is(CharClass::kSpace)) break;
      i += c.size;
      if (c.is_newline()) after_newline = i;
    }
    return after_newline > begin ? after_newline : reader.spaces(begin);
  };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = match(begin);
    emit(reader.between(begin, end));
  }
}

// The passes below split further what an earlier pass has left: matches become pieces of their own,
// and so does what lies between two of them.

// X, each character alone.
template <typename Belongs, typename Emit>
void isolate_each(std::string_view text, Belongs belongs, Emit emit) {
  const Reader reader(text);
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const Char c = reader.at(i);
    if (belongs(c)) {
      if (i > done) emit(reader.between(done, i));
      done = i + c.size;
      emit(reader.between(i, done));
    }
    i += c.size;
  }
  if (done < text.size()) emit(reader.between(done, text.size()));
}

// X+, or \s?X+ with kWithSpace.
template <bool kWithSpace, typename Belongs, typename Emit>
void isolate_runs(std::string_view text, Belongs belongs, Emit emit) {
  const Reader reader(text);
  size_t done = 0;
  bool after_space = false;
  for (size_t i = 0, previous = 0; i < text.size();) {
    const Char c = reader.at(i);
    if (!belongs(c)) {
      previous = i;
      after_space = c.is(CharClass::kSpace);
      i += c.size;
      continue;
    }
    const size_t begin = kWithSpace && after_space ? previous : i;
    const size_t end = reader.skip(i + c.size, belongs);
    if (begin > done) emit(reader.between(done, begin));
    emit(reader.between(begin, end));
    i = done = end;
    after_space = false;
  }
  if (done < text.size()) emit(reader.between(done, text.size()));
}

// [0-9][0-9][0-9]
template <typename Emit>
void isolate_three_digits(std::string_view text, Emit emit) {
  size_t done = 0, digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    if (digits < 3) continue;
    if (i - 2 > done) emit(text.substr(done, i - 2 - done));
    emit(text.substr(i - 2, 3));
    done = i + 1;
    digits = 0;
  }
  if (done < text.size()) emit(text.substr(done));
}

bool is_number(const Char& c) { return c.is(CharClass::kNumber); }

// [\r\n], \s?\p{L}+, \s?\p{P}+, [一-龥ࠀ-一가-퟿]+, \p{N}
template <typename Emit>
void split_deepseek_coder(std::string_view text, Emit emit) {
  const auto is_newline = [](const Char& c) { return c.is_newline(); };
  const auto is_letter = [](const Char& c) { return c.is(CharClass::kLetter); };
  const auto is_punctuation = [](const Char& c) { return c.is(CharClass::kPunctuation); };
  const auto is_east_asian = [](const Char& c) {
    return (c.code_point >= 0x0800 && c.code_point <= 0x9FA5) ||
           (c.code_point >= 0xAC00 && c.code_point <= 0xD7FF);
  };
  isolate_each(text, is_newline, [&](std::string_view line) {
    isolate_runs<true>(line, is_letter, [&](std::string_view letters) {
      isolate_runs<true>(letters, is_punctuation, [&](std::string_view marks) {
        isolate_runs<false>(marks, is_east_asian,
                            [&](std::string_view piece) { isolate_each(piece, is_number, emit); });
      });
    });
  });
}

// \p{N}, then as gpt-2
template <typename Emit>
void split_starcoder(std::string_view text, Emit emit) {
  isolate_each(text, is_number, [&](std::string_view piece) { split_gpt2(piece, emit); });
}

// [\p{P}$+<=>^~|]+, then as gpt-2, then \p{N}+, then [0-9][0-9][0-9]: llama.cpp's way with files
// that name no pre-tokenizer.
template <typename Emit>
void split_default(std::string_view text, Emit emit) {
  const auto is_mark = [](const Char& c) {
    if (c.is(CharClass::kPunctuation)) return true;
    return c.code_point != 0 && c.code_point < 0x80 &&
           std::strchr("$+<=>^~|", static_cast<int>(c.code_point)) != nullptr;
  };
  isolate_runs<false>(text, is_mark, [&](std::string_view piece) {
    split_gpt2(piece, [&](std::string_view word) {
      isolate_runs<false>(word, is_number,
                          [&](std::string_view digits) { isolate_three_digits(digits, emit); });
    });
  });
}

}  // namespace

const PreTokenizerTraits* find_pretokenizer(std::string_view name) {
  for (const PreTokenizerTraits& traits : kNames)
    if (traits.name == name) return &traits;
  return nullptr;
}

void pretokenize(PreTokenizer splitter, std::string_view text, EmitWord emit_word, void* context) {
  const auto emit = [=](std::string_view word) { emit_word(context, word); };
  switch (splitter) {
    case PreTokenizer::kDefault: return split_default(text, emit);
    case PreTokenizer::kGpt2: return split_gpt2(text, emit);
    case PreTokenizer::kLlama3: return split_llama3<3>(text, emit);
    case PreTokenizer::kQwen2: return split_llama3<1>(text, emit);
    case PreTokenizer::kDeepseekCoder: return split_deepseek_coder(text, emit);
    case PreTokenizer::kStarcoder: return split_starcoder(text, emit);
  }
}

}  // namespace monolith
