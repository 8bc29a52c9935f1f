// tokenize() and detokenize(), the same for a running engine and for a tokenizer opened alone; and that one.
#pragma once

#include <napi.h>

#include <memory>

#include "text/tokenizer/tokenizer.h"

namespace monolith::addon {

Napi::Value tokenize(const Napi::CallbackInfo& info, const Tokenizer& tokenizer);
Napi::Value detokenize(const Napi::CallbackInfo& info, const Tokenizer& tokenizer);

// NativeTokenizer.
class TokenizerHandle : public Napi::ObjectWrap<TokenizerHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Value create(Napi::Env env, std::shared_ptr<const Tokenizer> tokenizer);

  explicit TokenizerHandle(const Napi::CallbackInfo& info);  // called by create() alone

 private:
  Napi::Value tokenize(const Napi::CallbackInfo& info) { return addon::tokenize(info, *tokenizer_); }
  Napi::Value detokenize(const Napi::CallbackInfo& info) { return addon::detokenize(info, *tokenizer_); }

  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace monolith::addon
