// An exclusive file lock that the kernel releases when the process ends.
#pragma once

#include <napi.h>

namespace monolith::addon {

// Implements `Addon.lockFile`.
Napi::Value js_lock_file(const Napi::CallbackInfo& info);

}  // namespace monolith::addon
