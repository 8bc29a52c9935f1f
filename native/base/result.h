// Errors as values. Nothing in native/ throws across a room's edge: a function that can fail returns
// Result<T>, and the addon turns the Error into a JavaScript one.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace monolith {

enum class ErrorCode {
  kIo,               // the operating system refused: missing file, no permission, short read
  kInvalidFile,      // the file contradicts itself or its format: truncated, corrupt, hostile
  kUnsupported,      // well-formed, but something this build does not offer; the message names it
  kInvalidArgument,  // the caller passed something out of range
  kOutOfMemory,      // an allocation that was planned did not succeed
  kQueueFull,        // the engine's waiting queue is at its bound
  kTooLong,          // the prompt can never fit the context or the page pool
  kClosed,           // the engine is closing or closed
  kInternal,         // our bug
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

// Either a value or an Error. `Result<void>` is spelled Status below.
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

// Success, or an Error.
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
