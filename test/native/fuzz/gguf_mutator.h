// Structure-aware mutator for GGUF files. It sets values to unusual ones or changes their type, shortens and lengthens
// arrays, and removes, inserts and renames keys (including the architecture). It also reshapes, moves, removes and
// inserts tensors, and changes their types. Counts and lengths are corrected afterwards, so that the parser accepts
// most results. Input that is not a GGUF file gets byte mutations.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "fuzz/mutate.h"

namespace monolith::fuzzing {

class GgufMutator {
 public:
  // Returns nullopt if the input is not a GGUF file that the mutator can parse, or if the mutation changed nothing.
  std::optional<std::string> operator()(std::string_view given, Chance& chance) {
    auto head = Head::read(given);
    if (!head || (head->values.empty() && head->tensors.empty())) return std::nullopt;
    donors_.keep(*head, chance);
    for (size_t n = 1 + chance.below(chance.one_in(4) ? 8 : 3); n > 0; --n) {
      if (!head->tensors.empty() && chance.one_in(3))
        change_tensor(*head, chance);
      else if (!head->values.empty())
        change_value(*head, chance);
    }
    std::string out = head->write();
    // If the header is small, many mutations have no effect.
    return out == given ? std::nullopt : std::optional(std::move(out));
  }

 private:
  enum Type : uint32_t {
    kUint8,
    kInt8,
    kUint16,
    kInt16,
    kUint32,
    kInt32,
    kFloat32,
    kBool,
    kString,
    kArray,
    kUint64,
    kInt64,
    kFloat64,
    kTypes
  };
  // Bytes per value for each numeric type; 0 for strings and arrays.
  static constexpr size_t kSizes[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  static constexpr uint32_t kAlignment = 32;

  struct Value {
    std::string key;
    uint32_t type = 0, of = 0;  // `of` is the element type of an array.
    // A value that is not an array has a single element. Strings are stored without their length field.
    std::vector<std::string> elements;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  class Reader {
   public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}
    bool ok() const { return ok_; }
    size_t at() const { return at_; }
    std::string take(uint64_t size) {
      if (size > bytes_.size() - at_) ok_ = false;
      if (!ok_) return {};
      at_ += size;
      return std::string(bytes_.substr(at_ - size, size));
    }
    template <typename T>
    T number() {
      T value{};
      const std::string bytes = take(sizeof value);
      if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
      return value;
    }
    std::string string() { return take(number<uint64_t>()); }

   private:
    std::string_view bytes_;
    size_t at_ = 0;
    bool ok_ = true;
  };

  template <typename T>
  static std::string bytes_of(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string string_of(std::string_view text) { return bytes_of<uint64_t>(text.size()).append(text); }

  struct Head {
    std::vector<Value> values;
    std::vector<Tensor> tensors;
    std::string data;

    static std::optional<Head> read(std::string_view bytes) {
      constexpr uint64_t kMax = 4'096;
      Reader in(bytes);
      if (in.take(4) != "GGUF" || in.number<uint32_t>() != 3) return std::nullopt;
      const auto n_tensors = in.number<uint64_t>(), n_values = in.number<uint64_t>();
      if (n_tensors > kMax || n_values > kMax) return std::nullopt;
      Head head;
      for (uint64_t i = 0; i < n_values && in.ok(); ++i) {
        Value value{in.string(), in.number<uint32_t>(), 0, {}};
        value.of = value.type == kArray ? in.number<uint32_t>() : value.type;
        const uint64_t count = value.type == kArray ? in.number<uint64_t>() : 1;
        if (!in.ok() || value.of >= kTypes || value.of == kArray || count > 4 * kMax) return std::nullopt;
        for (uint64_t k = 0; k < count && in.ok(); ++k)
          value.elements.push_back(value.of == kString ? in.string() : in.take(kSizes[value.of]));
        head.values.push_back(std::move(value));
      }
      for (uint64_t i = 0; i < n_tensors && in.ok(); ++i) {
        Tensor tensor{in.string(), {}, 0, 0};
        const auto n_dims = in.number<uint32_t>();
        if (n_dims > 8) return std::nullopt;
        for (uint32_t k = 0; k < n_dims; ++k) tensor.shape.push_back(in.number<uint64_t>());
        tensor.type = in.number<uint32_t>();
        tensor.offset = in.number<uint64_t>();
        head.tensors.push_back(std::move(tensor));
      }
      if (!in.ok()) return std::nullopt;
      const size_t begin = (in.at() + kAlignment - 1) / kAlignment * kAlignment;
      if (begin < bytes.size()) head.data = bytes.substr(begin);
      return head;
    }

    std::string write() const {
      std::string out =
          "GGUF" + bytes_of<uint32_t>(3) + bytes_of<uint64_t>(tensors.size()) + bytes_of<uint64_t>(values.size());
      for (const Value& value : values) {
        out += string_of(value.key) + bytes_of(value.type);
        if (value.type == kArray) out += bytes_of(value.of) + bytes_of<uint64_t>(value.elements.size());
        for (const std::string& element : value.elements) out += value.of == kString ? string_of(element) : element;
      }
      for (const Tensor& tensor : tensors) {
        out += string_of(tensor.name) + bytes_of(static_cast<uint32_t>(tensor.shape.size()));
        for (const uint64_t length : tensor.shape) out += bytes_of(length);
        out += bytes_of(tensor.type) + bytes_of(tensor.offset);
      }
      out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment);
      return out + data;
    }

    std::string_view architecture() const {
      for (const Value& value : values)
        if (value.key == "general.architecture" && value.type == kString) return value.elements[0];
      return {};
    }
    // Changes the architecture to `other` and renames the keys accordingly. The tensors stay the same.
    void become(std::string_view other) {
      const std::string was(architecture()), now(other);
      if (was.empty() || now.empty()) return;
      for (Value& value : values) {
        if (value.key == "general.architecture")
          value.elements[0] = now;
        else if (value.key.starts_with(was + "."))
          value.key = now + value.key.substr(was.size());
      }
    }
  };

  static int64_t integer_of(const std::string& bytes) {
    int64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
  }
  static std::string odd_number(uint32_t type, const std::string& was, Chance& chance) {
    static constexpr double kOdd[] = {0,
                                      -0.0,
                                      1,
                                      -1,
                                      0.5,
                                      1e-6,
                                      1e-30,
                                      1e30,
                                      1e300,
                                      10'000,
                                      0.125,
                                      2,
                                      3.5,
                                      __builtin_inf(),
                                      -__builtin_inf(),
                                      __builtin_nan("")};
    if (type == kFloat32) return bytes_of(static_cast<float>(chance.of(kOdd)));
    if (type == kFloat64) return bytes_of(chance.of(kOdd));
    std::string out = bytes_of(odd_integer(chance, integer_of(was)));
    if (type == kBool) out[0] = static_cast<char>(out[0] & 1);
    out.resize(kSizes[type]);
    return out;
  }

  void change_value(Head& head, Chance& chance) const {
    const size_t index = chance.below(head.values.size());
    Value& value = head.values[index];
    const Head& donor = donors_.any(chance);
    switch (chance.below(10)) {
      case 0: head.values.erase(head.values.begin() + static_cast<std::ptrdiff_t>(index)); return;
      case 1: {  // Takes a value from another file and stores it under this file's architecture prefix.
        if (donor.values.empty()) return;
        Value taken = chance.of(donor.values);
        const std::string theirs(donor.architecture()), ours(head.architecture());
        if (!theirs.empty() && taken.key.starts_with(theirs + ".")) taken.key = ours + taken.key.substr(theirs.size());
        std::erase_if(head.values, [&](const Value& one) { return one.key == taken.key; });
        head.values.push_back(std::move(taken));
        return;
      }
      case 2: head.become(donor.architecture()); return;
      case 7: {  // Renames the key to another key with the same prefix.
        const size_t dot = value.key.find('.');
        if (has_word(chance, 2) && dot != std::string::npos)
          value.key = value.key.substr(0, dot + 1) + chance.of(source_words());
        return;
      }
      case 3: {  // Converts an array with one number per layer to a single number, or the reverse.
        if (value.type == kArray && !value.elements.empty()) {
          value.type = value.of;
          value.elements.resize(1);
        } else if (value.type != kArray) {
          value.type = kArray;
          value.elements.assign(chance.below(8), value.elements[0]);
        }
        return;
      }
      case 4: {
        if (value.of == kString) break;
        const auto type = static_cast<uint32_t>(chance.below(kTypes));
        if (type == kArray) return;
        for (std::string& element : value.elements) {
          const int64_t was = integer_of(element);
          element = type == kString    ? std::to_string(was)
                    : type == kFloat32 ? bytes_of(static_cast<float>(was))
                    : type == kFloat64 ? bytes_of(static_cast<double>(was))
                                       : bytes_of(was);
          if (type != kString) element.resize(kSizes[type]);
          if (type == kBool) element[0] = static_cast<char>(element[0] & 1);
        }
        if (value.type != kArray) value.type = type;
        value.of = type;
        return;
      }
      case 5:
        if (value.type != kArray) break;
        if (value.elements.empty() || chance.one_in(2))
          value.elements.resize(chance.below(value.elements.size() + 1));
        else
          value.elements.insert(value.elements.end(), 1 + chance.below(4), chance.of(value.elements));
        return;
      case 6: {  // Takes the value that another file has for the same key.
        const size_t dot = value.key.find('.');
        for (const Value& other : donor.values)
          if (other.key == value.key || (dot != std::string::npos && other.key.ends_with(value.key.substr(dot)))) {
            value.type = other.type, value.of = other.of, value.elements = other.elements;
            break;
          }
        return;
      }
      default: break;
    }
    if (value.elements.empty()) return;
    std::string& element = value.elements[chance.below(value.elements.size())];
    if (value.of == kString && has_word(chance, 2))
      element = chance.of(source_words());
    else if (value.of == kString)
      mutate_bytes(element, chance);
    else
      element = odd_number(value.of, element, chance);
  }

  void change_tensor(Head& head, Chance& chance) const {
    const size_t index = chance.below(head.tensors.size());
    Tensor& tensor = head.tensors[index];
    switch (chance.below(9)) {
      case 0: head.tensors.erase(head.tensors.begin() + static_cast<std::ptrdiff_t>(index)); return;
      case 1: {
        const Head& donor = donors_.any(chance);
        if (donor.tensors.empty()) return;
        Tensor taken = chance.of(donor.tensors);
        std::erase_if(head.tensors, [&](const Tensor& one) { return one.name == taken.name; });
        head.tensors.push_back(std::move(taken));
        return;
      }
      case 2: tensor.type = static_cast<uint32_t>(chance.below(42)); return;
      case 3:
        tensor.offset = chance.one_in(4)
                            ? static_cast<uint64_t>(odd_integer(chance, static_cast<int64_t>(tensor.offset)))
                            : kAlignment * chance.below(8'192);
        return;
      case 4:
        if (chance.one_in(2))
          tensor.shape.push_back(1 + chance.below(4));
        else if (!tensor.shape.empty())
          tensor.shape.pop_back();
        return;
      case 5: std::swap(tensor.name, head.tensors[chance.below(head.tensors.size())].name); return;
      case 6: {  // Replaces one length in all tensors that have it, such as the model's width.
        if (tensor.shape.empty()) return;
        const uint64_t was = chance.of(tensor.shape),
                       now = std::max<uint64_t>(
                           1, static_cast<uint64_t>(odd_integer(chance, static_cast<int64_t>(was))) % 4'097);
        for (Tensor& one : head.tensors)
          for (uint64_t& length : one.shape)
            if (length == was) length = now;
        for (Value& value : head.values)
          for (std::string& element : value.elements)
            if (value.of != kString && kSizes[value.of] >= 2 && value.of != kFloat32 && value.of != kFloat64 &&
                static_cast<uint64_t>(integer_of(element)) == was) {
              element = bytes_of(now);
              element.resize(kSizes[value.of]);
            }
        return;
      }
      case 7: mutate_bytes(tensor.name, chance); return;
      default:
        if (tensor.shape.empty()) return;
        uint64_t& length = tensor.shape[chance.below(tensor.shape.size())];
        length = static_cast<uint64_t>(odd_integer(chance, static_cast<int64_t>(length)));
    }
  }

  Donors<Head> donors_;
};

}  // namespace monolith::fuzzing
