// Reading what JavaScript passes. Nothing is trusted: every value is checked for type and range, a
// getter may throw or change its mind, a buffer may be detached. The first thing wrong becomes a
// TypeError that names the argument; from then on reads return defaults and ok() is false, so that a
// caller reads everything in one go and asks once.
#pragma once

#include <napi.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace monolith::addon {

// A value and how a caller would spell it: "options.logitBias[3].token". Lives on the reader's stack.
struct Named {
  napi_value value = nullptr;
  const Named* parent = nullptr;
  const char* key = nullptr;  // null for an element
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
  bool is_absent(const Named& named);  // null or undefined

  int64_t integer(const Named& named, int64_t low, int64_t high);
  // Finite, low <= x <= high.
  double number(const Named& named, double low, double high);
  bool boolean(const Named& named);
  // A bigint of 64 bits, signed or unsigned: its two's complement bits.
  uint64_t bits64(const Named& named);
  // UTF-8; lone surrogates become U+FFFD. Fails if longer than max_bytes.
  std::string string(const Named& named, size_t max_bytes);
  // A file path: a non-empty string without NUL.
  std::string path(const Named& named);
  // The index of the spelling in `choices`.
  size_t one_of(const Named& named, std::span<const std::string_view> choices);
  // Elements of a plain array.
  uint32_t array_length(const Named& named, uint32_t max_length);
  // A view of an Int32Array's elements: copy it before running any JavaScript.
  std::span<const int32_t> int32_array(const Named& named, size_t max_length);
  std::span<const uint8_t> uint8_array(const Named& named, size_t max_length);  // likewise, of a Uint8Array
  Napi::Function function(const Named& named);

  // Throws TypeError "<spelling> must be <expectation>, not <what it is>".
  void refuse(const Named& named, std::string_view expectation);
  // Throws TypeError "<spelling> <reason>".
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
