// Runs work on Node's thread pool and settles a promise with the work's Result.
#pragma once

#include <napi.h>

#include <optional>
#include <utility>

#include "addon/errors.h"
#include "addon/guard.h"

namespace monolith::addon {

// `Work` is () -> Result<T> and runs on a pool thread. `Convert` is (Napi::Env, T&&) -> Napi::Value and runs on the
// JavaScript thread.
template <typename Work, typename Convert>
class PromiseWork final : public Napi::AsyncWorker {
 public:
  static Napi::Value start(Napi::Env env, Work work, Convert convert) {
    auto* worker = new PromiseWork(env, std::move(work), std::move(convert));  // Deletes itself.
    napi_value promise = nullptr;
    napi_create_promise(env, &worker->deferred_, &promise);
    worker->Queue();
    return {env, promise};
  }

 protected:
  void Execute() override {
    catching([&] { result_.emplace(work_()); }, [&](Error error) { result_.emplace(std::move(error)); });
  }

  // Ignores the status of Node-API calls, because a promise cannot be settled while its environment is being torn down.
  void OnOK() override {
    const Napi::Env env = Env();
    if (!result_->ok()) {
      napi_reject_deferred(env, deferred_, to_js_error(env, result_->error()));
      return;
    }
    const Napi::Value value = guarded_call(env, [&] { return convert_(env, std::move(*result_).value()); });
    napi_value exception = nullptr;
    bool pending = false;
    napi_is_exception_pending(env, &pending);
    // Converting the result to JavaScript may fail, for example if there is not enough memory for an array.
    if (pending && napi_get_and_clear_last_exception(env, &exception) == napi_ok) {
      napi_reject_deferred(env, deferred_, exception);
    } else {
      napi_resolve_deferred(env, deferred_, value);
    }
  }

 private:
  PromiseWork(Napi::Env env, Work work, Convert convert)
      : Napi::AsyncWorker(env, "monolith"), work_(std::move(work)), convert_(std::move(convert)) {}

  napi_deferred deferred_ = nullptr;
  Work work_;
  Convert convert_;
  std::optional<decltype(std::declval<Work&>()())> result_;
};

template <typename Work, typename Convert>
Napi::Value promise_of(Napi::Env env, Work work, Convert convert) {
  return PromiseWork<Work, Convert>::start(env, std::move(work), std::move(convert));
}

}  // namespace monolith::addon
