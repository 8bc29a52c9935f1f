// Decoders from before 2024, whose layers differ from Llama's: learned positions, ALiBi, norms without weights, clamped
// queries, and MLPs in parallel with attention. Also models that run their layers several times. For tests only.
#pragma once

#include <vector>

#include "model/architecture_cases.h"

namespace monolith::testing {

std::vector<Case> earlier_cases();

// Bloom. Not every backend supports ALiBi, so this case is not in all_cases().
Case alibi_case();

}  // namespace monolith::testing
