// Implements `debugVision` of src/engine/addon-types.ts.
#pragma once

#include <napi.h>

namespace monolith::addon {

Napi::Value js_debug_vision(const Napi::CallbackInfo& info);

}  // namespace monolith::addon
