// Decides which properties of an object can occur together when some of them require others and the number of members
// is limited. The functions have no side effects and may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/grammar/fuel.h"
#include "text/grammar/schema.h"

namespace monolith::grammar {

// Returns whether the object must distinguish the names of undeclared members. This is the case if it needs several
// undeclared members or one with a mark, because a name that occurs twice counts only once.
bool counts_names(const ObjectShape& object);

// Returns how many undeclared members are needed to supply the `missing` marks (at most two). `offered`: the marks that
// available groups have. `together`: whether some available group has all missing marks. Returns nullopt if the groups
// cannot supply the marks.
std::optional<uint32_t> members_for_marks(uint32_t missing, uint32_t offered, bool together);

// Adds to `there` all properties that the properties in it require, directly or indirectly.
void add_needed(const ObjectShape& object, std::vector<bool>& there);

// Removes from `may` all properties that require, directly or indirectly, a property that is not in `may`. Returns
// false if the fuel runs out.
bool drop_unmet(const ObjectShape& object, std::vector<bool>& may, Fuel& fuel);

// Returns whether between `least` and `most` properties can occur together: all properties in `must`, plus any in
// `may`, each with the properties that it requires. Returns nullopt if the fuel runs out. If groups of properties
// require each other, the problem is as hard as subset sum.
std::optional<bool> can_have(const ObjectShape& object, std::vector<bool> must, std::vector<bool> may, uint64_t least,
                             uint64_t most, Fuel& fuel);

}  // namespace monolith::grammar
