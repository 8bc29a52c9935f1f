#include "base/json/document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "base/utf8.h"

namespace monolith::json {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  size_t at() const { return at_; }
  bool done() const { return at_ == text_.size(); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip_space() {
    while (!done() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }
  bool string(std::string& out);
  bool number(std::string& out);

 private:
  bool hex4(uint32_t& value);
  std::string_view text_;
  size_t at_ = 0;
};

bool Reader::hex4(uint32_t& value) {
  value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = done() ? -1 : hex_digit(peek());
    if (digit < 0) return false;
    value = value * 16 + static_cast<uint32_t>(digit);
    ++at_;
  }
  return true;
}

bool Reader::string(std::string& out) {
  out.clear();
  if (!take('"')) return false;
  while (!done()) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) return false;
    if (c != '\\') {
      const Utf8Char decoded = decode_utf8(text_.substr(at_));
      if (decoded.code_point == kInvalidByte) return false;
      out.append(text_.substr(at_, decoded.size));
      at_ += decoded.size;
      continue;
    }
    ++at_;
    const char e = peek();
    ++at_;
    switch (e) {
      case '"':
      case '\\':
      case '/': out += e; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'u': {
        uint32_t first;
        if (!hex4(first)) return false;
        if (first >= 0xD800 && first <= 0xDBFF) {
          const size_t before = at_;
          uint32_t second;
          if (take("\\u") && hex4(second) && second >= 0xDC00 && second <= 0xDFFF) {
            first = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
          } else {
            at_ = before;
            first = 0xFFFD;
          }
        } else if (first >= 0xDC00 && first <= 0xDFFF) {
          first = 0xFFFD;
        }
        append_utf8(first, out);
        break;
      }
      default: return false;
    }
  }
  return false;
}

bool Reader::number(std::string& out) {
  const size_t begin = at_;
  const auto digits = [&] {
    const size_t first = at_;
    while (!done() && peek() >= '0' && peek() <= '9') ++at_;
    return at_ > first;
  };
  take('-');
  if (!take('0') && !digits()) return false;
  if (take('.') && !digits()) return false;
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (!take('+')) take('-');
    if (!digits()) return false;
  }
  out = text_.substr(begin, at_ - begin);
  return out.size() <= 1024;
}

}  // namespace

Id Document::push(Kind kind, size_t a) {
  nodes_.push_back({kind, static_cast<uint32_t>(a)});
  return static_cast<Id>(nodes_.size() - 1);
}

Id Document::add_string(std::string text) {
  strings_.push_back(std::move(text));
  return push(Kind::kString, strings_.size() - 1);
}

Id Document::add_number(std::string text) {
  strings_.push_back(std::move(text));
  return push(Kind::kNumber, strings_.size() - 1);
}

Id Document::add_array(std::vector<Id> items) {
  arrays_.push_back(std::move(items));
  return push(Kind::kArray, arrays_.size() - 1);
}

Id Document::add_object(std::vector<Member> members) {
  if (members.size() > 1) {
    std::unordered_map<std::string_view, size_t> places;
    size_t kept = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      const auto known = places.find(members[i].first);
      if (known != places.end()) {
        members[known->second].second = members[i].second;
        continue;
      }
      if (kept != i) members[kept] = std::move(members[i]);
      places.emplace(members[kept].first, kept);
      ++kept;
    }
    members.resize(kept);
  }
  objects_.push_back(std::move(members));
  return push(Kind::kObject, objects_.size() - 1);
}

double Document::number(Id id) const { return is(id, Kind::kNumber) ? std::strtod(text(id).c_str(), nullptr) : 0; }

Id Document::member(Id object, std::string_view name) const {
  if (!is(object, Kind::kObject)) return kAbsent;
  for (const Member& member : members(object))
    if (member.first == name) return member.second;
  return kAbsent;
}

bool Document::parse(std::string_view text, Id& root, std::string& error, size_t most_bytes) {
  if (text.size() > most_bytes) {
    error = "the text is longer than " + std::to_string(most_bytes >> 20) + " MiB";
    return false;
  }
  struct Open {
    bool is_object;
    std::vector<Id> items;
    std::vector<Member> members;
    std::string key;
  };
  std::vector<Open> open;
  Reader in(text);
  const auto fail = [&](const char* what) {
    error = std::string(what) + " at byte " + std::to_string(in.at());
    return false;
  };
  for (;;) {
    in.skip_space();
    Id value = kAbsent;
    std::string string;
    const bool is_object = in.take('{');
    if (is_object || in.take('[')) {
      if (open.size() >= kDeepest) return fail("nested too deeply");
      open.push_back({is_object, {}, {}, {}});
      in.skip_space();
      if (in.take(is_object ? '}' : ']')) {
        open.pop_back();
        value = is_object ? add_object({}) : add_array({});
      } else if (is_object) {
        if (!in.string(open.back().key)) return fail("expected a member name");
        in.skip_space();
        if (!in.take(':')) return fail("expected a colon");
        continue;
      } else {
        continue;
      }
    } else if (in.peek() == '"') {
      if (!in.string(string)) return fail("malformed string");
      value = add_string(std::move(string));
    } else if (in.take("null")) {
      value = add(Kind::kNull);
    } else if (in.take("true")) {
      value = add(Kind::kTrue);
    } else if (in.take("false")) {
      value = add(Kind::kFalse);
    } else {
      if (!in.number(string)) return fail("expected a value");
      value = add_number(std::move(string));
    }
    // Adds the value to the innermost open array or object. If that container closes here, it becomes the value to add
    // to the container around it.
    for (;;) {
      in.skip_space();
      if (open.empty()) {
        if (!in.done()) return fail("unexpected text after the value");
        root = value;
        return true;
      }
      Open& top = open.back();
      if (top.is_object)
        top.members.emplace_back(std::move(top.key), value);
      else
        top.items.push_back(value);
      if (in.take(',')) {
        if (top.is_object) {
          in.skip_space();
          if (!in.string(top.key)) return fail("expected a member name");
          in.skip_space();
          if (!in.take(':')) return fail("expected a colon");
        }
        break;
      }
      if (!in.take(top.is_object ? '}' : ']')) return fail("expected a comma or a closing bracket");
      value = top.is_object ? add_object(std::move(top.members)) : add_array(std::move(top.items));
      open.pop_back();
    }
  }
}

namespace {

// A JSON number, represented by its significant digits and the power of ten of the last digit. Equal numbers compare
// equal, regardless of their notation and length. Exponents saturate at 10^15 so that their sums cannot overflow int64.
struct Significant {
  bool negative = false;
  std::string digits;
  int64_t power = 0;

  bool operator==(const Significant&) const = default;

  static Significant of(std::string_view json) {
    Significant out;
    if (json.starts_with('-')) {
      out.negative = true;
      json.remove_prefix(1);
    }
    const size_t e = json.find_first_of("eE");
    if (e != std::string_view::npos) {
      std::string_view written = json.substr(e + 1);
      const bool down = written.starts_with('-');
      if (down || written.starts_with('+')) written.remove_prefix(1);
      for (const char c : written) out.power = std::min<int64_t>(out.power * 10 + (c - '0'), kMaxPower);
      if (down) out.power = -out.power;
      json = json.substr(0, e);
    }
    const size_t point = json.find('.');
    if (point != std::string_view::npos) out.power -= static_cast<int64_t>(json.size() - point - 1);
    for (const char c : json)
      if (c != '.' && !(c == '0' && out.digits.empty())) out.digits += c;
    while (out.digits.ends_with('0')) {
      out.digits.pop_back();
      ++out.power;
    }
    if (out.digits.empty()) return {};  // 0 and -0 compare equal.
    return out;
  }

 private:
  static constexpr int64_t kMaxPower = 1'000'000'000'000'000;
};

}  // namespace

bool Document::equal(Id a, Id b) const {
  if (a == b) return true;
  if (kind(a) != kind(b)) return false;
  switch (kind(a)) {
    case Kind::kNumber: return text(a) == text(b) || Significant::of(text(a)) == Significant::of(text(b));
    case Kind::kString: return text(a) == text(b);
    case Kind::kArray: {
      const auto x = items(a), y = items(b);
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!equal(x[i], y[i])) return false;
      return true;
    }
    case Kind::kObject: {
      if (members(a).size() != members(b).size()) return false;
      for (const Member& one : members(a)) {
        const Id other = member(b, one.first);
        if (other == kAbsent || !equal(one.second, other)) return false;
      }
      return true;
    }
    default: return true;
  }
}

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      const char* digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[c >> 4 & 15];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string Document::write(Id id) const {
  switch (kind(id)) {
    case Kind::kNull: return "null";
    case Kind::kTrue: return "true";
    case Kind::kFalse: return "false";
    case Kind::kNumber: return text(id);
    case Kind::kString: return quoted(text(id));
    case Kind::kArray: {
      std::string out = "[";
      for (const Id item : items(id)) out += (out.size() > 1 ? "," : "") + write(item);
      return out + ']';
    }
    case Kind::kObject: {
      std::string out = "{";
      for (const Member& member : members(id)) {
        if (out.size() > 1) out += ',';
        out += quoted(member.first) + ':' + write(member.second);
      }
      return out + '}';
    }
  }
  return {};
}

}  // namespace monolith::json
