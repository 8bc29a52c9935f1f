// The fuzz targets over their committed corpora, so that what was once found stays found without libFuzzer.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "fuzz/seeds.h"
#include "fuzz/target.h"

using namespace monolith::fuzzing;

namespace {

// Named before it is run: what ends the process is then the last one named. Exactly as many bytes as there are, for sanitizers to watch over.
void replay(const Target& target, const std::string& name, std::span<const uint8_t> bytes) {
  check::note(std::string(target.name) + " " + name);
  std::fflush(stdout);
  const auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  run(target, {exact.get(), bytes.size()});
}

}  // namespace

TEST(fuzz_corpora) {
  CHECK(targets().size() >= 11);
  const std::vector<Seed> seeds = made_seeds();
  for (const Target& target : targets()) {
    size_t n_inputs = 0, n_bytes = 0;
    for (const Seed& seed : seeds) {
      if (std::string_view(seed.target) != target.name) continue;
      replay(target, seed.name, seed.bytes);
      ++n_inputs;
    }
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(check::repository_path("test/fuzz/corpus/") + target.name, none)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
      replay(target, entry.path().filename(), {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
      ++n_inputs;
      n_bytes += bytes.size();
    }
    if (n_inputs < 10) check::fail(__FILE__, __LINE__, std::string(target.name) + " has no corpus");
    CHECK(n_bytes < 100'000);
  }
}
