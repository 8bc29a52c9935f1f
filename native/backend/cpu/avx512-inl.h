// Helpers shared by all AVX-512 kernels. Include only in files named *avx512*.cc.
#pragma once

// GCC 12 warns about _mm512_undefined_*() in its own intrinsics (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include "backend/cpu/unroll.h"

namespace monolith {
namespace {

// Broadcasts four bytes to every 32-bit lane. Written in inline assembly because GCC 12 does not fold the broadcast
// into the instruction's memory operand.
template <typename T>
[[gnu::always_inline]] inline __m512i broadcast_four_bytes(const T* at) {
  __m512i all;
  asm("vpbroadcastd %1, %0" : "=v"(all) : "m"(*reinterpret_cast<const T(*)[4 / sizeof(T)]>(at)));
  return all;
}

// Returns a mask that selects the first `count` of 16 lanes, or all lanes if count is 16 or more.
[[gnu::always_inline]] inline __mmask16 first_lanes(int count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << count) - 1);
}

}  // namespace
}  // namespace monolith
