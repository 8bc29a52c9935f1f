// NativeEngine: a JavaScript environment's reference to a running engine. Used only on that environment's JavaScript
// thread.
#pragma once

#include <napi.h>

#include <memory>

#include "addon/channel.h"
#include "addon/engine_registry.h"
#include "addon/guard.h"

namespace monolith::addon {

class EngineHandle : public Napi::ObjectWrap<EngineHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Value create(Napi::Env env, EngineRef engine);

  explicit EngineHandle(const Napi::CallbackInfo& info);  // Called only by create().

 private:
  // Wraps a method so that no C++ exception leaves it.
  template <auto method>
  Napi::Value guarded(const Napi::CallbackInfo& info) {
    return guarded_call(info.Env(), [&] { return (this->*method)(info); });
  }
  Napi::Value open(const Napi::CallbackInfo& info);
  Napi::Value tokenize(const Napi::CallbackInfo& info);
  Napi::Value tokenize_async(const Napi::CallbackInfo& info);
  Napi::Value token_bytes(const Napi::CallbackInfo& info);
  Napi::Value find_token(const Napi::CallbackInfo& info);
  Napi::Value detokenize(const Napi::CallbackInfo& info);
  Napi::Value compile_grammar(const Napi::CallbackInfo& info);
  Napi::Value plan_image(const Napi::CallbackInfo& info);
  Napi::Value prepare_image(const Napi::CallbackInfo& info);
  Napi::Value open_tier(const Napi::CallbackInfo& info);
  Napi::Value positions(const Napi::CallbackInfo& info);
  Napi::Value load_adapter(const Napi::CallbackInfo& info);
  Napi::Value unload_adapter(const Napi::CallbackInfo& info);
  Napi::Value adapters(const Napi::CallbackInfo& info);
  Napi::Value stats(const Napi::CallbackInfo& info);
  Napi::Value profile(const Napi::CallbackInfo& info);
  void configure(const Napi::CallbackInfo& info);
  void clear_cache(const Napi::CallbackInfo& info);
  void drain(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  // Returns the engine. If the handle is closed, throws a `closed` error and returns null.
  EngineRef engine(Napi::Env env);

  EngineRef engine_;  // Null after close().
  // The open channels. The channels share ownership of this list, so it may outlive the handle.
  std::shared_ptr<ChannelSet> channels_;
};

}  // namespace monolith::addon
