#include "addon/functions.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "addon/arguments.h"
#include "addon/errors.h"

namespace monolith::addon {

// Takes an open-file-description lock. It excludes other threads, processes and containers that open the same file. The
// kernel releases it when the descriptor is closed or the process ends. Unlike a POSIX record lock, it is not lost when
// other code in the process opens and closes the same file.
Napi::Value js_lock_file(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const auto descriptor =
      static_cast<int>(arguments.integer(arguments.argument(0, "descriptor"), 0, std::numeric_limits<int>::max()));
  if (!arguments.ok()) return env.Undefined();
  struct flock range {};  // All zero: the range is the whole file.
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  int outcome = 0;
  do {
    outcome = fcntl(descriptor, F_OFD_SETLK, &range);
  } while (outcome != 0 && errno == EINTR);
  if (outcome == 0) return Napi::Boolean::New(env, true);
  if (errno == EAGAIN || errno == EACCES) return Napi::Boolean::New(env, false);
  return raise(env, Error{ErrorCode::kIo, std::string("file cannot be locked: ") + std::strerror(errno)});
}

}  // namespace monolith::addon
