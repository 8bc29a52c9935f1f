// Errors of native/ as JavaScript ones: Error with `code` set to a NativeErrorCode of addon-types.ts.
#pragma once

#include <napi.h>

#include "base/result.h"

namespace monolith::addon {

Napi::Value to_js_error(Napi::Env env, const Error& error);
// Throws it; returns undefined for `return raise(...)`.
Napi::Value raise(Napi::Env env, const Error& error);
Napi::Value raise_closed(Napi::Env env, const char* what);  // "<what> is closed"

// Turns an exception pending after a call into JavaScript into an uncaughtException. Otherwise Node
// would swallow it with a warning: nobody stands above a callback from a native thread.
void report_pending_exception(Napi::Env env);

}  // namespace monolith::addon
