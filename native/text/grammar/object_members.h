// Which properties an object can have together, where some need others and all are counted. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/grammar/fuel.h"
#include "text/grammar/schema.h"

namespace monolith::grammar {

// Whether names that are no property's are told apart, since an object needs several: what comes twice counts once.
bool counts_names(const ObjectShape& object);

// Adds to the properties that are there, or must be, what these need.
void add_needed(const ObjectShape& object, std::vector<bool>& there);

// Takes away the properties that need what may not be there. False when out of fuel.
bool drop_unmet(const ObjectShape& object, std::vector<bool>& may, Fuel& fuel);

// Whether `least` to `most` properties can be there together: all of `must`, no others than those of `may`, each with what it
// needs. Nothing when out of fuel: to choose a number of members that need each other in groups is as hard as packing.
std::optional<bool> can_have(const ObjectShape& object, std::vector<bool> must, std::vector<bool> may, uint64_t least,
                             uint64_t most, Fuel& fuel);

}  // namespace monolith::grammar
