// What may wait for those who compute and serve.
#pragma once

namespace monolith {

// Of this thread, for good; where the system has no such thing, nothing.
void lower_priority();

}  // namespace monolith
