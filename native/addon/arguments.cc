#include "addon/arguments.h"

#include <cmath>

namespace monolith::addon {
namespace {

constexpr size_t kMaxPathBytes = 4096;  // PATH_MAX on Linux.

// Formats a number for an error message: 0.5 as "0.5", 3 as "3", NaN as "NaN".
std::string spell_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (value == std::trunc(value) && std::fabs(value) < 9.1e15) return std::to_string(static_cast<int64_t>(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

std::string Named::spelling() const {
  std::string name = parent ? parent->spelling() : "";
  if (!key) return name + "[" + std::to_string(index) + "]";
  return parent ? name + "." + key : key;
}

Named Arguments::argument(size_t index, const char* name) {
  return {(*info_)[index], nullptr, name, 0};  // `undefined` if the argument is missing.
}

Named Arguments::field(const Named& object, const char* key) {
  Named named{nullptr, &object, key, 0};
  if (ok_ && napi_get_named_property(env_, object.value, key, &named.value) != napi_ok) ok_ = false;
  return named;
}

Named Arguments::element(const Named& array, uint32_t index) {
  Named named{nullptr, &array, nullptr, index};
  if (ok_ && napi_get_element(env_, array.value, index, &named.value) != napi_ok) ok_ = false;
  return named;
}

napi_valuetype Arguments::type_of(const Named& named) {
  napi_valuetype type = napi_undefined;
  if (!ok_ || napi_typeof(env_, named.value, &type) != napi_ok) ok_ = false;
  return type;
}

std::string Arguments::describe(const Named& named) {
  napi_valuetype type = napi_undefined;
  if (napi_typeof(env_, named.value, &type) != napi_ok) return "an unreadable value";
  switch (type) {
    case napi_undefined: return "undefined";
    case napi_null: return "null";
    case napi_boolean: return "a boolean";
    case napi_string: return "a string";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_bigint: return "a bigint";
    case napi_number: {
      double value = 0;
      napi_get_value_double(env_, named.value, &value);
      return spell_number(value);
    }
    default: break;
  }
  bool is_array = false, is_typed = false;
  napi_is_array(env_, named.value, &is_array);
  napi_is_typedarray(env_, named.value, &is_typed);
  return is_array ? "an array" : is_typed ? "another typed array" : "an object";
}

void Arguments::refuse(const Named& named, std::string_view expectation) {
  if (ok_) reject(named, "must be " + std::string(expectation) + ", not " + describe(named));
}

void Arguments::reject(const Named& named, std::string_view reason) {
  if (!ok_) return;  // Only the first error is thrown.
  ok_ = false;
  const std::string message = named.spelling() + " " + std::string(reason);
  napi_throw_type_error(env_, nullptr, message.c_str());
}

void Arguments::object(const Named& named) {
  const napi_valuetype type = type_of(named);
  bool is_array = false;
  if (ok_ && napi_is_array(env_, named.value, &is_array) != napi_ok) ok_ = false;
  if (ok_ && (type != napi_object || is_array)) refuse(named, "an object");
}

bool Arguments::is_null(const Named& named) { return type_of(named) == napi_null; }

bool Arguments::is_absent(const Named& named) {
  const napi_valuetype type = type_of(named);
  return type == napi_null || type == napi_undefined;
}

int64_t Arguments::integer(const Named& named, int64_t low, int64_t high) {
  double value = 0;
  if (type_of(named) == napi_number)
    napi_get_value_double(env_, named.value, &value);
  else
    value = NAN;
  if (!ok_) return low;
  // Written so that NaN also fails the check: every comparison with NaN is false.
  if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high)) || value != std::trunc(value)) {
    refuse(named, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return low;
  }
  return static_cast<int64_t>(value);
}

double Arguments::number(const Named& named, double low, double high) {
  double value = NAN;
  if (type_of(named) == napi_number) napi_get_value_double(env_, named.value, &value);
  if (!ok_) return low;
  if (!(value >= low && value <= high)) {
    refuse(named, "a number from " + spell_number(low) + " to " + spell_number(high));
    return low;
  }
  return value;
}

bool Arguments::boolean(const Named& named) {
  bool value = false;
  if (type_of(named) == napi_boolean)
    napi_get_value_bool(env_, named.value, &value);
  else
    refuse(named, "a boolean");
  return value;
}

uint64_t Arguments::bits64(const Named& named) {
  constexpr const char* kExpected = "a bigint of at most 64 bits";
  if (type_of(named) != napi_bigint) {
    refuse(named, kExpected);
    return 0;
  }
  uint64_t value = 0;
  int64_t negative = 0;
  bool lossless = false;
  napi_get_value_bigint_uint64(env_, named.value, &value, &lossless);
  if (lossless) return value;
  napi_get_value_bigint_int64(env_, named.value, &negative, &lossless);
  if (lossless) return static_cast<uint64_t>(negative);
  refuse(named, kExpected);
  return 0;
}

std::string Arguments::string(const Named& named, size_t max_bytes) {
  if (type_of(named) != napi_string) {
    refuse(named, "a string");
    return {};
  }
  size_t length = 0;
  if (napi_get_value_string_utf8(env_, named.value, nullptr, 0, &length) != napi_ok) {
    ok_ = false;
    return {};
  }
  if (length > max_bytes) {
    reject(named, "has " + std::to_string(length) + " bytes of UTF-8, more than " + std::to_string(max_bytes));
    return {};
  }
  std::string text(length, '\0');
  // N-API also writes a terminating NUL; std::string reserves a byte for it.
  if (napi_get_value_string_utf8(env_, named.value, text.data(), length + 1, &length) != napi_ok) ok_ = false;
  return text;
}

std::string Arguments::path(const Named& named) {
  std::string text = string(named, kMaxPathBytes);
  if (text.empty()) reject(named, "is an empty path");
  if (text.find('\0') != std::string::npos) reject(named, "is a path with a NUL character");
  return text;
}

size_t Arguments::one_of(const Named& named, std::span<const std::string_view> choices) {
  std::string expected;
  for (const std::string_view choice : choices) {
    expected += (expected.empty() ? "one of '" : ", '") + std::string(choice) + "'";
  }
  if (type_of(named) != napi_string) {
    refuse(named, expected);
    return 0;
  }
  char text[16];  // Longer than any choice, so a truncated string cannot match one.
  size_t length = 0;
  napi_get_value_string_utf8(env_, named.value, text, sizeof text, &length);
  size_t index = 0;
  for (const std::string_view choice : choices) {
    if (choice == std::string_view(text, length)) return index;
    ++index;
  }
  refuse(named, expected);
  return 0;
}

uint32_t Arguments::array_length(const Named& named, uint32_t max_length) {
  bool is_array = false;
  if (ok_ && napi_is_array(env_, named.value, &is_array) != napi_ok) ok_ = false;
  if (!ok_) return 0;
  uint32_t length = 0;
  if (!is_array || napi_get_array_length(env_, named.value, &length) != napi_ok) {
    refuse(named, "an array");
    return 0;
  }
  if (length > max_length) {
    reject(named, "has " + std::to_string(length) + " elements, more than " + std::to_string(max_length));
    return 0;
  }
  return length;
}

template <typename T>
std::span<const T> Arguments::typed_array(const Named& named, napi_typedarray_type wanted, const char* kind,
                                          size_t max_length) {
  bool is_typed = false;
  if (ok_ && napi_is_typedarray(env_, named.value, &is_typed) != napi_ok) ok_ = false;
  if (!ok_) return {};
  napi_typedarray_type type{};
  size_t length = 0;
  void* data = nullptr;
  napi_value buffer = nullptr;
  if (!is_typed || napi_get_typedarray_info(env_, named.value, &type, &length, &data, &buffer, nullptr) != napi_ok ||
      type != wanted) {
    refuse(named, kind);
    return {};
  }
  // A detached buffer has length 0 and no data. Some Node versions do not report length 0, so detachment is checked
  // explicitly.
  bool detached = false;
  napi_is_detached_arraybuffer(env_, buffer, &detached);  // Always false for a SharedArrayBuffer.
  if (detached) {
    reject(named, "is " + std::string(kind) + " whose buffer is detached");
    return {};
  }
  if (length > max_length) {
    reject(named, "has " + std::to_string(length) + " elements, more than " + std::to_string(max_length));
    return {};
  }
  return {static_cast<const T*>(data), length};
}

std::span<const int32_t> Arguments::int32_array(const Named& named, size_t max_length) {
  return typed_array<int32_t>(named, napi_int32_array, "an Int32Array", max_length);
}

std::span<const uint8_t> Arguments::uint8_array(const Named& named, size_t max_length) {
  return typed_array<uint8_t>(named, napi_uint8_array, "a Uint8Array", max_length);
}

Napi::Function Arguments::function(const Named& named) {
  if (type_of(named) != napi_function) {
    refuse(named, "a function");
    return {};
  }
  return {env_, named.value};
}

}  // namespace monolith::addon
