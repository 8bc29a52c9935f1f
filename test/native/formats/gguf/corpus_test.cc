// The fuzz target's own function over its corpus, so that what it once found stays found without
// libFuzzer.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "check.h"
#include "fuzz/gguf_fuzz.cc"

TEST(gguf_fuzz_corpus) {
  std::error_code failed;
  size_t n_files = 0, n_accepted = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(check::data_path("gguf/corpus"), failed)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    CHECK_EQ(LLVMFuzzerTestOneInput(data, bytes.size()), 0);
    n_accepted += monolith::GgufFile::parse(std::as_bytes(std::span(bytes))).ok();
    ++n_files;
  }
  CHECK(!failed);
  CHECK(n_files >= 20 && n_accepted > 0 && n_accepted < n_files);
}
