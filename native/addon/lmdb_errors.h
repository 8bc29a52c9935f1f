// Works around a heap overflow in the lmdb package that a full disk triggers.
#pragma once

#include <napi.h>

namespace monolith::addon {

// Implements `Addon.guardLmdbErrors`.
Napi::Value js_guard_lmdb_errors(const Napi::CallbackInfo& info);

}  // namespace monolith::addon
