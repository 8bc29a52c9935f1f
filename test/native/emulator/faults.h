// Faults that tests inject into the emulated device. A real device ignores them.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"

namespace monolith::cuda {

struct Faults {
  // Called at the end of each graph capture; a returned error makes that capture fail. Not set: no capture fails.
  std::function<std::optional<Error>(bool early)> recording;
};
Faults& faults();

}  // namespace monolith::cuda
