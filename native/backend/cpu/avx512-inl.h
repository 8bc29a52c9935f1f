// What all kernels in AVX-512 share. Include only in files *avx512*.cc.
#pragma once

// GCC 12 takes _mm512_undefined_*(), inside its own intrinsics, for a mistake of ours (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include "backend/cpu/unroll.h"

namespace monolith {
namespace {

// Four bytes, in every lane. Written out because GCC 12 does not fold the broadcast into the instruction's operand.
template <typename T>
[[gnu::always_inline]] inline __m512i broadcast_four_bytes(const T* at) {
  __m512i all;
  asm("vpbroadcastd %1, %0" : "=v"(all) : "m"(*reinterpret_cast<const T(*)[4 / sizeof(T)]>(at)));
  return all;
}

// The first `count` of 16 lanes, all of them from 16 on.
[[gnu::always_inline]] inline __mmask16 first_lanes(int count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << count) - 1);
}

}  // namespace
}  // namespace monolith
