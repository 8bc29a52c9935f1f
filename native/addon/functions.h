// Functions that addon.cc exports but other files implement. Their JavaScript names and types are in
// src/engine/addon-types.ts.
#pragma once

#include <napi.h>

namespace monolith::addon {

// Implements `debugVision`.
Napi::Value js_debug_vision(const Napi::CallbackInfo& info);

// Implements `lockFile`: takes an exclusive file lock, which the kernel releases when the process ends.
Napi::Value js_lock_file(const Napi::CallbackInfo& info);

// Implements `guardLmdbErrors`: works around a heap overflow in the lmdb package that a full disk can trigger.
Napi::Value js_guard_lmdb_errors(const Napi::CallbackInfo& info);

}  // namespace monolith::addon
