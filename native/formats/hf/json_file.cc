#include "formats/hf/json_file.h"

#include <cmath>

#include <sys/stat.h>

#include "formats/gguf/gguf.h"

namespace monolith::hf {

using Kind = json::Document::Kind;

bool is_file(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Result<std::string> read_text(const std::string& path, size_t most) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  const auto bytes = file->bytes();
  if (bytes.size() > most)
    return Error{ErrorCode::kInvalidFile, path + ": has " + std::to_string(bytes.size()) + " bytes, expected " +
                                              std::to_string(most) + " or fewer"};
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

namespace {

// Replaces numbers that Python's json module writes but JSON does not allow: Infinity becomes a number beyond any valid
// range, and NaN becomes null.
void replace_python_numbers(std::string& text) {
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.compare(at, 8, "Infinity") == 0) {
      text.replace(at, 8, "1e999   ");
    } else if (!quoted && text.compare(at, 3, "NaN") == 0) {
      text.replace(at, 3, "null");
    }
  }
}

}  // namespace

std::string JsonValue::joined(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

JsonValue JsonValue::operator[](std::string_view name) const {
  const json::Id found = document_ == nullptr ? json::kAbsent : document_->member(id_, name);
  return {document_, found, file_, joined(name)};
}

std::span<const json::Id> JsonValue::items() const {
  return is_array() ? document_->items(id_) : std::span<const json::Id>();
}

JsonValue JsonValue::item(size_t i) const {
  return {document_, i < items().size() ? items()[i] : json::kAbsent, file_, path_ + "[" + std::to_string(i) + "]"};
}

std::span<const json::Document::Member> JsonValue::members() const {
  return is_object() ? document_->members(id_) : std::span<const json::Document::Member>();
}

Error JsonValue::invalid(std::string_view what) const {
  return {ErrorCode::kInvalidFile, where() + " " + std::string(what)};
}

Error JsonValue::unsupported(std::string_view what) const {
  return {ErrorCode::kUnsupported, where() + " " + std::string(what)};
}

std::string_view JsonValue::text() const {
  return is_string() ? std::string_view(document_->text(id_)) : std::string_view();
}

Result<std::optional<double>> JsonValue::number() const {
  if (!exists()) return std::optional<double>();
  if (!is(Kind::kNumber)) return invalid("is not a number");
  const double value = document_->number(id_);
  if (!std::isfinite(value)) return invalid("is out of range");
  return std::optional(value);
}

Result<std::optional<int64_t>> JsonValue::integer(int64_t low, int64_t high) const {
  auto value = number();
  if (!value) return value.error();
  if (!*value) return std::optional<int64_t>();
  // The range check compares doubles, because converting an out-of-range double to an integer is undefined behavior.
  if (**value != std::floor(**value) || **value < static_cast<double>(low) || **value > static_cast<double>(high))
    return invalid("is " + document_->text(id_).substr(0, 32) + ", expected an integer from " + std::to_string(low) +
                   " to " + std::to_string(high));
  return std::optional(static_cast<int64_t>(**value));
}

Result<std::optional<bool>> JsonValue::boolean() const {
  if (!exists()) return std::optional<bool>();
  if (!is(Kind::kTrue) && !is(Kind::kFalse)) return invalid("is not a boolean");
  return std::optional(is(Kind::kTrue));
}

Result<std::optional<std::string>> JsonValue::string() const {
  if (!exists()) return std::optional<std::string>();
  if (!is_string()) return invalid("is not a string");
  return std::optional(document_->text(id_));
}

Result<std::vector<float>> JsonValue::numbers() const {
  std::vector<float> values;
  if (!exists()) return values;
  if (!is_array()) return invalid("is not an array");
  for (size_t i = 0; i < items().size(); ++i) {
    auto value = item(i).number();
    if (!value) return value.error();
    if (!*value) return item(i).invalid("is not a number");
    values.push_back(static_cast<float>(**value));
  }
  return values;
}

Result<JsonFile> JsonFile::read(const std::string& folder, const std::string& name, bool optional) {
  auto file = read_any(folder, name, optional);
  if (file && file->root_ != json::kAbsent && !file->document_->is(file->root_, Kind::kObject))
    return Error{ErrorCode::kInvalidFile, name + ": not a JSON object"};
  return file;
}

Result<JsonFile> JsonFile::read_any(const std::string& folder, const std::string& name, bool optional) {
  JsonFile file;
  file.name_ = name;
  file.document_ = std::make_unique<json::Document>();
  const std::string path = folder + "/" + name;
  if (optional && !is_file(path)) return file;
  auto text = read_text(path, kMaxJsonBytes);
  if (!text) return text.error();
  file.bytes_ = text->size();
  if (text->find("Infinity") != std::string::npos || text->find("NaN") != std::string::npos)
    replace_python_numbers(*text);
  std::string error;
  if (!file.document_->parse(*text, file.root_, error, kMaxJsonBytes))
    return Error{ErrorCode::kInvalidFile, name + ": not valid JSON: " + error};
  return file;
}

}  // namespace monolith::hf
