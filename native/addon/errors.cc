#include "addon/errors.h"

namespace monolith::addon {
namespace {

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo: return "io";
    case ErrorCode::kInvalidFile: return "invalid_file";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kQueueFull: return "queue_full";
    case ErrorCode::kTooLong: return "too_long";
    case ErrorCode::kClosed: return "closed";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

}  // namespace

Napi::Value to_js_error(Napi::Env env, const Error& error) {
  napi_value message = nullptr, code = nullptr, result = nullptr;
  napi_create_string_utf8(env, error.message.data(), error.message.size(), &message);
  napi_create_string_utf8(env, code_name(error.code), NAPI_AUTO_LENGTH, &code);
  // Sets `code` as an own property of the error.
  if (napi_create_error(env, code, message, &result) != napi_ok) return env.Undefined();
  return {env, result};
}

Napi::Value raise(Napi::Env env, const Error& error) {
  napi_throw(env, to_js_error(env, error));
  return env.Undefined();
}

Napi::Value raise_closed(Napi::Env env, const char* what) {
  return raise(env, {ErrorCode::kClosed, std::string(what) + " is closed"});
}

void report_pending_exception(Napi::Env env) {
  napi_value exception = nullptr;
  bool pending = false;
  if (napi_is_exception_pending(env, &pending) != napi_ok || !pending) return;
  if (napi_get_and_clear_last_exception(env, &exception) == napi_ok) napi_fatal_exception(env, exception);
}

}  // namespace monolith::addon
