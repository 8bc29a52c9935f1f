// A JavaScript environment's pending load() call.
#pragma once

#include <napi.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "addon/addon_data.h"
#include "addon/engine_registry.h"

namespace monolith::addon {

class LoadRequest final : public LoadListener {
 public:
  // Returns a promise for a NativeEngine. The process stays alive until the promise is settled.
  static Napi::Value start(Napi::Env env, const std::string& name, const std::string& path, const LoadOptions& options,
                           const Napi::Function& on_progress);

  // The on_*() functions are called on the loading thread.
  void on_progress(float fraction) override;
  void on_loaded(Result<EngineRef> result) override;

 private:
  static void on_wake(Napi::Env env, Napi::Function on_progress, LoadRequest* request, void* unused);
  using Wakeups = Napi::TypedThreadSafeFunction<LoadRequest, void, &LoadRequest::on_wake>;

  LoadRequest() = default;
  void wake();  // Requires that mutex_ is held.
  void settle(Napi::Env env, Result<EngineRef> result);

  napi_deferred deferred_ = nullptr;
  Wakeups wakeups_;
  std::unique_ptr<TeardownHook> hook_;

  std::mutex mutex_;
  bool queued_ = false;            // A wake-up is already queued, so another one is not needed.
  std::optional<float> fraction_;  // Progress that JavaScript has not received yet.
  std::optional<Result<EngineRef>> result_;
};

}  // namespace monolith::addon
