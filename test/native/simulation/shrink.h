// Reduces a failing scenario: leaves out actions as long as the scenario still fails.
#pragma once

#include <functional>
#include <vector>

#include "simulation/scenario.h"

namespace monolith::simulation {

// `fails` returns whether a run with the selected actions fails. Returns the smallest selection found within
// `most_runs` runs.
std::vector<bool> shrink(size_t n_actions, const std::function<bool(const std::vector<bool>&)>& fails, int most_runs);

}  // namespace monolith::simulation
