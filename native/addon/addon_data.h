// What belongs to one JavaScript environment (the main thread or a worker): the classes of the addon.
#pragma once

#include <napi.h>

namespace monolith::addon {

struct AddonData {
  Napi::FunctionReference engine_class, channel_class, tokenizer_class, grammar_class, image_class;

  static AddonData& of(Napi::Env env) { return *env.GetInstanceData<AddonData>(); }
};

// Runs `function(data)` when the environment is torn down, unless released or destroyed before. Hooks run
// in reverse order of their making: one made after a thread-safe function runs before that is closed.
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
