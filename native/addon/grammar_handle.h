// NativeGrammar, the JavaScript object for a compiled grammar, and compileGrammar().
#pragma once

#include <napi.h>

#include "addon/arguments.h"
#include "addon/engine_registry.h"
#include "addon/guard.h"
#include "engine/request.h"
#include "text/grammar/grammar.h"

namespace monolith::addon {

class GrammarHandle : public Napi::ObjectWrap<GrammarHandle> {
 public:
  static Napi::Function define(Napi::Env env);

  explicit GrammarHandle(const Napi::CallbackInfo& info);  // Called only by compile_grammar().
  void Finalize(Napi::Env env) override { account(env, 0); }

  // Returns the grammar. If the value is not a grammar or belongs to another engine, throws a TypeError and returns
  // null.
  static GrammarRef read(Arguments& arguments, const Named& named, const Engine& engine);

 private:
  // Wraps a method so that no C++ exception leaves it.
  template <auto method>
  Napi::Value guarded(const Napi::CallbackInfo& info) {
    return guarded_call(info.Env(), [&] { return (this->*method)(info); });
  }
  // Reports the size of the grammar's native memory to V8, so that V8 takes it into account when it schedules garbage
  // collections.
  void account(Napi::Env env, int64_t bytes);

  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value follow(const Napi::CallbackInfo& info);

  GrammarRef grammar_;
  int64_t accounted_ = 0;
};

// JavaScript signature: (options) => Promise<CompiledGrammar>.
Napi::Value compile_grammar(const Napi::CallbackInfo& info, const EngineRef& engine);

}  // namespace monolith::addon
