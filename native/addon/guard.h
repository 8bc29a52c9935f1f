// Stops C++ exceptions at the boundary to JavaScript. An exception cannot unwind V8's stack frames, so one that reached
// them would end the process.
#pragma once

#include <napi.h>

#include <exception>
#include <new>
#include <type_traits>

#include "addon/errors.h"

namespace monolith::addon {

// Error for a failed allocation. The message fits in std::string's inline buffer, so it needs no allocation.
inline Error out_of_memory() { return {ErrorCode::kOutOfMemory, "no memory"}; }

// Runs `body`. If it throws, passes the error to `on_error`.
template <typename Body, typename OnError>
auto catching(Body&& body, OnError&& on_error) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return on_error(out_of_memory());
  } catch (const std::exception& error) {
    try {
      return on_error({ErrorCode::kInternal, error.what()});
    } catch (const std::bad_alloc&) {
      return on_error(out_of_memory());
    }
  }
}

// Runs the body of a function or method that JavaScript calls. Converts C++ exceptions to JavaScript exceptions.
template <typename Body>
Napi::Value guarded_call(Napi::Env env, Body&& body) {
  return catching(
      [&]() -> Napi::Value {
        if constexpr (std::is_void_v<decltype(body())>) {
          body();
          return env.Undefined();
        } else {
          return body();
        }
      },
      [&](const Error& error) { return raise(env, error); });
}

template <Napi::Value (*function)(const Napi::CallbackInfo&)>
Napi::Value guarded(const Napi::CallbackInfo& info) {
  return guarded_call(info.Env(), [&] { return function(info); });
}

}  // namespace monolith::addon
