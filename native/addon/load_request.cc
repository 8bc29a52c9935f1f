#include "addon/load_request.h"

#include <utility>

#include "addon/engine_handle.h"
#include "addon/errors.h"
#include "addon/guard.h"

namespace monolith::addon {

Napi::Value LoadRequest::start(Napi::Env env, const std::string& name, const std::string& path,
                               const LoadOptions& options, const Napi::Function& on_progress) {
  const std::shared_ptr<LoadRequest> request(new LoadRequest);
  napi_value promise = nullptr;
  napi_create_promise(env, &request->deferred_, &promise);
  auto* owner = new std::shared_ptr<LoadRequest>(request);
  const auto finalize = [](Napi::Env, std::shared_ptr<LoadRequest>* owned, LoadRequest*) { delete owned; };
  request->wakeups_ = Wakeups::New(env, on_progress, "monolith load", 0, 1, request.get(), finalize, owner);
  request->hook_ = std::make_unique<TeardownHook>(
      env, [](void* data) { cancel_load(static_cast<LoadRequest*>(data)); }, request.get());
  load_engine(name, path, options, request);
  return {env, promise};
}

void LoadRequest::on_progress(float fraction) {
  const std::lock_guard lock(mutex_);
  fraction_ = fraction;
  wake();
}

void LoadRequest::on_loaded(Result<EngineRef> result) {
  const std::lock_guard lock(mutex_);
  result_.emplace(std::move(result));
  wake();
}

void LoadRequest::wake() {
  if (!std::exchange(queued_, true)) wakeups_.NonBlockingCall();
}

void LoadRequest::on_wake(Napi::Env env, Napi::Function on_progress, LoadRequest* request, void*) {
  if (env == nullptr) return;
  std::optional<float> fraction;
  std::optional<Result<EngineRef>> result;
  {
    const std::lock_guard lock(request->mutex_);
    request->queued_ = false;
    fraction = std::exchange(request->fraction_, std::nullopt);
    result = std::exchange(request->result_, std::nullopt);
  }
  const Napi::HandleScope scope(env);
  if (fraction) {
    napi_value argument = Napi::Number::New(env, *fraction), ignored = nullptr;
    napi_call_function(env, env.Undefined(), on_progress, 1, &argument, &ignored);
    report_pending_exception(env);
  }
  if (result) request->settle(env, std::move(*result));
}

void LoadRequest::settle(Napi::Env env, Result<EngineRef> result) {
  hook_->release();
  if (result) {
    catching([&] { napi_resolve_deferred(env, deferred_, EngineHandle::create(env, std::move(result).value())); },
             [&](const Error& error) { napi_reject_deferred(env, deferred_, to_js_error(env, error)); });
  } else {
    napi_reject_deferred(env, deferred_, to_js_error(env, result.error()));
  }
  wakeups_.Release();
}

}  // namespace monolith::addon
