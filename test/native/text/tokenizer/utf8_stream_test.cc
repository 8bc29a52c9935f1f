// Compares the incremental UTF-8 decoder with the decoder defined by WHATWG, for whole inputs and for every way to
// split them.
#include <string>

#include "check.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

struct Case {
  const char *bytes, *text;
};
// Generated with JavaScript's TextDecoder.
constexpr Case kDecoded[] = {
    {"\x41", "\x41"},
    {"\xc3\xa9", "\xc3\xa9"},
    {"\xe2\x82\xac", "\xe2\x82\xac"},
    {"\xf0\x9f\x9a\x80", "\xf0\x9f\x9a\x80"},
    {"\xef\xbb\xbf\x41", "\xef\xbb\xbf\x41"},
    {"\x80", "\xef\xbf\xbd"},
    {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xc3", "\xef\xbf\xbd"},
    {"\xc3\x41", "\xef\xbf\xbd\x41"},
    {"\xe2\x82\x41", "\xef\xbf\xbd\x41"},
    {"\xe2\x82", "\xef\xbf\xbd"},
    {"\xe0\x80\x9f", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xe0\xa0", "\xef\xbf\xbd"},
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xed\x9f\xbf", "\xed\x9f\xbf"},
    {"\xf0\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf0\x8f", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
    {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf5\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xff\x41\xfe", "\xef\xbf\xbd\x41\xef\xbf\xbd"},
    {"\xf0\x9f\x9a", "\xef\xbf\xbd"},
    {"\xf0\x9f\x9a\x41", "\xef\xbf\xbd\x41"},
    {"\xf0\x9f\x41", "\xef\xbf\xbd\x41"},
    {"\xe1\xa0\xc0\xb4", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf1\x80\x80\x80", "\xf1\x80\x80\x80"},
    {"\xc3\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
    {"\xe2\xe2\x82\xac", "\xef\xbf\xbd\xe2\x82\xac"},
    {"\x61\x62\x63\xf0\xf0\x9f\x9a\x80\x62", "\x61\x62\x63\xef\xbf\xbd\xf0\x9f\x9a\x80\x62"},
};

std::string decode_in_parts(std::string_view bytes, size_t first, size_t second) {
  Utf8Stream stream;
  std::string out;
  stream.push(bytes.substr(0, first), out);
  stream.push(bytes.substr(first, second), out);
  stream.push(bytes.substr(first + second), out);
  stream.finish(out);
  CHECK_EQ(stream.pending(), 0);
  return out;
}

// Returns how many bytes at the start of the input are a prefix of a valid character, and whether they form a whole
// character. Uses the table of well-formed sequences in the Unicode Standard (table 3-7).
size_t longest_subpart(std::string_view bytes, bool& whole) {
  struct Row {
    unsigned char low[4], high[4];
    size_t size;
  };
  constexpr Row kWellFormed[] = {
      {{0x00}, {0x7F}, 1},
      {{0xC2, 0x80}, {0xDF, 0xBF}, 2},
      {{0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}, 3},
      {{0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}, 3},
      {{0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}, 3},
      {{0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}, 3},
      {{0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}, 4},
      {{0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}, 4},
      {{0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}, 4},
  };
  size_t longest = 0;
  whole = false;
  for (const Row& row : kWellFormed) {
    size_t n = 0;
    while (n < row.size && n < bytes.size() && static_cast<unsigned char>(bytes[n]) >= row.low[n] &&
           static_cast<unsigned char>(bytes[n]) <= row.high[n])
      ++n;
    if (n <= longest) continue;
    longest = n;
    whole = n == row.size;
  }
  return longest;
}

std::string decode_plainly(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    bool whole = false;
    const size_t n = longest_subpart(bytes, whole);
    if (whole)
      out += bytes.substr(0, n);
    else
      out += "\uFFFD";
    bytes.remove_prefix(n > 0 ? n : 1);
  }
  return out;
}

}  // namespace

TEST(utf8_stream_decodes_as_text_decoder) {
  for (const auto& [bytes, text] : kDecoded) {
    CHECK_EQ(show(decode_in_parts(bytes, 0, 0)), show(text));
    CHECK_EQ(show(decode_plainly(bytes)), show(text));
  }
}

TEST(utf8_stream_gives_the_same_at_every_split) {
  constexpr std::string_view kInteresting =
      "A\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xC3\xE0\xE2\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  uint32_t random = 7;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (int i = 0; i < 9; ++i) {
      random = random * 1664525 + 1013904223;
      bytes += kInteresting[(random >> 16) % kInteresting.size()];
    }
    const std::string want = decode_plainly(bytes);
    for (size_t first = 0; first <= bytes.size(); ++first)
      for (size_t second = 0; first + second <= bytes.size(); ++second)
        if (decode_in_parts(bytes, first, second) != want)
          check::fail(__FILE__, __LINE__, show(bytes) + " split at " + std::to_string(first));
  }
}

TEST(utf8_stream_never_holds_back_complete_characters) {
  Utf8Stream stream;
  std::string out;
  stream.push("a\xF0\x9F", out);
  CHECK_EQ(out, std::string("a"));
  CHECK_EQ(stream.pending(), 2);
  stream.push("\x9A", out);
  CHECK_EQ(stream.pending(), 3);
  stream.push("\x80", out);
  CHECK_EQ(out, std::string("a\xF0\x9F\x9A\x80"));
  CHECK_EQ(stream.pending(), 0);
}
