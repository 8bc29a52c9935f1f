// NativeEngine: one environment's hold on a running engine. Belongs to that environment's JavaScript thread.
#pragma once

#include <napi.h>

#include <memory>

#include "addon/channel.h"
#include "addon/engine_registry.h"

namespace monolith::addon {

class EngineHandle : public Napi::ObjectWrap<EngineHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Value create(Napi::Env env, EngineRef engine);

  explicit EngineHandle(const Napi::CallbackInfo& info);  // called by create() alone

 private:
  Napi::Value open(const Napi::CallbackInfo& info);
  Napi::Value tokenize(const Napi::CallbackInfo& info);
  Napi::Value tokenize_async(const Napi::CallbackInfo& info);
  Napi::Value token_bytes(const Napi::CallbackInfo& info);
  Napi::Value find_token(const Napi::CallbackInfo& info);
  Napi::Value detokenize(const Napi::CallbackInfo& info);
  Napi::Value compile_grammar(const Napi::CallbackInfo& info);
  Napi::Value plan_image(const Napi::CallbackInfo& info);
  Napi::Value prepare_image(const Napi::CallbackInfo& info);
  Napi::Value stats(const Napi::CallbackInfo& info);
  Napi::Value profile(const Napi::CallbackInfo& info);
  void configure(const Napi::CallbackInfo& info);
  void drain(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  // The engine, or null after throwing `closed`.
  EngineRef engine(Napi::Env env);

  EngineRef engine_;                      // null once closed
  std::shared_ptr<ChannelSet> channels_;  // outlives this handle as long as one of them
};

}  // namespace monolith::addon
