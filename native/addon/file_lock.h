// The lock of a file that the kernel holds for this process, and drops with it.
#pragma once

#include <napi.h>

namespace monolith::addon {

// Addon.lockFile.
Napi::Value js_lock_file(const Napi::CallbackInfo& info);

}  // namespace monolith::addon
