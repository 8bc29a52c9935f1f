// Reads string characters byte by byte, including UTF-8, JSON escapes and surrogate pairs.
#include "text/grammar/automaton.h"

#include "base/ascii.h"

#include <algorithm>

namespace monolith::grammar {
namespace {

// The state within a string character. It is stored in the low four bits of Lex::sub.
enum Sub : uint32_t {
  kBetween = 0,     // Between two characters.
  kUtf8 = 1,        // Bits 4..7: bytes to come. `more`: the bits so far.
  kEscape = 2,      // After a backslash.
  kHex = 3,         // Bits 4..7: digits so far. `more`: their value.
  kHigh = 4,        // After an escaped high surrogate, which is in `more`.
  kHighEscape = 5,  // After a high surrogate and a backslash.
  kLowHex = 6,      // Bits 4..7: digits so far. Bits from 8: their value. `more`: the high surrogate.
  // In the states below, the character's identity no longer matters: `expression` is already the expression that
  // follows the character.
  kAnyUtf8 = 7,  // Bits 4..7: bytes to come.
  kAnyHex = 8,   // Bits 4..7: digits so far.
  kAnyHigh = 9,  // After any escaped high surrogate.
  kAnyHighEscape = 10,
  kAnyLowHex = 11,  // Bits 4..7: digits so far. Bits from 8: the value of the first two.
};

bool has_short_escape(uint32_t c) { return c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

}  // namespace

// Processes one complete character. Returns false if no continuation can match after it.
bool Automaton::read(Lex& lex, uint32_t code_point) {
  lex.expression = pool_.derivative(lex.expression, pool_.partition().class_of(code_point));
  if (!pool_.alive(lex.expression)) return false;
  lex.sub = lex.more = 0;
  if (lex.name == 0) return true;
  const uint32_t n_taken = n_taken_behind(lex.name, code_point, code_point);
  lex.name = longer_name(lex.name, code_point);
  return n_taken == 0 || pool_.count(lex.expression, n_taken + 1) > n_taken;
}

// Returns whether any character in [first, last] may come next.
bool Automaton::any_alive(const Lex& lex, uint32_t first, uint32_t last) {
  const ExprId e = lex.expression;
  const uint64_t n_taken = lex.name == 0 ? 0 : n_taken_behind(lex.name, first, last);
  if (n_taken == 0 && pool_.free_characters(e) > 0) return true;
  uint64_t n_texts = 0;
  pool_.partition().for_each_class(first, last, [&](CharClassId c, uint32_t n) {
    if (n_texts > n_taken || n == 0) return;
    const ExprId to = pool_.derivative(e, c);
    if (pool_.alive(to)) n_texts += n_taken == 0 ? 1 : n * pool_.count(to, n_taken + 1);
  });
  return n_texts > n_taken;
}

// Returns the expression that follows a character in [first, last] if it is the same for all characters in this range,
// otherwise kNothing.
ExprId Automaton::uniform(ExprId e, uint32_t first, uint32_t last) {
  if (pool_.free_characters(e) == kUnbounded && pool_.derivative(e, pool_.partition().class_of(0xE9)) == e) return e;
  ExprId one = ExpressionPool::kFailed;
  bool same = true;
  pool_.partition().for_each_class(first, last, [&](CharClassId c, uint32_t) {
    if (!same) return;
    const ExprId to = pool_.derivative(e, c);
    if (one == ExpressionPool::kFailed) one = to;
    same = one == to;
  });
  return same && one != ExpressionPool::kFailed && pool_.alive(one) ? one : ExpressionPool::kNothing;
}

// Discards the bits of an unfinished character if they do not affect the result, so that all variants of the character
// share one state.
void Automaton::forget(Lex& lex) {
  if (lex.name != 0) return;
  const uint32_t kind = lex.sub & 15, count = lex.sub >> 4 & 15;
  uint32_t first, last, sub;
  switch (kind) {
    case kUtf8:
      // After these first bytes, only a limited range of second bytes is valid.
      if ((count == 2 && (lex.more == 0 || lex.more == 0xD)) || (count == 3 && (lex.more == 0 || lex.more == 4)))
        return;
      first = lex.more << (6 * count);
      last = first | ((1u << (6 * count)) - 1);
      sub = kAnyUtf8 | count << 4;
      break;
    case kHex:
      if (count == 0 || lex.plain) return;
      first = lex.more << (4 * (4 - count));
      last = first | ((1u << (4 * (4 - count))) - 1);
      if (first <= 0xDFFF && last >= 0xD800) return;
      sub = kAnyHex | count << 4;
      break;
    case kHigh:
      first = 0x10000 + ((lex.more - 0xD800) << 10);
      last = first + 0x3FF;
      sub = kAnyHigh;
      break;
    default: return;
  }
  const ExprId behind = uniform(lex.expression, first, last);
  if (behind == ExpressionPool::kNothing) return;
  lex.expression = behind;
  lex.sub = sub;
  lex.more = 0;
}

// Returns whether the unfinished character can still become one that the expression allows.
bool Automaton::partial_is_alive(const Lex& lex) {
  const uint32_t kind = lex.sub & 15, count = lex.sub >> 4 & 15;
  switch (kind) {
    case kUtf8: {
      uint32_t first = lex.more << (6 * count), last = first | ((1u << (6 * count)) - 1);
      // Excludes overlong encodings: if the first byte has no value bits, the range starts above the code points that
      // have shorter encodings.
      if (count == 2 && lex.more == 0) first = 0x800;
      if (count == 3 && lex.more == 0) first = 0x10000;
      if (count == 2 && lex.more == 0xD) last = 0xD7FF;
      return any_alive(lex, first, std::min(last, kLastCodePoint));
    }
    case kEscape:
      if (lex.plain) return any_alive(lex, 0, 0x1F) || any_alive(lex, '"', '"') || any_alive(lex, '\\', '\\');
      return any_alive(lex, 0, kLastCodePoint);
    case kHex: {
      const uint32_t first = lex.more << (4 * (4 - count)), last = first | ((1u << (4 * (4 - count))) - 1);
      if (lex.plain) {
        for (uint32_t c = first; c <= std::min(last, 0x1Fu); ++c)
          if (!has_short_escape(c) && any_alive(lex, c, c)) return true;
        return false;
      }
      // Surrogates are not characters, but a high surrogate may be the first half of a pair.
      if (first < 0xD800 && any_alive(lex, first, std::min(last, 0xD7FFu))) return true;
      if (last > 0xDFFF && any_alive(lex, std::max(first, 0xE000u), last)) return true;
      const uint32_t low = std::max(first, 0xD800u), high = std::min(last, 0xDBFFu);
      return low <= high && any_alive(lex, 0x10000 + ((low - 0xD800) << 10), 0x10000 + ((high - 0xD800) << 10) + 0x3FF);
    }
    case kHigh:
    case kHighEscape:
      return any_alive(lex, 0x10000 + ((lex.more - 0xD800) << 10), 0x10000 + ((lex.more - 0xD800) << 10) + 0x3FF);
    case kLowHex: {
      const uint32_t value = lex.sub >> 8;
      uint32_t first = value << (4 * (4 - count)), last = first | ((1u << (4 * (4 - count))) - 1);
      first = std::max(first, 0xDC00u);
      last = std::min(last, 0xDFFFu);
      if (first > last) return false;
      const uint32_t base = 0x10000 + ((lex.more - 0xD800) << 10);
      return any_alive(lex, base + (first - 0xDC00), base + (last - 0xDC00));
    }
    default: return true;
  }
}

// Reads one byte of text outside JSON. In such text, control characters and backslashes are not escaped.
bool Automaton::step_plain_character(Lex& lex, uint8_t byte, bool& at_boundary) {
  if (lex.sub == kBetween && (byte < 0x20 || byte == '\\')) return at_boundary = true, read(lex, byte);
  return step_character(lex, byte, at_boundary);
}

// Reads one byte of a string. Returns false if no continuation can match after it.
bool Automaton::step_character(Lex& lex, uint8_t byte, bool& at_boundary) {
  at_boundary = false;
  const uint32_t kind = lex.sub & 15, count = lex.sub >> 4 & 15;
  const auto partial = [&](uint32_t sub, uint32_t more) {
    lex.sub = sub;
    lex.more = more;
    if (!partial_is_alive(lex)) return false;
    forget(lex);
    return true;
  };
  switch (kind) {
    case kBetween:
      if (byte < 0x20) return false;
      if (byte == '\\') return partial(kEscape, 0);
      if (byte < 0x80) return at_boundary = true, read(lex, byte);
      if (byte >= 0xC2 && byte <= 0xDF) return partial(kUtf8 | 1 << 4, byte & 0x1Fu);
      if (byte >= 0xE0 && byte <= 0xEF) return partial(kUtf8 | 2 << 4, byte & 0x0Fu);
      if (byte >= 0xF0 && byte <= 0xF4) return partial(kUtf8 | 3 << 4, byte & 0x07u);
      return false;
    case kUtf8: {
      if ((byte & 0xC0) != 0x80) return false;
      if (count == 2 && lex.more == 0 && byte < 0xA0) return false;
      if (count == 2 && lex.more == 0xD && byte > 0x9F) return false;
      if (count == 3 && lex.more == 0 && byte < 0x90) return false;
      if (count == 3 && lex.more == 4 && byte > 0x8F) return false;
      const uint32_t value = lex.more << 6 | (byte & 0x3Fu);
      if (count == 1) return at_boundary = true, read(lex, value);
      if (count == 3 && value == 0) return false;
      return partial(kUtf8 | (count - 1) << 4, value);
    }
    case kAnyUtf8:
      if ((byte & 0xC0) != 0x80) return false;
      lex.sub = count == 1 ? uint32_t{kBetween} : kAnyUtf8 | (count - 1) << 4;
      return true;
    case kAnyHex:
      if (hex_digit(byte) < 0) return false;
      lex.sub = count == 3 ? uint32_t{kBetween} : kAnyHex | (count + 1) << 4;
      return true;
    case kAnyHigh: lex.sub = kAnyHighEscape; return byte == '\\';
    case kAnyHighEscape: lex.sub = kAnyLowHex; return byte == 'u';
    case kAnyLowHex: {
      const int digit = hex_digit(byte);
      if (digit < 0 || (count == 0 && digit != 0xD) || (count == 1 && digit < 0xC)) return false;
      lex.sub = count == 3 ? uint32_t{kBetween} : kAnyLowHex | (count + 1) << 4;
      return true;
    }
    case kEscape:
      at_boundary = true;
      switch (byte) {
        case '"':
        case '\\': return read(lex, byte);
        case '/': return !lex.plain && read(lex, byte);
        case 'b': return read(lex, '\b');
        case 'f': return read(lex, '\f');
        case 'n': return read(lex, '\n');
        case 'r': return read(lex, '\r');
        case 't': return read(lex, '\t');
        case 'u': at_boundary = false; return partial(kHex, 0);
        default: return false;
      }
    case kHex: {
      const int digit = hex_digit(byte);
      if (digit < 0) return false;
      const uint32_t value = lex.more << 4 | static_cast<uint32_t>(digit);
      if (count < 3) return partial(kHex | (count + 1) << 4, value);
      if (lex.plain && (value > 0x1F || has_short_escape(value))) return false;
      if (value >= 0xDC00 && value <= 0xDFFF) return false;  // A lone low surrogate is not a character.
      if (value >= 0xD800 && value <= 0xDBFF) return partial(kHigh, value);
      return at_boundary = true, read(lex, value);
    }
    case kHigh: return byte == '\\' && partial(kHighEscape, lex.more);
    case kHighEscape: return byte == 'u' && partial(kLowHex, lex.more);
    case kLowHex: {
      const int digit = hex_digit(byte);
      if (digit < 0) return false;
      const uint32_t value = (lex.sub >> 8) << 4 | static_cast<uint32_t>(digit);
      if (count < 3) return partial(kLowHex | (count + 1) << 4 | value << 8, lex.more);
      if (value < 0xDC00 || value > 0xDFFF) return false;
      return at_boundary = true, read(lex, 0x10000 + ((lex.more - 0xD800) << 10) + (value - 0xDC00));
    }
    default: return false;
  }
}

}  // namespace monolith::grammar
