// Priority of background threads.
#pragma once

namespace monolith {

// Permanently lowers the priority of the calling thread. No effect on systems without per-thread priorities.
void lower_priority();

}  // namespace monolith
