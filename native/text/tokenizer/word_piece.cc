#include "text/tokenizer/word_piece.h"

#include <algorithm>

#include "text/tokenizer/char_reader.h"
#include "text/tokenizer/lower_case.h"
#include "text/tokenizer/normalization.h"
#include "text/tokenizer/spacing_marks.h"

namespace monolith {
namespace {

constexpr uint32_t kReplacementPoint = 0xFFFD;

// Unicode blocks of Chinese characters, as in Hugging Face's tokenizers.
constexpr struct {
  uint32_t first, last;
} kChinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

bool is_chinese(uint32_t c) {
  return std::ranges::any_of(kChinese, [c](const auto& block) { return c >= block.first && c <= block.last; });
}

// Returns true for control characters (Cc), format characters (Cf), private-use characters (Co) and surrogates. Must
// not be called for white space.
bool is_control(uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0xAD) return true;
  if (c < 0x600) return false;
  return (c >= 0x600 && c <= 0x605) || c == 0x61C || c == 0x6DD || c == 0x70F || c == 0x890 || c == 0x891 ||
         c == 0x8E2 || c == 0x180E || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2064) || (c >= 0x2066 && c <= 0x206F) || (c >= 0xD800 && c <= 0xF8FF) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB) || c == 0x110BD || c == 0x110CD || (c >= 0x13430 && c <= 0x1343F) ||
         (c >= 0x1BCA0 && c <= 0x1BCA3) || (c >= 0x1D173 && c <= 0x1D17A) || c == 0xE0001 ||
         (c >= 0xE0020 && c <= 0xE007F) || c >= 0xF0000;
}

// BERT treats all printable ASCII characters except letters, digits and the space as punctuation.
bool is_punctuation(const Char& c) {
  if (c.code_point < 0x80)
    return (c.code_point >= 33 && c.code_point <= 47) || (c.code_point >= 58 && c.code_point <= 64) ||
           (c.code_point >= 91 && c.code_point <= 96) || (c.code_point >= 123 && c.code_point <= 126);
  return c.is(CharClass::kPunctuation);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> WordPiece::build(const TokenizerSpec& spec) {
  auto vocabulary = Vocabulary::build(spec, SpellingStyle::kWordPiece);
  if (!vocabulary) return vocabulary.error();
  Options options;
  options.lowercase = spec.lowercase.value_or(true);
  options.strip_accents = spec.strip_accents.value_or(options.lowercase);
  options.splits_chinese = spec.split_chinese.value_or(true);
  options.cleans = spec.clean_text.value_or(true);
  options.max_word_chars = static_cast<size_t>(spec.max_word_chars.value_or(0));
  return std::unique_ptr<Tokenizer>(new WordPiece(std::move(vocabulary).value(), options));
}

WordPiece::WordPiece(std::unique_ptr<const Vocabulary> owned, const Options& options)
    : Tokenizer(std::move(owned), {.add_bos = true, .add_eos = true, .strips_leading_space = true}),
      options_(options),
      pieces_(entries_of(vocabulary())) {}

std::vector<PieceTrie::Entry> WordPiece::entries_of(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Entry> entries;
  for (TokenId id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.kind(id) == TokenKind::kNormal && !vocabulary.bytes(id).empty())
      entries.push_back({vocabulary.bytes(id), id});
  return entries;
}

// Returns the normalized text, with single spaces between words.
std::string_view WordPiece::prepare(std::string_view text, bool, std::string& scratch) const {
  std::string decomposed;
  if (options_.strip_accents && normalize(text, NormalForm::kNfd, decomposed)) text = decomposed;
  scratch.clear();
  const CharReader reader(text);
  const auto end_word = [&] {
    if (!scratch.empty() && scratch.back() != ' ') scratch.push_back(' ');
  };
  for (size_t i = 0; i < text.size();) {
    const Char c = reader.at(i);
    const size_t begin = i;
    i += c.size;
    if (c.is(CharClass::kSpace)) {
      end_word();
      continue;
    }
    if (options_.cleans && (c.code_point == 0 || c.code_point == kReplacementPoint || is_control(c.code_point)))
      continue;
    // Accents are nonspacing marks. Spacing marks, such as the vowel signs of Indic scripts, are not removed.
    if (options_.strip_accents && c.is(CharDetail::kMark) && !is_spacing_mark(c.code_point)) continue;
    const bool alone = is_punctuation(c) || (options_.splits_chinese && is_chinese(c.code_point));
    if (alone) end_word();
    if (options_.lowercase)
      append_lower_case(c.code_point, text.substr(begin, c.size), scratch);
    else
      scratch.append(text, begin, c.size);
    if (alone) end_word();
  }
  return scratch;
}

void WordPiece::encode_prepared(std::string_view text, bool, std::vector<TokenId>& out) const {
  std::string word;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) {
      const auto starts_char = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
      const std::string_view letters = text.substr(begin, end - begin);
      word.assign(1, ' ').append(letters);
      encode_word(word, static_cast<size_t>(std::ranges::count_if(letters, starts_char)), out);
    }
    begin = end + 1;
  }
}

void WordPiece::encode_word(std::string_view word, size_t n_chars, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  bool known = options_.max_word_chars == 0 || n_chars <= options_.max_word_chars;
  for (size_t at = 0; known && at < word.size();) {
    size_t longest = 0;
    TokenId token = kNoToken;
    pieces_.prefixes(word.substr(at), [&](size_t length, TokenId id) {
      longest = length;
      token = id;
    });
    known = longest > 0;
    at += longest;
    if (known) out.push_back(token);
  }
  if (known) return;
  out.resize(before);
  if (vocabulary().unknown() != kNoToken) out.push_back(vocabulary().unknown());
}

}  // namespace monolith
