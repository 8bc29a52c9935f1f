#include "text/grammar/number_ranges.h"

#include <algorithm>
#include <vector>

namespace monolith::grammar {
namespace {

constexpr int kMaxDigits = 64;

class Ranges {
 public:
  explicit Ranges(ExpressionPool& pool) : pool_(pool) {}

  ExprId digit(char first, char last) {
    return first > last ? ExpressionPool::kNothing
                        : pool_.set(CodePointSet::of(static_cast<uint32_t>(first), static_cast<uint32_t>(last)));
  }
  ExprId digits(uint32_t n) { return pool_.repeat(digit('0', '9'), n, n); }
  ExprId more_digits() { return pool_.star(digit('0', '9')); }
  // Matches either 0 or digits without a leading zero.
  ExprId whole() { return pool_.either(pool_.character('0'), pool_.concat(digit('1', '9'), more_digits())); }
  ExprId fraction() { return pool_.concat(pool_.character('.'), pool_.repeat(digit('0', '9'), 1, kUnbounded)); }
  ExprId zeros() { return pool_.star(pool_.character('0')); }
  ExprId optional(ExprId e) { return pool_.either(ExpressionPool::kEmpty, e); }

  // Matches the digit strings that have as many digits as `bound` and whose value is at least `bound` (if `at_least` is
  // set) or at most `bound` (otherwise).
  ExprId same_length(const std::string& bound, bool at_least) {
    ExprId e = ExpressionPool::kEmpty;  // The bound itself, built from the last digit to the first.
    for (size_t i = bound.size(); i-- > 0;) {
      const char d = bound[i];
      const ExprId beyond = at_least ? digit(static_cast<char>(d + 1), '9') : digit('0', static_cast<char>(d - 1));
      e = pool_.either(pool_.concat(digit(d, d), e),
                       pool_.concat(beyond, digits(static_cast<uint32_t>(bound.size() - i - 1))));
    }
    return e;
  }

  // Unsigned whole numbers.
  ExprId whole_at_least(const std::string& bound) {
    const ExprId longer =
        pool_.concat(digit('1', '9'), pool_.repeat(digit('0', '9'), static_cast<uint32_t>(bound.size()), kUnbounded));
    return pool_.either(pool_.both(same_length(bound, true), whole()), longer);
  }
  ExprId whole_at_most(const std::string& bound) {
    ExprId e = pool_.both(same_length(bound, false), whole());
    for (uint32_t length = 1; length < bound.size(); ++length) e = pool_.either(e, pool_.both(digits(length), whole()));
    return e;
  }

  // Matches one or more digits after the decimal point whose value is above the fraction `bound` (if `at_least` is set)
  // or below it (otherwise). The bound itself matches too, unless `strict` is set.
  ExprId fraction_beyond(const std::string& bound, bool at_least, bool strict) {
    const ExprId equal_tail = strict ? ExpressionPool::kNothing : zeros();
    // Matches what may follow once the text has matched all digits of the bound.
    ExprId e;
    if (at_least)
      e = strict ? pool_.concat(zeros(), pool_.concat(digit('1', '9'), more_digits())) : more_digits();
    else
      e = equal_tail;
    for (size_t i = bound.size(); i-- > 0;) {
      const char d = bound[i];
      const ExprId beyond = at_least ? digit(static_cast<char>(d + 1), '9') : digit('0', static_cast<char>(d - 1));
      ExprId way = pool_.concat(digit(d, d), e);
      way = pool_.either(way, pool_.concat(beyond, more_digits()));
      // The number may end here, because missing digits count as zeros.
      const bool rest_is_zero = bound.find_first_not_of('0', i) == std::string::npos;
      if (at_least ? (rest_is_zero && !strict) : (!rest_is_zero || !strict))
        way = pool_.either(way, ExpressionPool::kEmpty);
      e = way;
    }
    return e;
  }

  // Matches the numbers without sign and exponent that are at least the bound (if `at_least` is set) or at most the
  // bound (otherwise).
  ExprId beyond(const Decimal& bound, bool at_least, bool strict) {
    const std::string& whole_part = bound.whole;
    ExprId e = ExpressionPool::kNothing;
    if (at_least) {
      const std::string next = plus_one(whole_part);
      e = pool_.concat(whole_at_least(next), optional(fraction()));
    } else if (whole_part != "0") {
      e = pool_.concat(whole_at_most(minus_one(whole_part)), optional(fraction()));
    }
    const ExprId same = pool_.literal(whole_part);
    const ExprId point = pool_.character('.');
    const ExprId tail =
        pool_.both(fraction_beyond(bound.fraction, at_least, strict), pool_.repeat(digit('0', '9'), 1, kUnbounded));
    e = pool_.either(e, pool_.concat(same, pool_.concat(point, tail)));
    // Numbers without a fraction.
    const bool fits_alone = bound.fraction.empty() ? !strict : !at_least;
    if (fits_alone) e = pool_.either(e, same);
    return e;
  }

  static std::string plus_one(std::string digits) {
    for (size_t i = digits.size(); i-- > 0;) {
      if (digits[i] != '9') {
        ++digits[i];
        return digits;
      }
      digits[i] = '0';
    }
    return "1" + digits;
  }
  static std::string minus_one(std::string digits) {  // Requires a positive number.
    for (size_t i = digits.size(); i-- > 0;) {
      if (digits[i] != '0') {
        --digits[i];
        break;
      }
      digits[i] = '9';
    }
    const size_t first = digits.find_first_not_of('0');
    return first == std::string::npos ? "0" : digits.substr(first);
  }

 private:
  ExpressionPool& pool_;
};

}  // namespace

std::optional<Decimal> Decimal::parse(const std::string& json) {
  Decimal out;
  size_t at = 0;
  if (at < json.size() && json[at] == '-') out.negative = true, ++at;
  std::string digits;
  long point = -1;
  for (; at < json.size() && json[at] != 'e' && json[at] != 'E'; ++at) {
    if (json[at] == '.')
      point = static_cast<long>(digits.size());
    else
      digits += json[at];
  }
  if (point < 0) point = static_cast<long>(digits.size());
  if (at < json.size()) {
    const long exponent = std::strtol(json.c_str() + at + 1, nullptr, 10);
    if (exponent > 400 || exponent < -400) return std::nullopt;
    point += exponent;
  }
  if (point < 0) digits.insert(0, static_cast<size_t>(-point), '0'), point = 0;
  if (point > static_cast<long>(digits.size())) digits.append(static_cast<size_t>(point) - digits.size(), '0');
  out.whole = digits.substr(0, static_cast<size_t>(point));
  out.fraction = digits.substr(static_cast<size_t>(point));
  const size_t first = out.whole.find_first_not_of('0');
  out.whole = first == std::string::npos ? "0" : out.whole.substr(first);
  const size_t last = out.fraction.find_last_not_of('0');
  out.fraction = last == std::string::npos ? "" : out.fraction.substr(0, last + 1);
  if (out.whole.size() > kMaxDigits || out.fraction.size() > kMaxDigits) return std::nullopt;
  if (out.is_zero()) out.negative = false;
  return out;
}

int Decimal::compare(const Decimal& other) const {
  if (negative != other.negative) return negative ? -1 : 1;
  int order;
  if (whole.size() != other.whole.size())
    order = whole.size() < other.whole.size() ? -1 : 1;
  else if (whole != other.whole)
    order = whole < other.whole ? -1 : 1;
  else
    order = fraction == other.fraction ? 0 : fraction < other.fraction ? -1 : 1;
  return negative ? -order : order;
}

ExprId integers(ExpressionPool& pool, const NumberBounds& bounds) {
  Ranges ranges(pool);
  // Inclusive bounds on integers, separately for each sign.
  const auto least_whole = [&](const Decimal& bound) {  // For a non-negative bound: the smallest allowed magnitude.
    return bound.is_whole() && !bounds.above_least ? bound.whole : Ranges::plus_one(bound.whole);
  };
  const ExprId minus = pool.character('-');
  const ExprId any = ranges.whole();
  const ExprId positive_any = pool.concat(ranges.digit('1', '9'), ranges.more_digits());
  ExprId positive = any, negative = positive_any;  // Magnitudes. -0 is never written.
  if (!bounds.least && !bounds.most) return pool.concat(ranges.optional(minus), any);
  if (bounds.least) {
    const Decimal& b = *bounds.least;
    if (!b.negative) {
      negative = ExpressionPool::kNothing;
      positive = pool.both(positive, ranges.whole_at_least(least_whole(b)));
    } else {
      const bool excluded = b.is_whole() && bounds.above_least;
      if (excluded && b.whole == "0")
        negative = ExpressionPool::kNothing;
      else
        negative = pool.both(negative, ranges.whole_at_most(excluded ? Ranges::minus_one(b.whole) : b.whole));
    }
  }
  if (bounds.most) {
    const Decimal& b = *bounds.most;
    if (b.negative) {
      positive = ExpressionPool::kNothing;
      const bool same = b.is_whole() && !bounds.below_most;
      negative = pool.both(negative, ranges.whole_at_least(same ? b.whole : Ranges::plus_one(b.whole)));
    } else {
      const bool excluded = b.is_whole() && bounds.below_most;
      if (excluded && b.whole == "0")
        positive = ExpressionPool::kNothing;
      else
        positive = pool.both(positive, ranges.whole_at_most(excluded ? Ranges::minus_one(b.whole) : b.whole));
    }
  }
  return pool.either(positive, pool.concat(minus, negative));
}

ExprId decimals(ExpressionPool& pool, const NumberBounds& bounds) {
  Ranges ranges(pool);
  CodePointSet e_set = CodePointSet::of('e');
  e_set.add('E', 'E');
  CodePointSet signs = CodePointSet::of('+');
  signs.add('-', '-');
  const ExprId exponent = pool.concat(pool.set(e_set), pool.concat(ranges.optional(pool.set(signs)),
                                                                   pool.repeat(ranges.digit('0', '9'), 1, kUnbounded)));
  const ExprId magnitude = pool.concat(ranges.whole(), ranges.optional(ranges.fraction()));
  const ExprId minus = pool.character('-');
  if (!bounds.least && !bounds.most)
    return pool.concat(ranges.optional(minus), pool.concat(magnitude, ranges.optional(exponent)));
  if (bounds.least && bounds.least->is_zero() && !bounds.above_least && !bounds.most)
    return pool.concat(magnitude, ranges.optional(exponent));
  ExprId positive = magnitude, negative = magnitude;
  if (bounds.least) {
    const Decimal& b = *bounds.least;
    if (!b.negative) {
      negative = ExpressionPool::kNothing;
      positive = pool.both(positive, ranges.beyond(b, true, bounds.above_least));
    } else {
      negative = pool.both(negative, ranges.beyond(b, false, bounds.above_least));
    }
  }
  if (bounds.most) {
    const Decimal& b = *bounds.most;
    if (b.negative) {
      positive = ExpressionPool::kNothing;
      negative = pool.both(negative, ranges.beyond(b, true, bounds.below_most));
    } else {
      positive = pool.both(positive, ranges.beyond(b, false, bounds.below_most));
      if (b.is_zero() && bounds.below_most) negative = pool.both(negative, ranges.beyond(b, true, true));
    }
  }
  return pool.either(positive, pool.concat(minus, negative));
}

}  // namespace monolith::grammar
