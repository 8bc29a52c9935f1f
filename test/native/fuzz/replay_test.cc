// Runs the fuzz targets on their committed corpora, so that bugs found earlier stay fixed. Does not need libFuzzer.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "formats/gguf/gguf.h"
#include "base/json/document.h"
#include "fuzz/seeds.h"
#include "fuzz/target.h"

using monolith::GgufFile;
using namespace monolith::fuzzing;

namespace {

// Prints the name of an input before running it, so that the last name in the output identifies an input that ends the
// process. The input is copied to a buffer of exactly its size, so that sanitizers detect reads past the end.
void replay(const Target& target, const std::string& name, std::span<const uint8_t> bytes) {
  check::note(std::string(target.name) + " " + name);
  std::fflush(stdout);
  const auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  run(target, {exact.get(), bytes.size()});
}

using Inputs = std::vector<std::pair<std::string, std::string>>;  // Names and bytes.

// Returns the inputs in the committed corpus, test/fuzz/corpus/TARGET.pack. Its format is described in
// scripts/fuzz/corpus-pack.mjs. Returns no inputs for targets that have only seeds. Fails the test if the file is
// damaged.
Inputs corpus_of(const Target& target) {
  const std::string path = check::repository_path("test/fuzz/corpus/") + target.name + ".pack";
  std::ifstream in(path, std::ios::binary);
  const std::string pack(std::istreambuf_iterator<char>(in), {});
  const auto byte = [&pack](size_t at) { return static_cast<uint8_t>(pack[at]); };
  Inputs inputs;
  for (size_t at = 0; at < pack.size();) {
    const size_t length_at = at + 1 + byte(at);
    size_t length = 0;
    for (size_t i = 0; i < 4 && length_at + 4 <= pack.size(); ++i) length |= size_t{byte(length_at + i)} << (8 * i);
    if (length_at + 4 + length > pack.size()) {
      check::fail(__FILE__, __LINE__, path + " is cut off");
      break;
    }
    inputs.emplace_back(pack.substr(at + 1, length_at - at - 1), pack.substr(length_at + 4, length));
    at = length_at + 4 + length;
  }
  return inputs;
}

// Returns the seeds and the corpus inputs of a fuzz target.
Inputs inputs_of(const Target& target, const std::vector<Seed>& seeds) {
  Inputs inputs = corpus_of(target);
  for (const Seed& seed : seeds)
    if (std::string_view(seed.target) == target.name)
      inputs.emplace_back(seed.name, std::string(seed.bytes.begin(), seed.bytes.end()));
  std::ranges::sort(inputs);
  return inputs;
}

// Whether the first parser that reads the inputs of this fuzz target accepts the input.
bool reads(std::string_view target, std::string_view input) {
  if (target == "model" || target == "vision" || target == "gguf" || target == "tokenizer") {
    std::vector<std::byte> image((target == "gguf" ? input.size() : input.size() + (2 << 20)));
    std::memcpy(image.data(), input.data(), input.size());
    return GgufFile::parse(image).ok();
  }
  monolith::json::Document document;
  monolith::json::Id root;
  std::string error;
  return document.parse(halves({reinterpret_cast<const uint8_t*>(input.data()), input.size()}).first, root, error);
}

constexpr std::string_view kReadAsOne[] = {"model", "vision", "gguf",      "tokenizer",
                                           "json",  "schema", "arguments", "tokenizer_json"};

}  // namespace

// Mutators must keep most valid inputs valid; otherwise, they would find no more than byte mutations do. The checks of
// the fuzz target must also hold for the mutated inputs.
TEST(fuzz_mutators_keep_most_inputs_valid) {
  const std::vector<Seed> seeds = made_seeds();
  size_t n_mutators = 0;
  for (const Target& target : targets()) {
    if (target.mutate == nullptr) continue;
    ++n_mutators;
    Chance chance(94);
    size_t n_read = 0, n_still = 0, n_changed = 0, n_made = 0;
    const auto inputs = inputs_of(target, seeds);
    for (size_t i = 0; i < inputs.size(); i += 1 + inputs.size() / 60) {
      const auto& [name, input] = inputs[i];
      for (int k = 0; k < 2; ++k) {
        const auto mutant = target.mutate(input, chance);
        if (!mutant) continue;
        ++n_made;
        n_changed += *mutant != input;
        replay(target, name + " changed", {reinterpret_cast<const uint8_t*>(mutant->data()), mutant->size()});
        if (std::ranges::find(kReadAsOne, std::string_view(target.name)) == std::end(kReadAsOne) ||
            !reads(target.name, input))
          continue;
        ++n_read;
        n_still += reads(target.name, *mutant);
      }
    }
    check::note(std::string(target.name) + ": " + std::to_string(n_made) + " mutants, " + std::to_string(n_changed) +
                " of them changed, " + std::to_string(n_still) + " of " + std::to_string(n_read) +
                " can still be read");
    CHECK(n_made >= 20 && n_changed > n_made * 8 / 10);
    CHECK(n_still * 2 >= n_read);
  }
  CHECK_EQ(n_mutators, 12u);
}

TEST(fuzz_corpora_pass) {
  CHECK(targets().size() >= 12);
  const std::vector<Seed> seeds = made_seeds();
  CHECK_EQ(std::ranges::count_if(targets(), [](const Target& target) { return !corpus_of(target).empty(); }), 9);
  for (const Target& target : targets()) {
    size_t n_inputs = 0, n_bytes = 0;
    n_reached() = 0;
    for (const auto& [name, input] : inputs_of(target, seeds)) {
      replay(target, name, {reinterpret_cast<const uint8_t*>(input.data()), input.size()});
      ++n_inputs;
    }
    for (const auto& [name, input] : corpus_of(target)) n_bytes += input.size();
    if (n_inputs < 10) check::fail(__FILE__, __LINE__, std::string(target.name) + " has no corpus");
    CHECK(n_bytes < 100'000);
    check::note(std::string(target.name) + ": " + std::to_string(n_reached()) + " of " + std::to_string(n_inputs) +
                " reach the code under test");
    CHECK(n_reached() >= 5);  // All other inputs must be rejected.
    // Nearly all inputs for the `model` target are models that can be run.
    if (std::string_view(target.name) == "model") CHECK(n_reached() * 10 >= n_inputs * 9);
  }
}
