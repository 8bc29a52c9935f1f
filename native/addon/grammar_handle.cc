#include "addon/grammar_handle.h"

#include <memory>
#include <mutex>
#include <utility>

#include "addon/addon_data.h"
#include "addon/errors.h"
#include "addon/objects.h"

namespace monolith::addon {
namespace {

using grammar::GrammarOptions;
using grammar::Spelling;

constexpr size_t kMaxSchemaBytes = 1 << 20, kMaxPatternBytes = 64 << 10, kMaxRulesBytes = 256 << 10,
                 kMaxChoiceBytes = 1 << 20, kMaxSuffixBytes = 1024;
constexpr size_t kMaxSpellingBytes = 256;
constexpr uint32_t kMaxGrammarChoices = 4096, kMaxNames = 65'536;
constexpr int64_t kMaxLead = 64;

// In the order of the GrammarOptions::Kind enum.
constexpr std::string_view kKinds[] = {"json_schema", "json_object", "json", "regex", "choice", "grammar", "lark"};
constexpr std::string_view kOrders[] = {"schema", "any"};                    // In the order of the PropertyOrder enum.
constexpr std::string_view kWhiteSpaces[] = {"none", "flexible", "within"};  // In the order of the WhiteSpace enum.
constexpr std::string_view kValueKinds[] = {"json", "text", "nullable"};     // In the order of the Spelling::Kind enum.
// In the order of the SchemaProblem::Kind enum.
constexpr std::string_view kProblems[] = {"invalid", "unsupported", "too_large", "impossible"};

// Type tag that distinguishes NativeGrammar objects from all other JavaScript objects.
constexpr napi_type_tag kGrammarTag = {0x6d6f6e6f6c697468u, 0x6772616d6d617221u};

// Reads `lead` (generated characters before the value) and `spelling` (the value's notation).
void read_syntax(Arguments& arguments, const Named& object, GrammarOptions& options) {
  const Named lead = arguments.field(object, "lead");
  if (!arguments.is_absent(lead)) {
    arguments.object(lead);
    options.lead.letters = arguments.boolean(arguments.field(lead, "letters"));
    options.lead.least = static_cast<uint32_t>(arguments.integer(arguments.field(lead, "least"), 1, kMaxLead));
    options.lead.most =
        static_cast<uint32_t>(arguments.integer(arguments.field(lead, "most"), options.lead.least, kMaxLead));
    options.lead.close = arguments.string(arguments.field(lead, "close"), kMaxSuffixBytes);
  }
  const Named field = arguments.field(object, "spelling");
  if (arguments.is_absent(field)) return;
  if (options.kind != GrammarOptions::Kind::kJsonSchema) arguments.reject(field, "needs a schema");
  arguments.object(field);
  Spelling& spelling = options.spelling.emplace();
  const auto text = [&](const char* key) { return arguments.string(arguments.field(field, key), kMaxSpellingBytes); };
  spelling.name_open = text("nameOpen");
  spelling.text_open = text("textOpen");
  spelling.json_open = text("jsonOpen");
  spelling.value_close = text("valueClose");
  spelling.separator = text("separator");
  spelling.text_end = text("textEnd");
  spelling.string_mark = text("stringMark");
  const Named item = arguments.field(field, "item");
  if (!arguments.is_absent(item)) spelling.item = arguments.string(item, kMaxSpellingBytes);
  if (spelling.in_tags() && (spelling.name_open.empty() || spelling.value_close.empty() || spelling.text_end.empty()))
    arguments.reject(field, "sets `item` but lacks nameOpen, valueClose or textEnd");
  if (spelling.text_open.empty() || spelling.json_open.empty())
    arguments.reject(field, "must have a non-empty textOpen and jsonOpen");
  if (spelling.value_close.empty() && spelling.separator.empty())
    arguments.reject(field, "must have a non-empty valueClose or separator");
  spelling.nested = arguments.boolean(arguments.field(field, "nested"));
  spelling.python = arguments.boolean(arguments.field(field, "python"));
  const auto kind = [&](const Named& value) {
    return static_cast<Spelling::Kind>(arguments.one_of(value, kValueKinds));
  };
  spelling.others = kind(arguments.field(field, "others"));
  const Named kinds = arguments.field(field, "kinds");
  const uint32_t n = arguments.array_length(kinds, kMaxNames);
  for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
    const Named entry = arguments.element(kinds, i);
    arguments.object(entry);
    spelling.kinds.emplace_back(arguments.string(arguments.field(entry, "name"), kMaxSchemaBytes),
                                kind(arguments.field(entry, "kind")));
  }
  if (spelling.text_end.empty() && (spelling.others != Spelling::Kind::kJson || !spelling.kinds.empty()))
    arguments.reject(field, "must have a non-empty textEnd if values are written as text");
}

GrammarOptions read_options(Arguments& arguments, const Named& object) {
  GrammarOptions options;
  arguments.object(object);
  options.kind = static_cast<GrammarOptions::Kind>(arguments.one_of(arguments.field(object, "kind"), kKinds));
  if (!arguments.ok()) return options;
  switch (options.kind) {
    case GrammarOptions::Kind::kJsonSchema:
      options.text = arguments.string(arguments.field(object, "schema"), kMaxSchemaBytes);
      break;
    case GrammarOptions::Kind::kRegex: {
      const Named pattern = arguments.field(object, "pattern");
      options.text = arguments.string(pattern, kMaxPatternBytes);
      if (options.text.empty()) arguments.reject(pattern, "is empty");
      break;
    }
    case GrammarOptions::Kind::kRules:
    case GrammarOptions::Kind::kLark: {
      const Named rules = arguments.field(object, "grammar");
      options.text = arguments.string(rules, kMaxRulesBytes);
      if (options.text.empty()) arguments.reject(rules, "is empty");
      break;
    }
    case GrammarOptions::Kind::kChoice: {
      const Named choices = arguments.field(object, "choices");
      const uint32_t n = arguments.array_length(choices, kMaxGrammarChoices);
      if (n == 0) arguments.reject(choices, "is empty");
      size_t bytes = 0;
      for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
        const Named entry = arguments.element(choices, i);
        options.choices.push_back(arguments.string(entry, kMaxChoiceBytes - bytes));
        if (options.choices.back().empty()) arguments.reject(entry, "is empty");
        bytes += options.choices.back().size();
      }
      break;
    }
    default: break;
  }
  const Named suffix = arguments.field(object, "suffix");
  if (!arguments.is_absent(suffix)) options.suffix = arguments.string(suffix, kMaxSuffixBytes);
  read_syntax(arguments, object, options);
  options.strict = arguments.boolean(arguments.field(object, "strict"));
  options.one_of_as_any_of = arguments.boolean(arguments.field(object, "oneOfAsAnyOf"));
  options.order = static_cast<grammar::PropertyOrder>(arguments.one_of(arguments.field(object, "order"), kOrders));
  options.white_space =
      static_cast<grammar::WhiteSpace>(arguments.one_of(arguments.field(object, "whiteSpace"), kWhiteSpaces));
  return options;
}

Napi::Value to_value(Napi::Env env, const CompiledGrammar& compiled) {
  const Napi::Object result = Napi::Object::New(env);
  Napi::Value handle = env.Null();
  if (compiled.grammar) {
    GrammarRef grammar = compiled.grammar;
    handle = AddonData::of(env).grammar_class.New({Napi::External<GrammarRef>::New(env, &grammar)});
  }
  result.Set("grammar", handle);
  const Napi::Array problems = Napi::Array::New(env, compiled.problems.size());
  for (uint32_t i = 0; i < compiled.problems.size(); ++i) {
    const grammar::SchemaProblem& problem = compiled.problems[i];
    const Napi::Object entry = Napi::Object::New(env);
    entry.Set("kind", to_string(env, kProblems[static_cast<size_t>(problem.kind)]));
    entry.Set("pointer", to_string(env, problem.pointer));
    entry.Set("keyword", to_string(env, problem.keyword));
    entry.Set("what", to_string(env, problem.what));
    problems.Set(i, entry);
  }
  result.Set("problems", problems);
  result.Set("compileMs", static_cast<double>(compiled.ns) / 1e6);
  return result;
}

// The promise returned by compileGrammar(). The process stays alive until the promise is settled, but the engine may be
// closed in the meantime. A closed engine rejects the grammars that it has not compiled yet.
class CompileRequest {
 public:
  static Napi::Value start(Napi::Env env, const EngineRef& engine, GrammarOptions options) {
    const std::shared_ptr<CompileRequest> request(new CompileRequest);
    napi_value promise = nullptr;
    napi_create_promise(env, &request->deferred_, &promise);
    auto* owner = new std::shared_ptr<CompileRequest>(request);
    const auto finalize = [](Napi::Env, std::shared_ptr<CompileRequest>* owned, CompileRequest*) { delete owned; };
    request->wakeups_ = Wakeups::New(env, "monolith grammar", 0, 1, request.get(), finalize, owner);
    request->hook_ = std::make_unique<TeardownHook>(
        env, [](void* data) { static_cast<CompileRequest*>(data)->abandon(); }, request.get());
    engine->engine->compile_grammar(std::move(options),
                                    [request](CompiledGrammar compiled) { request->done(std::move(compiled)); });
    return {env, promise};
  }

 private:
  static void on_wake(Napi::Env env, Napi::Function, CompileRequest* request, void*) {
    if (env == nullptr) return;
    const Napi::HandleScope scope(env);
    request->hook_->release();
    catching([&] { napi_resolve_deferred(env, request->deferred_, to_value(env, request->compiled_)); },
             [&](const Error& error) { napi_reject_deferred(env, request->deferred_, to_js_error(env, error)); });
    request->wakeups_.Release();
  }
  using Wakeups = Napi::TypedThreadSafeFunction<CompileRequest, void, &CompileRequest::on_wake>;

  CompileRequest() = default;
  // Called on the thread that compiles the grammar, or on the JavaScript thread from within start().
  void done(CompiledGrammar compiled) {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return;
    compiled_ = std::move(compiled);
    wakeups_.NonBlockingCall();
  }
  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    hook_->release();
  }

  napi_deferred deferred_ = nullptr;
  Wakeups wakeups_;
  std::unique_ptr<TeardownHook> hook_;
  CompiledGrammar compiled_;
  std::mutex mutex_;
  bool abandoned_ = false;  // The JavaScript environment is being torn down.
};

}  // namespace

Napi::Function GrammarHandle::define(Napi::Env env) {
  return DefineClass(env, "NativeGrammar",
                     {InstanceAccessor<&GrammarHandle::guarded<&GrammarHandle::bytes>>("bytes", napi_enumerable),
                      InstanceMethod<&GrammarHandle::guarded<&GrammarHandle::follow>>("follow")});
}

GrammarHandle::GrammarHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<GrammarHandle>(info) {
  if (info.Length() == 1 && info[0].IsExternal()) {
    grammar_ = *info[0].As<Napi::External<GrammarRef>>().Data();
    napi_type_tag_object(info.Env(), info.This(), &kGrammarTag);
    if (grammar_) account(info.Env(), static_cast<int64_t>(grammar_->bytes()));
  } else {
    napi_throw_type_error(info.Env(), nullptr,
                          "NativeGrammar cannot be constructed: use NativeEngine.compileGrammar()");
  }
}

void GrammarHandle::account(Napi::Env env, int64_t bytes) {
  Napi::MemoryManagement::AdjustExternalMemory(env, bytes - accounted_);
  accounted_ = bytes;
}

Napi::Value GrammarHandle::follow(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!grammar_ || info.Length() != 1 || !info[0].IsTypedArray() ||
      info[0].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    napi_throw_type_error(env, nullptr, "follow() takes a Uint8Array");
    return {};
  }
  const auto text = info[0].As<Napi::Uint8Array>();
  const auto next = grammar_->follow({reinterpret_cast<const char*>(text.Data()), text.ByteLength()});
  if (!next) return env.Null();
  const Napi::Object result = Napi::Object::New(env);
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, next->bytes.count());
  for (size_t byte = 0, at = 0; byte < next->bytes.size(); ++byte)
    if (next->bytes[byte]) bytes[at++] = static_cast<uint8_t>(byte);
  result.Set("bytes", bytes);
  result.Set("accepts", Napi::Boolean::New(env, next->accepts));
  return result;
}

Napi::Value GrammarHandle::bytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), grammar_ ? static_cast<double>(grammar_->bytes()) : 0);
}

GrammarRef GrammarHandle::read(Arguments& arguments, const Named& named, const Engine& engine) {
  if (!arguments.ok()) return nullptr;
  napi_valuetype type = napi_undefined;
  bool is_ours = false;
  if (napi_typeof(arguments.env(), named.value, &type) == napi_ok && type == napi_object)
    napi_check_object_type_tag(arguments.env(), named.value, &kGrammarTag, &is_ours);
  if (!is_ours) {
    arguments.refuse(named, "a NativeGrammar");
    return nullptr;
  }
  GrammarHandle* const handle = Unwrap({arguments.env(), named.value});
  const GrammarRef grammar = handle->grammar_;
  if (grammar != nullptr) handle->account(arguments.env(), static_cast<int64_t>(grammar->bytes()));
  if (grammar != nullptr && engine.owns_grammar(*grammar)) return grammar;
  arguments.reject(named, "is a grammar of another engine");
  return nullptr;
}

Napi::Value compile_grammar(const Napi::CallbackInfo& info, const EngineRef& engine) {
  Arguments arguments(info);
  GrammarOptions options = read_options(arguments, arguments.argument(0, "options"));
  if (!arguments.ok()) return info.Env().Undefined();
  return CompileRequest::start(info.Env(), engine, std::move(options));
}

}  // namespace monolith::addon
