// Tests the headers of safetensors files: valid, malicious and randomly damaged headers.
#include <string>

#include "check.h"
#include "formats/hf/base64.h"
#include "formats/hf/safetensors.h"
#include "support/hf_folder.h"

using namespace monolith;
using namespace monolith::hf;
using namespace monolith::testing;

namespace {

// Returns a file with this header and `data_bytes` bytes of data.
std::string file_of(std::string head, size_t data_bytes) {
  const uint64_t size = head.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + head + std::string(data_bytes, 'd');
}

Result<std::vector<Safetensor>> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

void expect_refused(const std::string& file, const std::string& part) {
  const auto parsed = parse(file);
  if (parsed) return check::fail(__FILE__, __LINE__, "accepted, expected: " + part);
  CHECK(parsed.error().message.starts_with("x.safetensors: "));
  if (parsed.error().message.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "'" + parsed.error().message + "' does not contain '" + part + "'");
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& offsets) {
  return json_text(name) + ":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

}  // namespace

TEST(safetensors_headers_are_read) {
  const std::string file = safetensors_of({{"b", "F16", {2, 3}, std::string(12, 'b')},
                                           {"a", "F32", {}, "scal"},
                                           {"none", "BF16", {0, 4}, ""},
                                           {"odd", "F8_E4M3", {3}, "fp8"}});
  const auto parsed = parse(file);
  REQUIRE(parsed.ok() && parsed->size() == 4);
  CHECK_EQ((*parsed)[0].name, std::string("b"));
  CHECK_EQ((*parsed)[0].type, std::string("F16"));
  CHECK((*parsed)[0].shape == (std::vector<int64_t>{2, 3}));
  CHECK_EQ((*parsed)[0].data.size(), size_t{12});
  CHECK(std::memcmp((*parsed)[1].data.data(), "scal", 4) == 0);
  CHECK((*parsed)[2].data.empty());
  CHECK(parse(file_of("{}", 0)).ok());
}

TEST(malicious_safetensors_headers_are_rejected) {
  const auto one = [](const std::string& shape, const std::string& offsets, const std::string& type = "F16") {
    return file_of("{" + entry("t", type, shape, offsets) + "}", 8);
  };
  REQUIRE(parse(one("[4]", "[0,8]")).ok());
  expect_refused("", "too short");
  expect_refused("1234567", "too short");
  expect_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + "{}", "claims 18446744073709551615 bytes");
  expect_refused("version https://git-lfs.github.com/spec/v1", "Git LFS");
  expect_refused(one("[4]", "[0,8]").substr(0, 30), "truncated");
  expect_refused(one("[4]", "[0,8]") + "x", "belong to no tensor");
  expect_refused(file_of("{", 0), "not valid JSON");
  expect_refused(file_of("[]", 0), "not a JSON object");
  expect_refused(file_of(std::string(2000, '['), 0), "nested too deeply");
  expect_refused(file_of("{\"t\":1}", 0), "'t' must be described by a JSON object");
  expect_refused(one("[4]", "[0,9]"), "'t' lies at bytes 0 to 9 of the data, which has 8");
  expect_refused(one("[4]", "[8,0]"), "lies at bytes 8 to 0");
  expect_refused(one("[4]", "[-8,0]"), "offset");
  expect_refused(one("[4]", "[0,1e99]"), "offset");
  expect_refused(one("[4]", "[0,null]"), "null");
  expect_refused(one("[4]", "[0]"), "data_offsets");
  expect_refused(one("[5]", "[0,8]"), "does not match its shape in F16");
  expect_refused(one("[-4]", "[0,8]"), "dimension");
  expect_refused(one("[2.5]", "[0,8]"), "dimension");
  expect_refused(one("[4503599627370496,4503599627370496]", "[0,8]"), "has too many values");
  expect_refused(one("[1,1,1,1,1,1,1,1,4]", "[0,8]"), "9 dimensions");
  expect_refused(one("4", "[0,8]"), "has no shape");
  expect_refused(one("[4]", "[0,8]", ""), "dtype");
  expect_refused(one("[3]", "[0,6]"), "bytes from 6 on in the data");
  expect_refused(file_of("{" + entry("a", "F16", "[3]", "[0,6]") + "," + entry("b", "F16", "[2]", "[4,8]") + "}", 8),
                 "'a' and 'b' overlap");
  expect_refused(file_of("{" + entry("a", "F16", "[1]", "[0,2]") + "," + entry("b", "F16", "[2]", "[4,8]") + "}", 8),
                 "bytes from 2 on in the data");
  expect_refused(file_of("{" + entry("", "F16", "[4]", "[0,8]") + "}", 8), "invalid name");
  expect_refused(file_of("{" + entry("a\nb", "F16", "[4]", "[0,8]") + "}", 8), "'a\\x0ab'");
}

TEST(damaged_safetensors_headers_never_crash) {
  const std::string whole = safetensors_of(
      {{"a.weight", "F16", {2, 3}, std::string(12, 'b')}, {"b.weight", "F32", {2}, std::string(8, 'c')}});
  size_t accepted = 0;
  uint32_t random = 17;
  const auto next = [&] { return random = random * 1664525 + 1013904223; };
  const auto read = [&](const std::string& file) {
    const auto parsed = parse(file);
    if (!parsed) return;
    ++accepted;
    size_t sum = 0;
    for (const Safetensor& tensor : *parsed)
      for (const std::byte b : tensor.data) sum += static_cast<size_t>(b);
    CHECK(sum < size_t{1} << 40);
  };
  for (size_t n = 0; n <= whole.size(); ++n) read(whole.substr(0, n));
  constexpr std::string_view kBytes = "0123456789-e.,:[]{}\"\\ \xFF";
  for (int round = 0; round < 20000; ++round) {
    std::string file = whole;
    for (uint32_t i = 0; i <= next() >> 30; ++i) {
      const size_t at = (next() >> 8) % file.size();
      switch (next() >> 30) {
        case 0: file[at] = static_cast<char>(next() >> 24); break;
        case 1: file.erase(at, 1 + (next() >> 29)); break;
        case 2: file.insert(at, 1, kBytes[(next() >> 8) % kBytes.size()]); break;
        default: file[at] = kBytes[(next() >> 8) % kBytes.size()];
      }
      if (file.empty()) break;
    }
    read(file);
  }
  CHECK(accepted > 0);
}

TEST(base64_is_parsed_strictly) {
  std::vector<std::byte> out;
  const auto text = [&] { return std::string(reinterpret_cast<const char*>(out.data()), out.size()); };
  CHECK(decode_base64("", out) && out.empty());
  CHECK(decode_base64("TWFu", out) && text() == "Man");
  CHECK(decode_base64("TWE=", out) && text() == "Ma");
  CHECK(decode_base64("TQ==", out) && text() == "M");
  for (const char* bad : {"TWF", "TWF*", "T===", "=AAA", "TQ=A"}) CHECK(!decode_base64(bad, out));
}
