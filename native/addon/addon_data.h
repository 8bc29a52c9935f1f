// State of one JavaScript environment (the main thread or a worker thread): the constructors of the addon's classes.
#pragma once

#include <napi.h>

namespace monolith::addon {

struct AddonData {
  Napi::FunctionReference engine_class, channel_class, tokenizer_class, grammar_class, image_class, tier_class;

  static AddonData& of(Napi::Env env) { return *env.GetInstanceData<AddonData>(); }
};

// Runs `function(data)` when the JavaScript environment is torn down, unless the hook has been released or destroyed.
// Node runs hooks in reverse order of creation, so a hook created after a thread-safe function runs before that
// function is closed.
class TeardownHook {
 public:
  TeardownHook(napi_env env, void (*function)(void*), void* data) : env_(env), function_(function), data_(data) {
    napi_add_env_cleanup_hook(env_, function_, data_);
  }
  ~TeardownHook() { release(); }
  TeardownHook(const TeardownHook&) = delete;
  TeardownHook& operator=(const TeardownHook&) = delete;

  void release() {
    if (env_) napi_remove_env_cleanup_hook(env_, function_, data_);
    env_ = nullptr;
  }

 private:
  napi_env env_;
  void (*function_)(void*);
  void* data_;
};

}  // namespace monolith::addon
