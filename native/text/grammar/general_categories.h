// Unicode's general categories by the names that patterns have for them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/grammar/code_points.h"

namespace monolith::grammar {

// Of \p{…}: "Lu", "Uppercase_Letter", "L", "Letter", "LC" and so on, without surrogates. Nothing if there is no such category.
std::optional<CodePointSet> general_category(std::string_view name);

// Where runs of one category begin, ascending from 0: the code point times 32, plus the category by its place in the table
// of names. A run goes on to the next.
std::span<const uint32_t> general_category_starts();

}  // namespace monolith::grammar
