// Builds expressions for JSON numbers within bounds. The functions have no side effects.
#pragma once

#include <optional>
#include <string>

#include "text/grammar/expression.h"

namespace monolith::grammar {

// An exact decimal number: ±digits.digits, without leading or trailing zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  // Parses a JSON number. Returns nullopt if the number has more than 64 digits on either side of the decimal point
  // when written without an exponent.
  static std::optional<Decimal> parse(const std::string& json);
  bool is_whole() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const { return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction); }
  int compare(const Decimal& other) const;  // Returns < 0, 0 or > 0.
};

struct NumberBounds {
  std::optional<Decimal> least, most;
  bool above_least = false, below_most = false;  // Whether the bound itself is excluded.
};

ExprId integers(ExpressionPool& pool, const NumberBounds& bounds);
// Expression for all numbers within the bounds, including integers. Exponents are allowed only if there are no bounds
// or if the only bound is "at least 0".
ExprId decimals(ExpressionPool& pool, const NumberBounds& bounds);

}  // namespace monolith::grammar
