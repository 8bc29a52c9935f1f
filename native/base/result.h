// Errors as values. Modules under native/ do not throw exceptions to their callers: a function that can fail returns
// Result<T> or Status, and the addon converts an Error to a JavaScript error.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace monolith {

enum class ErrorCode {
  kIo,               // The operating system reported an error: missing file, no permission, short read.
  kInvalidFile,      // The file contradicts itself or its format: truncated, corrupt or malicious.
  kUnsupported,      // Well-formed, but not supported by this build. The message names the feature.
  kInvalidArgument,  // The caller passed a value that is out of range.
  kOutOfMemory,      // A planned allocation failed.
  kQueueFull,        // The engine's waiting queue is full.
  kTooLong,          // The prompt can never fit in the context or the page pool.
  kClosed,           // The engine is closing or closed.
  kInternal,         // A bug in Monolith.
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

// Either a value or an Error. Functions without a value use Status, below.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)), ok_(false) {}

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace monolith
