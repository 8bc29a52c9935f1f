// NativeGrammar: a compiled grammar in JavaScript's hands; and compileGrammar().
#pragma once

#include <napi.h>

#include "addon/arguments.h"
#include "addon/engine_registry.h"
#include "engine/request.h"
#include "text/grammar/grammar.h"

namespace monolith::addon {

class GrammarHandle : public Napi::ObjectWrap<GrammarHandle> {
 public:
  static Napi::Function define(Napi::Env env);

  explicit GrammarHandle(const Napi::CallbackInfo& info);  // called by compile_grammar() alone
  void Finalize(Napi::Env env) override { account(env, 0); }

  // Null if it is none, or another engine's: then a TypeError is pending.
  static GrammarRef read(Arguments& arguments, const Named& named, const Engine& engine);

 private:
  // What it keeps outside of JavaScript's heap: told to V8, which else sees no reason to let go of it.
  void account(Napi::Env env, int64_t bytes);

  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value follow(const Napi::CallbackInfo& info);

  GrammarRef grammar_;
  int64_t accounted_ = 0;
};

// (options) => Promise<CompiledGrammar>
Napi::Value compile_grammar(const Napi::CallbackInfo& info, const EngineRef& engine);

}  // namespace monolith::addon
