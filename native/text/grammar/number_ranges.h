// Expressions for numbers as JSON writes them, within bounds. Pure.
#pragma once

#include <optional>
#include <string>

#include "text/grammar/expression.h"

namespace monolith::grammar {

// A decimal fraction, exactly: ±digits.digits without leading or trailing zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  // From a JSON number; nothing if it has more than 64 digits on either side once written out.
  static std::optional<Decimal> parse(const std::string& json);
  bool is_whole() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const { return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction); }
  int compare(const Decimal& other) const;  // < 0, 0, > 0
};

struct NumberBounds {
  std::optional<Decimal> least, most;
  bool above_least = false, below_most = false;  // the bound itself is excluded
};

ExprId integers(ExpressionPool& pool, const NumberBounds& bounds);
// Also those that are integers. With bounds other than "at least 0" written without an exponent.
ExprId decimals(ExpressionPool& pool, const NumberBounds& bounds);

}  // namespace monolith::grammar
