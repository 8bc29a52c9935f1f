// tokenize() and detokenize(), shared by running engines and by NativeTokenizer, a tokenizer opened without an engine.
#pragma once

#include <napi.h>

#include <memory>

#include "addon/guard.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith::addon {

Napi::Value tokenize(const Napi::CallbackInfo& info, const Tokenizer& tokenizer);
Napi::Value detokenize(const Napi::CallbackInfo& info, const Tokenizer& tokenizer);

// The JavaScript class NativeTokenizer.
class TokenizerHandle : public Napi::ObjectWrap<TokenizerHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Value create(Napi::Env env, std::shared_ptr<const Tokenizer> tokenizer);

  explicit TokenizerHandle(const Napi::CallbackInfo& info);  // Called only by create().

 private:
  // Wraps a method so that no C++ exception leaves it.
  template <auto method>
  Napi::Value guarded(const Napi::CallbackInfo& info) {
    return guarded_call(info.Env(), [&] { return (this->*method)(info); });
  }
  Napi::Value tokenize(const Napi::CallbackInfo& info) { return addon::tokenize(info, *tokenizer_); }
  Napi::Value detokenize(const Napi::CallbackInfo& info) { return addon::detokenize(info, *tokenizer_); }

  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace monolith::addon
