#include "engine/text/thread_priority.h"

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace monolith {

void lower_priority() {
#if defined(__linux__)
  constexpr int kNice = 10;
  // Applies to this thread only, because Linux has a nice value per thread.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
#endif
}

}  // namespace monolith
