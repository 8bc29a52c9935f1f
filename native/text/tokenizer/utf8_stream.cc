// Utf8Stream implements the decoder of https://encoding.spec.whatwg.org/#utf-8-decoder and emits only whole characters.
#include "text/tokenizer/tokenizer.h"

namespace monolith {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

}  // namespace

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  for (size_t i = 0; i < bytes.size();) {
    const unsigned char byte = at(i);
    if (needed_ == 0) {
      if (byte < 0x80) {  // Appends a whole run of ASCII characters at a time.
        size_t end = i + 1;
        while (end < bytes.size() && at(end) < 0x80) ++end;
        out.append(bytes, i, end - i);
        i = end;
        continue;
      }
      ++i;
      if (byte < 0xC2 || byte > 0xF4) {
        out += kReplacement;
        continue;
      }
      needed_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      // The range of the second byte excludes overlong forms, surrogates and code points above U+10FFFF.
      lower_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
      upper_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
      held_[pending_++] = byte;
      continue;
    }
    if (byte < lower_ || byte > upper_) {
      finish(out);  // The held bytes become one U+FFFD; `byte` is then processed again as a first byte.
      continue;
    }
    lower_ = 0x80;
    upper_ = 0xBF;
    ++i;
    if (--needed_ > 0) {
      held_[pending_++] = byte;
      continue;
    }
    for (int k = 0; k < pending_; ++k) out.push_back(static_cast<char>(held_[k]));
    out.push_back(static_cast<char>(byte));
    pending_ = 0;
  }
}

void Utf8Stream::finish(std::string& out) {
  if (pending_ > 0) out += kReplacement;
  *this = Utf8Stream();
}

}  // namespace monolith
