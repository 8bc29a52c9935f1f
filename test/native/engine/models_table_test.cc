// Checks docs/reference/models.md, which lists how each architecture is tested. The list is generated from the tables
// that the tests use. To update the file, run this test with MONOLITH_WRITE_DOCS=1.
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "model/all_cases.h"
#include "model/architectures.h"
#include "model/golden_files.h"
#include "formats/hf/architecture.h"

namespace monolith {
namespace {

using namespace testing;

constexpr std::string_view kBegin = "<!-- architectures -->\n", kEnd = "<!-- /architectures -->";

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word.substr(word.find_first_not_of(' ')));
  return words;
}

void append(std::string& list, std::string_view word) { list += (list.empty() ? "" : ", ") + std::string(word); }

std::string table() {
  std::set<std::string> networks;
  for (const Case& one : all_cases()) networks.insert(one.model.architecture);
  std::string text =
      "| `general.architecture` | golden files (llama.cpp) | float64 reference | Hugging Face classes "
      "|\n|---|---|---|---|\n";
  for (const std::string& name : words_of(known_architectures())) {
    std::string golden, folders;
    for (const GoldenFile& file : kGoldenFiles)
      if (name == file.architecture) append(golden, file.name);
    for (const hf::Architecture& folder : hf::architectures())
      if (folder.gguf == name) append(folders, folder.name);
    const auto cell = [](const std::string& words) { return words.empty() ? std::string("no") : words; };
    text += "| `" + name + "` | " + cell(golden) + " | " +
            (networks.contains(name) ? "yes"
             : golden.empty()        ? "no"
                                     : "no, golden only") +
            " | " + cell(folders) + " |\n";
  }
  return text;
}

}  // namespace

TEST(the_models_document_lists_how_each_architecture_is_tested) {
  const std::string path = check::data_path("../../docs/reference/models.md");
  std::ifstream in(path);
  std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  REQUIRE(begin != std::string::npos && end != std::string::npos);
  const size_t from = begin + kBegin.size();
  if (text.substr(from, end - from) == table()) return;
  if (std::getenv("MONOLITH_WRITE_DOCS") == nullptr)
    return check::fail(__FILE__, __LINE__, "docs/reference/models.md is out of date; MONOLITH_WRITE_DOCS=1 writes it");
  text.replace(from, end - from, table());
  std::ofstream(path) << text;
}

// Every architecture must have golden files or a float64 reference. Otherwise, the table would list its Hugging Face
// classes although no test computes their results.
TEST(every_architecture_has_a_network_or_golden_vectors) { CHECK(table().find("| no | no |") == std::string::npos); }

}  // namespace monolith
