// Reads the arguments of a call from JavaScript. Every value is checked for type and range, and two reads of the same
// property are not assumed to agree: a getter may throw or return a different value each time, and a buffer may be
// detached. The first error throws a TypeError that names the argument. After an error, all reads return default values
// and ok() is false, so a caller can read all arguments and then check ok() once.
#pragma once

#include <napi.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace monolith::addon {

// A JavaScript value with its path within the arguments, such as "options.logitBias[3].token", for error messages.
// Lives on the caller's stack.
struct Named {
  napi_value value = nullptr;
  const Named* parent = nullptr;
  const char* key = nullptr;  // Null if this is an array element.
  uint32_t index = 0;
  std::string spelling() const;
};

class Arguments {
 public:
  explicit Arguments(const Napi::CallbackInfo& info) : env_(info.Env()), info_(&info) {}

  bool ok() const { return ok_; }
  Napi::Env env() const { return env_; }

  Named argument(size_t index, const char* name);
  Named field(const Named& object, const char* key);
  Named element(const Named& array, uint32_t index);
  // Requires an object that is neither null nor an array.
  void object(const Named& named);
  bool is_null(const Named& named);
  bool is_absent(const Named& named);  // Whether the value is null or undefined.

  int64_t integer(const Named& named, int64_t low, int64_t high);
  // Requires a finite number in [low, high].
  double number(const Named& named, double low, double high);
  bool boolean(const Named& named);
  // Requires a bigint that fits in 64 bits, signed or unsigned. Returns its two's complement bits.
  uint64_t bits64(const Named& named);
  // Returns the string as UTF-8, with lone surrogates replaced with U+FFFD. Fails if it is longer than max_bytes.
  std::string string(const Named& named, size_t max_bytes);
  // Requires a file path: a non-empty string without NUL characters.
  std::string path(const Named& named);
  // Requires a string that is one of `choices`, and returns its index.
  size_t one_of(const Named& named, std::span<const std::string_view> choices);
  // Requires a plain array, and returns its length.
  uint32_t array_length(const Named& named, uint32_t max_length);
  // Returns a view of an Int32Array's elements. Copy them before any JavaScript runs, because it may detach the buffer.
  std::span<const int32_t> int32_array(const Named& named, size_t max_length);
  std::span<const uint8_t> uint8_array(const Named& named, size_t max_length);  // Like int32_array(), for a Uint8Array.
  Napi::Function function(const Named& named);

  // Throws TypeError "<path> must be <expectation>, not <actual value>".
  void refuse(const Named& named, std::string_view expectation);
  // Throws TypeError "<path> <reason>".
  void reject(const Named& named, std::string_view reason);

 private:
  template <typename T>
  std::span<const T> typed_array(const Named& named, napi_typedarray_type wanted, const char* kind, size_t max_length);
  napi_valuetype type_of(const Named& named);
  std::string describe(const Named& named);

  Napi::Env env_;
  const Napi::CallbackInfo* info_;
  bool ok_ = true;
};

}  // namespace monolith::addon
