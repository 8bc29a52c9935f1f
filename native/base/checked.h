// Overflow-checked arithmetic for numbers read from files. Returns nullopt if the result does not fit.
#pragma once

#include <concepts>
#include <optional>

namespace monolith {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace monolith
