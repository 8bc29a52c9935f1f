// Makes a failing scenario smaller: leaves out what is done to the engine as long as it fails the same way.
#pragma once

#include <functional>
#include <vector>

#include "simulation/scenario.h"

namespace monolith::simulation {

// `fails`: whether a run with these of the actions does. Returns the smallest selection found, within `most_runs` runs.
std::vector<bool> shrink(size_t n_actions, const std::function<bool(const std::vector<bool>&)>& fails, int most_runs);

}  // namespace monolith::simulation
