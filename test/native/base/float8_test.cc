// Compares E4M3 encoding and decoding with the definition in double precision: every code, the numbers halfway between
// adjacent codes, and random numbers.
#include "base/float8.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "check.h"

using namespace monolith;

namespace {

double value_of(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return code & 128 ? -size : size;
}

// Returns the code whose magnitude is nearest to `size`. Ties go to the even code.
int nearest(double size) {
  int best = 0;
  for (int code = 1; code < 0x7f; ++code) {
    const double was = std::abs(value_of(best) - size), is = std::abs(value_of(code) - size);
    if (is < was || (is == was && code % 2 == 0)) best = code;
  }
  return best;
}

void check_value(float value) {
  const int expected = nearest(std::abs(static_cast<double>(value))) | (std::signbit(value) ? 128 : 0);
  CHECK_EQ(static_cast<int>(float_to_e4m3(value)), expected);
}

}  // namespace

TEST(e4m3_codes_decode_to_their_values) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 127) == 127) {
      CHECK(std::isnan(value));
      continue;
    }
    CHECK(static_cast<double>(value) == value_of(code) && std::signbit(value) == (code >= 128));
    CHECK_EQ(static_cast<int>(float_to_e4m3(value)), code);
  }
}

TEST(e4m3_encodes_to_the_nearest_value) {
  for (int code = 0; code < 0x7e; ++code) {
    const auto tie = static_cast<float>((value_of(code) + value_of(code + 1)) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)}) {
      check_value(value);
      check_value(-value);
    }
  }
  std::mt19937 source(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = static_cast<uint32_t>(source());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) check_value(value);
    check_value(std::ldexp(static_cast<float>(static_cast<int32_t>(bits)), -static_cast<int>(22 + bits % 20)));
  }
  for (const float large : {448.0f, 464.0f, 465.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    CHECK_EQ(static_cast<int>(float_to_e4m3(large)), 0x7e);
    CHECK_EQ(static_cast<int>(float_to_e4m3(-large)), 0xfe);
  }
  CHECK(std::isnan(e4m3_to_float(float_to_e4m3(std::numeric_limits<float>::quiet_NaN()))));
}
