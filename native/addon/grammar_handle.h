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

  explicit GrammarHandle(const Napi::CallbackInfo& info);   // called by compile_grammar() alone

  // Null if it is none, or another engine's: then a TypeError is pending.
  static GrammarRef read(Arguments& arguments, const Named& named, const Engine& engine);

 private:
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value follow(const Napi::CallbackInfo& info);

  GrammarRef grammar_;
};

// (options) => Promise<CompiledGrammar>
Napi::Value compile_grammar(const Napi::CallbackInfo& info, const EngineRef& engine);

}  // namespace monolith::addon
