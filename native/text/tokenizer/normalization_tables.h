// Unicode's normalization data, as generate_normalization_tables.mjs writes it. Immutable; any thread.
#pragma once

#include <span>

namespace monolith {

// Triples: first and last code point, and their combining class. Classes are numbered from 1 in Unicode's order;
// code points in no range have class 0.
std::span<const char32_t> combining_class_table();

// Full decompositions, without those of Hangul syllables. Blocks of neighbouring code points: the first, their number,
// the length of each decomposition, then the decompositions.
std::span<const char32_t> canonical_table();
// The same for code points whose compatibility decomposition differs from the canonical one.
std::span<const char32_t> compatible_table();

// Code points that decompose into several, but that composition never makes.
std::span<const char32_t> never_composed_table();

}  // namespace monolith
