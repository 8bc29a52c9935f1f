#include "addon/text.h"

#include <string>
#include <string_view>
#include <vector>

#include "addon/addon_data.h"
#include "addon/arguments.h"
#include "addon/objects.h"
#include "addon/options.h"

namespace monolith::addon {

Napi::Value tokenize(const Napi::CallbackInfo& info, const Tokenizer& tokenizer) {
  Arguments arguments(info);
  const TokenizeOptions options = read_tokenize_options(arguments);
  if (!arguments.ok()) return info.Env().Undefined();
  std::vector<TokenId> ids;
  tokenizer.encode(options.text, options.encode, ids);
  return to_int32_array(info.Env(), ids);
}

Napi::Value detokenize(const Napi::CallbackInfo& info, const Tokenizer& tokenizer) {
  Arguments arguments(info);
  const Named tokens = arguments.argument(0, "tokens");
  const std::span<const int32_t> ids = arguments.int32_array(tokens, kMaxTokens);
  if (arguments.ok()) check_tokens(arguments, tokens, ids, tokenizer.n_vocab());
  if (!arguments.ok()) return info.Env().Undefined();
  std::string text;
  Utf8Stream stream;
  bool first = tokenizer.strips_leading_space();
  for (const TokenId id : ids) {
    std::string_view bytes = tokenizer.bytes(id);
    // Removes the space that the tokenizer added from the first text token. A BOS token before it is not text.
    if (first && tokenizer.kind(id) != TokenKind::kControl) {
      if (bytes.starts_with(' ')) bytes.remove_prefix(1);
      first = false;
    }
    stream.push(bytes, text);
  }
  stream.finish(text);
  return to_string(info.Env(), text);
}

Napi::Function TokenizerHandle::define(Napi::Env env) {
  return DefineClass(env, "NativeTokenizer",
                     {
                         InstanceMethod<&TokenizerHandle::guarded<&TokenizerHandle::tokenize>>("tokenize"),
                         InstanceMethod<&TokenizerHandle::guarded<&TokenizerHandle::detokenize>>("detokenize"),
                     });
}

Napi::Value TokenizerHandle::create(Napi::Env env, std::shared_ptr<const Tokenizer> tokenizer) {
  return AddonData::of(env).tokenizer_class.New(
      {Napi::External<std::shared_ptr<const Tokenizer>>::New(env, &tokenizer)});
}

TokenizerHandle::TokenizerHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<TokenizerHandle>(info) {
  if (info.Length() == 1 && info[0].IsExternal()) {
    tokenizer_ = *info[0].As<Napi::External<std::shared_ptr<const Tokenizer>>>().Data();
  } else {
    napi_throw_type_error(info.Env(), nullptr, "NativeTokenizer cannot be constructed: use loadTokenizer()");
  }
}

}  // namespace monolith::addon
