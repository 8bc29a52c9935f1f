// Lists the test cases of all architectures. For tests only.
#pragma once

#include "model/architecture_cases.h"
#include "model/earlier_cases.h"
#include "model/mixture_cases.h"
#include "model/recurrent_cases.h"

namespace monolith::testing {

std::vector<Case> all_cases();

}  // namespace monolith::testing
