#include "base/sha256.h"

#include <string>
#include <string_view>

#include "check.h"

using namespace monolith;

TEST(sha256_matches_the_standard_with_any_chunks) {
  const auto hex = [](std::string_view text) { return Sha256::hex_of(std::as_bytes(std::span(text))); };
  // The examples from FIPS 180-4.
  CHECK_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string text(1000, 'x');
  for (size_t piece = 1; piece < 200; piece += 7) {
    Sha256 hash;
    for (size_t at = 0; at < text.size(); at += piece)
      hash.add(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
    CHECK_EQ(Sha256::hex(hash.finish()), hex(text));
  }
}
