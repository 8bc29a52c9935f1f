// Benchmark and check of JSON Schema grammars: compiles schemas and matches texts token by token, on one thread. All
// times are that thread's CPU time in microseconds.
//
//   grammar_bench VOCABULARY.gguf < cases
//
// Each input line is a case, with tab-separated fields: the schema and then, for each text, V (valid) or I (invalid)
// and the text itself. The program prints one line per case, also with tab-separated fields:
//
//   refused  kind  keyword  what
//   read     compile time including the first mask  valid  valid refused  invalid  invalid accepted  masks wrong
//            past limits  [time of each mask ...]
//
// Texts are tokenized greedily by longest match, so that vocabularies without merges can also be measured.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/gguf/gguf.h"
#include "text/grammar/grammar.h"
#include "formats/gguf/tokenizer.h"

using namespace monolith;
using namespace monolith::grammar;

namespace {

double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

class LongestTokens {
 public:
  LongestTokens(const GrammarVocabulary& vocabulary, int n_tokens) {
    for (TokenId token = 0; token < n_tokens; ++token) {
      const std::string_view bytes = vocabulary.bytes(token);
      if (bytes.empty()) continue;
      ids_.emplace(bytes, token);
      longest_ = std::max(longest_, bytes.size());
    }
  }
  // Returns the longest token that is a prefix of `text`, or kNoToken if there is none.
  TokenId first_of(std::string_view text) const {
    for (size_t n = std::min(longest_, text.size()); n > 0; --n)
      if (const auto found = ids_.find(text.substr(0, n)); found != ids_.end()) return found->second;
    return kNoToken;
  }

 private:
  std::unordered_map<std::string_view, TokenId> ids_;
  size_t longest_ = 0;
};

std::vector<std::string_view> parts_of(std::string_view line) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = line.find('\t');
    parts.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return parts;
    line.remove_prefix(end + 1);
  }
}

struct Counts {
  int valid = 0, valid_refused = 0, invalid = 0, invalid_accepted = 0, masks_wrong = 0, past_limits = 0;
  std::vector<double> mask_us;
};

void read(Grammar& grammar, const LongestTokens& tokens, std::string_view text, bool valid, TokenMask& mask,
          Counts& counts) {
  (valid ? counts.valid : counts.invalid)++;
  Grammar::Position position = grammar.start();
  std::vector<TokenId> before;
  bool refused = false;
  while (!text.empty() && !refused) {
    const double from = thread_us();
    const Grammar::Outcome found = grammar.allowed(position, before, mask);
    counts.mask_us.push_back(thread_us() - from);
    const TokenId token = tokens.first_of(text);
    const Grammar::Outcome read =
        token == kNoToken ? Grammar::Outcome::kRefused : grammar.advance(position, before, token);
    if (found == Grammar::Outcome::kFailed || read == Grammar::Outcome::kFailed) {
      counts.past_limits++;
      return;
    }
    refused = read == Grammar::Outcome::kRefused;
    if (token != kNoToken && mask.has(static_cast<uint32_t>(token)) == refused) counts.masks_wrong++;
    if (refused) break;
    before.push_back(token);
    text.remove_prefix(grammar.vocabulary().bytes(token).size());
  }
  const bool accepted = !refused && position.accepts;
  if (valid && !accepted) counts.valid_refused++;
  if (!valid && accepted) counts.invalid_accepted++;
}

// Replaces tabs and line breaks with spaces, so that the text fits in one output field.
std::string flat(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

const char* name_of(SchemaProblem::Kind kind) {
  switch (kind) {
    case SchemaProblem::Kind::kInvalid: return "invalid";
    case SchemaProblem::Kind::kUnsupported: return "unsupported";
    case SchemaProblem::Kind::kTooLarge: return "too_large";
    case SchemaProblem::Kind::kImpossible: return "impossible";
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: grammar_bench VOCABULARY.gguf < cases\n"), 2;
  const auto file = GgufFile::open(argv[1]);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
  const auto tokenizer = load_tokenizer(**file);
  if (!tokenizer) return std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str()), 1;
  const int n_tokens = (*tokenizer)->n_vocab();
  const auto vocabulary = std::make_shared<const GrammarVocabulary>(**tokenizer, n_tokens);
  const LongestTokens tokens(*vocabulary, n_tokens);
  TokenMask mask(static_cast<size_t>(n_tokens));

  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string_view> parts = parts_of(line);
    GrammarOptions options;
    options.kind = GrammarOptions::Kind::kJsonSchema;
    options.text = parts[0];
    options.order = PropertyOrder::kAny;
    std::vector<SchemaProblem> problems;
    const double from = thread_us();
    const std::shared_ptr<Grammar> grammar = Grammar::compile(options, vocabulary, GrammarLimits(), nullptr, problems);
    if (grammar == nullptr) {
      const SchemaProblem& problem = problems.back();
      std::printf("refused\t%s\t%s\t%s\n", name_of(problem.kind), flat(problem.keyword).c_str(),
                  flat(problem.what).c_str());
      continue;
    }
    const double compile_us = thread_us() - from;  // The time includes the first mask.
    Counts counts;
    for (size_t i = 1; i + 1 < parts.size(); i += 2)
      read(*grammar, tokens, parts[i + 1], parts[i] == "V", mask, counts);
    std::printf("read\t%.2f\t%d\t%d\t%d\t%d\t%d\t%d", compile_us, counts.valid, counts.valid_refused, counts.invalid,
                counts.invalid_accepted, counts.masks_wrong, counts.past_limits);
    for (const double us : counts.mask_us) std::printf("\t%.2f", us);
    std::printf("\n");
  }
  return 0;
}
