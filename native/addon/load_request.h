// load(): waits for an engine on behalf of one environment.
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
  // The promise of a NativeEngine. The process stays alive until it is settled.
  static Napi::Value start(Napi::Env env, const std::string& name, const std::string& path, const LoadOptions& options,
                           const Napi::Function& on_progress);

  // On the loading thread.
  void on_progress(float fraction) override;
  void on_loaded(Result<EngineRef> result) override;

 private:
  static void on_wake(Napi::Env env, Napi::Function on_progress, LoadRequest* request, void* unused);
  using Wakeups = Napi::TypedThreadSafeFunction<LoadRequest, void, &LoadRequest::on_wake>;

  LoadRequest() = default;
  void wake();  // with mutex_ held
  void settle(Napi::Env env, Result<EngineRef> result);

  napi_deferred deferred_ = nullptr;
  Wakeups wakeups_;
  std::unique_ptr<TeardownHook> hook_;

  std::mutex mutex_;
  bool queued_ = false;            // a wake-up is on its way: one is enough
  std::optional<float> fraction_;  // not yet told
  std::optional<Result<EngineRef>> result_;
};

}  // namespace monolith::addon
