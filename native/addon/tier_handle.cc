#include "addon/tier_handle.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "addon/arguments.h"
#include "addon/errors.h"
#include "addon/objects.h"
#include "addon/options.h"
#include "engine/tiers/page_copier.h"
#include "engine/tiers/page_importer.h"
#include "model/kv_layout.h"

namespace monolith::addon {
namespace {

constexpr int64_t kMaxSpans = 1 << 16, kMaxImportedPages = 1 << 20;

Napi::Value to_spans(Napi::Env env, std::span<const InputSpan> spans) {
  const Napi::Array array = Napi::Array::New(env, spans.size());
  uint32_t i = 0;
  for (const InputSpan& span : spans) {
    const Napi::HandleScope scope(env);
    const Napi::Object object = Napi::Object::New(env);
    const Napi::Array hash = Napi::Array::New(env, 2);
    hash.Set(0u, Napi::BigInt::New(env, span.hash.high));
    hash.Set(1u, Napi::BigInt::New(env, span.hash.low));
    object.Set("first", Napi::Number::New(env, span.first));
    object.Set("rows", Napi::Number::New(env, span.n_rows));
    object.Set("hash", hash);
    object.Set("bidirectional", Napi::Boolean::New(env, span.bidirectional));
    array.Set(i++, object);
  }
  return array;
}

Napi::Object to_positions(Napi::Env env, std::span<const TokenId> tokens, std::span<const InputSpan> spans) {
  const Napi::Object object = Napi::Object::New(env);
  object.Set("tokens", to_int32_array(env, tokens));
  object.Set("spans", to_spans(env, spans));
  return object;
}

std::vector<InputSpan> read_spans(Arguments& arguments, const Named& list) {
  std::vector<InputSpan> spans;
  const uint32_t n = arguments.array_length(list, kMaxSpans);
  for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
    const Named entry = arguments.element(list, i);
    arguments.object(entry);
    const int64_t least = spans.empty() ? 0 : spans.back().end();
    InputSpan span;
    span.first =
        static_cast<int>(arguments.integer(arguments.field(entry, "first"), least, static_cast<int64_t>(kMaxTokens)));
    span.n_rows =
        static_cast<int>(arguments.integer(arguments.field(entry, "rows"), 1, static_cast<int64_t>(kMaxTokens)));
    const Named hash = arguments.field(entry, "hash");
    if (arguments.array_length(hash, 2) != 2) arguments.reject(hash, "must have two elements");
    if (!arguments.ok()) break;
    span.hash = {arguments.bits64(arguments.element(hash, 0)), arguments.bits64(arguments.element(hash, 1))};
    span.bidirectional = arguments.boolean(arguments.field(entry, "bidirectional"));
    spans.push_back(std::move(span));
  }
  return spans;
}

// Reads an adapter hash in the format of AdapterInfo.cacheKey: 32 hexadecimal digits. If it is absent or empty, there
// is no adapter.
ContentHash read_adapter(Arguments& arguments, const Named& field) {
  if (arguments.is_absent(field)) return {};
  const std::string digits = arguments.string(field, 32);
  if (!arguments.ok() || digits.empty()) return {};
  if (digits.size() != 32 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    arguments.reject(field, "must be 32 hexadecimal digits");
    return {};
  }
  return {std::stoull(digits.substr(0, 16), nullptr, 16), std::stoull(digits.substr(16), nullptr, 16)};
}

// Converts a page to a JavaScript object whose parts are views of one ArrayBuffer. The buffer takes ownership of the
// page's bytes.
Napi::Object to_page(Napi::Env env, ExportedPage& page) {
  const Napi::Object object = Napi::Object::New(env);
  object.Set("index", Napi::Number::New(env, page.index));
  std::byte* const bytes = page.bytes.release();
  const Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(
      env, bytes, page.size(), [](Napi::Env, void* data) { delete[] static_cast<std::byte*>(data); });
  size_t at = 0;
  const auto part = [&](const char* name, size_t n, bool is_present) {
    if (is_present) object.Set(name, Napi::Uint8Array::New(env, n, buffer, at));
    at += n;
  };
  part("full", page.full_bytes, page.has_full);
  part("window", page.window_bytes, page.window_bytes > 0);
  part("snapshot", page.snapshot_bytes, page.snapshot_bytes > 0);
  return object;
}

Napi::Object to_event(Napi::Env env, PageExport& item) {
  const Napi::Object object = to_positions(env, item.text->tokens, item.text->spans);
  object.Set("type", Napi::String::New(env, "export"));
  object.Set("organization", Napi::Number::New(env, static_cast<double>(item.organization)));
  object.Set("label", to_string(env, item.label));
  object.Set("adapter", to_string(env, hash_digits(item.text->adapter)));
  object.Set("skipped", Napi::Number::New(env, item.n_skipped));
  object.Set("last", Napi::Boolean::New(env, item.is_last));
  const Napi::Array pages = Napi::Array::New(env, item.pages.size());
  uint32_t i = 0;
  for (ExportedPage& page : item.pages) {
    const Napi::HandleScope scope(env);
    pages.Set(i++, to_page(env, page));
  }
  object.Set("pages", pages);
  return object;
}

Napi::Object to_event(Napi::Env env, const ImportReply& reply) {
  const Napi::Object object = Napi::Object::New(env);
  object.Set("type", Napi::String::New(env, reply.opened ? "opened" : "written"));
  object.Set("id", Napi::Number::New(env, static_cast<double>(reply.id)));
  if (reply.refused)
    object.Set("pages", env.Null());
  else if (reply.opened)
    object.Set("pages", to_uint8_array(env, reply.pages.data(), reply.pages.size()));
  else
    object.Set("pages", Napi::Number::New(env, reply.n_written));
  return object;
}

}  // namespace

std::shared_ptr<TierCore> TierCore::open(Napi::Env env, EngineRef engine, size_t max_bytes, size_t min_tokens,
                                         const Napi::Function& on_events) {
  const std::shared_ptr<TierCore> core(new TierCore());
  auto* owner = new std::shared_ptr<TierCore>(core);
  const auto finalize = [](Napi::Env, std::shared_ptr<TierCore>* owned, TierCore*) { delete owned; };
  core->wakeups_ = Wakeups::New(env, on_events, "monolith tier", 0, 1, core.get(), finalize, owner);
  core->wakeups_.Unref(env);
  core->engine_ = std::move(engine);
  core->outbox_ = std::make_shared<TierOutbox>(
      max_bytes, [wakeups = core->wakeups_]() { wakeups.NonBlockingCall(); }, min_tokens);
  core->hook_ = std::make_unique<TeardownHook>(
      env, [](void* data) { static_cast<TierCore*>(data)->close(); }, core.get());
  core->engine_->engine->open_tier(core->outbox_);
  return core;
}

void TierCore::close() {
  if (closed()) return;
  outbox_
      ->close();  // The engine queues no wake-ups after this call, and disconnects when it next has something to add.
  hook_->release();
  engine_.reset();
  wakeups_.Release();  // Runs the finalizer in a later event loop iteration; it may destroy this object.
}

void TierCore::on_wake(Napi::Env env, Napi::Function on_events, TierCore* core, void*) {
  if (env == nullptr || core->closed()) return;
  const Napi::HandleScope scope(env);
  catching([&] { core->pass_events(env, on_events); },
           [&](const Error& error) { napi_fatal_exception(env, to_js_error(env, error)); });
}

void TierCore::pass_events(Napi::Env env, const Napi::Function& on_events) {
  outbox_->drain(exports_, replies_);
  if (exports_.empty() && replies_.empty()) return;
  const Napi::Array events = Napi::Array::New(env, exports_.size() + replies_.size());
  uint32_t i = 0;
  for (const ImportReply& reply : replies_) events.Set(i++, to_event(env, reply));
  for (PageExport& item : exports_) events.Set(i++, to_event(env, item));
  exports_.clear();
  replies_.clear();
  const napi_value arguments[] = {events};
  napi_value result = nullptr;
  napi_call_function(env, env.Undefined(), on_events, std::size(arguments), arguments, &result);
  report_pending_exception(env);
}

Napi::Function TierHandle::define(Napi::Env env) {
  return DefineClass(env, "NativeTier",
                     {
                         InstanceMethod<&TierHandle::guarded<&TierHandle::acknowledge>>("acknowledge"),
                         InstanceMethod<&TierHandle::guarded<&TierHandle::forget>>("forget"),
                         InstanceMethod<&TierHandle::guarded<&TierHandle::touch_pool>>("touchPool"),
                         InstanceMethod<&TierHandle::guarded<&TierHandle::open_import>>("openImport"),
                         InstanceMethod<&TierHandle::guarded<&TierHandle::write_import>>("writeImport"),
                         InstanceMethod<&TierHandle::guarded<&TierHandle::close_import>>("closeImport"),
                         InstanceMethod<&TierHandle::guarded<&TierHandle::close>>("close"),
                     });
}

Napi::Value TierHandle::create(const Napi::CallbackInfo& info, const EngineRef& engine) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int64_t max_bytes = arguments.integer(arguments.argument(0, "maxBytes"), 1, int64_t{1} << 46);
  const int64_t min_tokens = arguments.integer(arguments.argument(1, "minTokens"), 0, int64_t{1} << 46);
  const Napi::Function on_events = arguments.function(arguments.argument(2, "onEvents"));
  if (!arguments.ok()) return env.Undefined();
  std::shared_ptr<TierCore> core =
      TierCore::open(env, engine, static_cast<size_t>(max_bytes), static_cast<size_t>(min_tokens), on_events);
  return AddonData::of(env).tier_class.New({Napi::External<std::shared_ptr<TierCore>>::New(env, &core)});
}

TierHandle::TierHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<TierHandle>(info) {
  if (info.Length() == 1 && info[0].IsExternal()) {
    core_ = *info[0].As<Napi::External<std::shared_ptr<TierCore>>>().Data();
  } else {
    napi_throw_type_error(info.Env(), nullptr, "NativeTier cannot be constructed: use NativeEngine.openTier()");
  }
}

TierHandle::~TierHandle() {
  if (core_) core_->close();
}

void TierHandle::acknowledge(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int64_t bytes = arguments.integer(arguments.argument(0, "bytes"), 0, int64_t{1} << 46);
  if (arguments.ok()) core_->outbox().acknowledge(static_cast<size_t>(bytes));
}

void TierHandle::forget(const Napi::CallbackInfo&) {
  if (!core_->closed()) core_->engine()->engine->forget_exports();
}

void TierHandle::touch_pool(const Napi::CallbackInfo&) {
  if (!core_->closed()) core_->engine()->engine->touch_pool();
}

void TierHandle::open_import(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  PageImport import;
  import.id = static_cast<uint64_t>(arguments.integer(arguments.argument(0, "id"), 1, int64_t{1} << 52));
  import.organization = static_cast<uint64_t>(arguments.integer(arguments.argument(1, "organization"), 0, UINT32_MAX));
  import.pinned = arguments.boolean(arguments.argument(3, "pinned"));
  const Named text = arguments.argument(2, "text");
  arguments.object(text);
  import.text.spans = read_spans(arguments, arguments.field(text, "spans"));
  import.text.adapter = read_adapter(arguments, arguments.field(text, "adapter"));
  const std::span<const int32_t> tokens = arguments.int32_array(arguments.field(text, "tokens"), kMaxTokens);
  if (!arguments.ok() || core_->closed()) return;
  import.text.tokens.assign(tokens.begin(), tokens.end());
  core_->engine()->engine->open_import(std::move(import));
}

void TierHandle::write_import(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto id = static_cast<uint64_t>(arguments.integer(arguments.argument(0, "id"), 1, int64_t{1} << 52));
  const Named list = arguments.argument(1, "pages");
  const uint32_t n = arguments.array_length(list, kMaxImportedPages);
  if (!arguments.ok() || core_->closed()) return;
  const PageSizes sizes = core_->engine()->engine->page_sizes();
  // The engine reads the bytes on its own thread, so they are copied.
  const auto owner = std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
  std::vector<ImportedPage> pages;
  pages.reserve(n);
  for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
    const Napi::HandleScope scope(info.Env());
    const Named entry = arguments.element(list, i);
    arguments.object(entry);
    ImportedPage page;
    page.index = static_cast<int>(arguments.integer(arguments.field(entry, "index"), 0, kMaxImportedPages));
    const auto part = [&](const char* name, size_t size) -> const std::byte* {
      const Named field = arguments.field(entry, name);
      if (arguments.is_absent(field)) return nullptr;
      const std::span<const uint8_t> bytes = arguments.uint8_array(field, size);
      if (arguments.ok() && bytes.size() != size)
        arguments.reject(field, "must have " + std::to_string(size) + " bytes");
      if (!arguments.ok() || size == 0) return nullptr;
      owner->push_back(std::make_unique_for_overwrite<std::byte[]>(size));
      std::memcpy(owner->back().get(), bytes.data(), size);
      return owner->back().get();
    };
    page.full = part("full", sizes.full);
    page.window = part("window", sizes.window);
    page.snapshot = part("snapshot", sizes.snapshot);
    pages.push_back(page);
  }
  if (arguments.ok() && !core_->closed()) core_->engine()->engine->write_import(id, std::move(pages), owner);
}

void TierHandle::close_import(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto id = static_cast<uint64_t>(arguments.integer(arguments.argument(0, "id"), 1, int64_t{1} << 52));
  if (arguments.ok() && !core_->closed()) core_->engine()->engine->close_import(id);
}

void TierHandle::close(const Napi::CallbackInfo&) { core_->close(); }

Napi::Value positions_of(const Napi::CallbackInfo& info, const EngineRef& engine) {
  Arguments arguments(info);
  const GenerationRequest request = read_positions(arguments, arguments.argument(0, "options"), engine->vision.get());
  if (!arguments.ok()) return info.Env().Undefined();
  return to_positions(info.Env(), request.prompt, request.spans);
}

}  // namespace monolith::addon
