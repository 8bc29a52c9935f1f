// Unicode general categories, looked up by the names that patterns use. Pure functions that may be called from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/grammar/code_points.h"

namespace monolith::grammar {

// Returns the set for a category name as used in \p{…}, such as "Lu", "Uppercase_Letter", "L", "Letter" or "LC".
// Surrogates are excluded. Returns nullopt for an unknown name.
std::optional<CodePointSet> general_category(std::string_view name);

// Returns the set for an emoji property as used in \p{…}, such as "Extended_Pictographic". Returns nullopt for any
// other name.
std::optional<CodePointSet> emoji_property(std::string_view name);

// One entry per run of code points with the same category, in ascending order from code point 0. An entry is the run's
// first code point times 32, plus the index of the category in the table of names. Each run extends to the start of the
// next one.
std::span<const uint32_t> general_category_starts();

}  // namespace monolith::grammar
