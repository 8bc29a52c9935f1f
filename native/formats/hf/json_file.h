// The JSON files of a model folder, with typed access to their values by name. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/json/document.h"

namespace monolith::hf {

// Larger files are rejected. The largest published tokenizer.json files are about 35 MB.
inline constexpr size_t kMaxJsonBytes = size_t{100} << 20;

// Reads a regular file of up to `most` bytes. Errors: kIo if reading fails, kInvalidFile if the file is larger.
Result<std::string> read_text(const std::string& path, size_t most);
bool is_file(const std::string& path);

// A value in a JSON document, with its path for error messages: "config.json: 'rope_scaling.factor'". Null counts as
// absent.
class JsonValue {
 public:
  JsonValue() = default;  // An absent value.
  JsonValue(const json::Document* document, json::Id id, std::string file, std::string path = {})
      : document_(document), id_(id), file_(std::move(file)), path_(std::move(path)) {}

  bool exists() const { return document_ != nullptr && id_ != json::kAbsent && !is(json::Document::Kind::kNull); }
  bool is(json::Document::Kind kind) const { return document_ != nullptr && document_->is(id_, kind); }
  bool is_object() const { return is(json::Document::Kind::kObject); }
  bool is_array() const { return is(json::Document::Kind::kArray); }
  bool is_string() const { return is(json::Document::Kind::kString); }

  // Returns an absent value if this value is not an object or has no member with this name.
  JsonValue operator[](std::string_view name) const;
  // The elements of an array; empty if this value is not an array.
  std::span<const json::Id> items() const;
  JsonValue item(size_t i) const;  // Returns an absent value if the index is out of range.
  std::span<const json::Document::Member> members() const;
  JsonValue at(json::Id id, std::string_view name) const { return {document_, id, file_, joined(name)}; }

  // These getters return nullopt if the value is absent, and an error that names the file and the key if the value has
  // another type or is out of range.
  Result<std::optional<int64_t>> integer(int64_t low = 0, int64_t high = int64_t{1} << 53) const;
  Result<std::optional<double>> number() const;
  Result<std::optional<bool>> boolean() const;
  Result<std::optional<std::string>> string() const;
  Result<std::vector<float>> numbers() const;  // Empty if the value is absent.
  // The text of a string; empty for values of any other type.
  std::string_view text() const;

  std::string where() const { return path_.empty() ? file_ : file_ + ": '" + path_ + "'"; }
  Error invalid(std::string_view what) const;      // Returns a kInvalidFile error: where(), then `what`.
  Error unsupported(std::string_view what) const;  // Returns a kUnsupported error with the same message.
  const json::Document* document() const { return document_; }
  json::Id id() const { return id_; }

 private:
  std::string joined(std::string_view name) const;

  const json::Document* document_ = nullptr;
  json::Id id_ = json::kAbsent;
  std::string file_, path_;
};

class JsonFile {
 public:
  // Reads file `name` in `folder`. If the file is missing, returns a kIo error or, with `optional`, a document whose
  // root is absent. The root must be an object.
  static Result<JsonFile> read(const std::string& folder, const std::string& name, bool optional = false);
  // Like read(), but the root may be any JSON value.
  static Result<JsonFile> read_any(const std::string& folder, const std::string& name, bool optional = false);
  JsonValue root() const { return {document_.get(), root_, name_}; }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<json::Document> document_;
  json::Id root_ = json::kAbsent;
  std::string name_;
  size_t bytes_ = 0;
};

}  // namespace monolith::hf
