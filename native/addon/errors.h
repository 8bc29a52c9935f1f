// Converts engine errors to JavaScript Error objects whose `code` is a NativeErrorCode from addon-types.ts.
#pragma once

#include <napi.h>

#include "base/result.h"

namespace monolith::addon {

Napi::Value to_js_error(Napi::Env env, const Error& error);
// Throws the error as a JavaScript exception. Returns undefined, so callers can write `return raise(...)`.
Napi::Value raise(Napi::Env env, const Error& error);
Napi::Value raise_closed(Napi::Env env, const char* what);  // Throws the error "<what> is closed".

// If an exception is pending after a call into JavaScript, emits it as an uncaughtException event. A callback from a
// native thread has no JavaScript caller, so Node would only print a warning and drop the exception.
void report_pending_exception(Napi::Env env);

}  // namespace monolith::addon
