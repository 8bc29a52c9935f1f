// What the emulated device is to fail at, as tests want it. A real device reads none of it.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"

namespace monolith::cuda {

struct Faults {
  std::function<std::optional<Error>(bool early)> recording;  // asked when one ends; not set: none fails
};
Faults& faults();

}  // namespace monolith::cuda
