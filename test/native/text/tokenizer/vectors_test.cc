// Compares token IDs with llama.cpp's token IDs for every text in the golden vectors.
#include <fstream>
#include <iterator>
#include <sstream>

#include "formats/gguf/tokenizer.h"
#include "check.h"
#include "support/json.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Loads the tokenizer of a golden-vector file. Returns null if the file is missing (the test is then skipped) or if
// loading fails (the test then fails).
std::unique_ptr<const Tokenizer> open(const std::string& relative) {
  const std::string path = check::vectors_path(relative);
  if (path.empty()) {
    check::skip("golden vectors not found: " + relative);
    return nullptr;
  }
  auto file = GgufFile::open(path);
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message), nullptr;
  auto tokenizer = load_tokenizer(**file);
  if (!tokenizer) return check::fail(__FILE__, __LINE__, tokenizer.error().message), nullptr;
  return std::move(tokenizer).value();
}

void expect_ids(const std::string& text, const std::vector<TokenId>& got, const std::vector<TokenId>& want) {
  if (got != want) check::fail(__FILE__, __LINE__, show(text) + ": got " + show(got) + ", want " + show(want));
}

// VOCAB.inp contains texts between marker lines, and VOCAB.out contains one line of token IDs per text.
void check_lines(const std::string& name) {
  const auto tokenizer = open("tokenizers/" + name + ".gguf");
  if (!tokenizer) return;
  const std::string texts = read_file(check::vectors_path("tokenizers/" + name + ".inp"));
  std::istringstream ids(read_file(check::vectors_path("tokenizers/" + name + ".out")));
  constexpr std::string_view kMark = "\n__ggml_vocab_test__\n";
  size_t n = 0;
  for (size_t begin = 0; begin < texts.size(); ++n) {
    const size_t end = std::min(texts.find(kMark, begin), texts.size());
    const std::string text = texts.substr(begin, end - begin);
    begin = end + kMark.size();
    std::string line;
    REQUIRE(std::getline(ids, line));
    std::istringstream words(line);
    const std::vector<TokenId> want{std::istream_iterator<TokenId>(words), {}};
    expect_ids(text, encode(*tokenizer, text), want);
  }
  CHECK_EQ(n, size_t{46});
}

// VOCAB.extra.json contains cases for special tokens, BOS and EOS, and decoding.
void check_extra(const std::string& name) {
  const auto tokenizer = open("tokenizers/" + name + ".gguf");
  if (!tokenizer) return;
  const auto cases = Json::parse(read_file(check::vectors_path("tokenizers/" + name + ".extra.json")));
  REQUIRE(cases && cases->array().size() > 50);
  for (const Json& one : cases->array()) {
    const std::string& text = one["text"].string();
    EncodeOptions options;
    options.add_special = one["add_special"].boolean();
    options.parse_special = one["parse_special"].boolean();
    const auto want = one["tokens"].numbers<TokenId>();
    expect_ids(text, encode(*tokenizer, text, options), want);
    CHECK_EQ(tokenizer->decode(want), one["detokenized"].string());
  }
}

void check_prompts(const std::string& name, size_t n_prompts = 6) {
  const auto tokenizer = open("models/" + name + ".gguf");
  if (!tokenizer) return;
  const auto golden = Json::parse(read_file(check::vectors_path("models/" + name + ".json")));
  REQUIRE(golden && (*golden)["prompts"].array().size() == n_prompts);
  for (const Json& prompt : (*golden)["prompts"].array()) {
    EncodeOptions options;
    options.add_special = prompt["add_special"].boolean();
    // llama.cpp does not compose decomposed text. Qwen's own tokenizer does, and this tokenizer does so by default.
    options.verbatim = true;
    const std::string& text = prompt["text"].string();
    expect_ids(text, encode(*tokenizer, text, options), prompt["tokens"].numbers<TokenId>());
  }
}

}  // namespace

TEST(gpt2_lines_equal_llama_cpp) { check_lines("gpt-2"); }
TEST(deepseek_coder_lines_equal_llama_cpp) { check_lines("deepseek-coder"); }
TEST(starcoder_lines_equal_llama_cpp) { check_lines("starcoder"); }
TEST(sentencepiece_lines_equal_llama_cpp) { check_lines("llama-spm"); }

TEST(gpt2_options_and_decoding_equal_llama_cpp) { check_extra("gpt-2"); }
TEST(deepseek_coder_options_and_decoding_equal_llama_cpp) { check_extra("deepseek-coder"); }
TEST(starcoder_options_and_decoding_equal_llama_cpp) { check_extra("starcoder"); }
TEST(sentencepiece_options_and_decoding_equal_llama_cpp) { check_extra("llama-spm"); }

TEST(prompts_of_all_models_equal_llama_cpp) {
  for (const char* name : {"llama.f32", "llama.f16", "llama.bf16", "llama.q8_0", "llama.q4_0", "llama.q4_k",
                           "llama.q6_k", "llama.q4_k_m", "llama-rope3.f16", "qwen2.f16", "qwen3.f16", "gemma3.f16"})
    check_prompts(name);
  for (const char* name : {"rwkv6.q8_0", "rwkv7.f16"}) check_prompts(name, 4);
}
