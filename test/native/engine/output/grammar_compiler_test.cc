// Tests grammar compilation on background threads: each request completes exactly once, a long compilation does not
// delay a short one, and closing the engine does not wait for compilations.
#include "engine/output/grammar_compiler.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "text/tokenizer/support.h"

namespace monolith {
namespace {

using grammar::GrammarOptions;
using grammar::SchemaProblem;

GrammarOptions choice(const std::string& text) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kChoice;
  options.choices = {text};
  return options;
}

// Returns a grammar whose compilation runs until it reaches its limit. Different values of `which` result in different
// grammars.
GrammarOptions endless(int which) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kJsonSchema;
  options.text =
      R"({"type":"string","allOf":[{"pattern":"(a|b)*a(a|b){16}$"},{"pattern":"^(.*x.*y.*z){3,60}$"},{"not":{"pattern":"(ab|ba)*c{9,40)" +
      std::to_string(10 + which) + R"(}"}}]})";
  return options;
}

struct Compiling {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<GrammarCache> cache;
  std::unique_ptr<GrammarCompiler> compiler;

  explicit Compiling(int compile_ms) {
    auto words = testing::load(testing::VocabularyFile::byte_level());
    REQUIRE(words.ok());
    tokenizer = std::move(*words);
    grammar::GrammarLimits limits;
    limits.compile_ms = compile_ms;
    limits.compile_steps = UINT64_MAX;
    limits.most_expressions = limits.most_shapes = SIZE_MAX;
    cache = std::make_unique<GrammarCache>(*tokenizer, tokenizer->n_vocab(), limits);
    compiler = std::make_unique<GrammarCompiler>(*cache);
  }
};

// The result of one compilation, and how often it was reported.
struct Asked {
  std::promise<CompiledGrammar> promise;
  std::atomic<int> n_told{0};
  std::thread::id on;

  GrammarDone done() {
    return [this](CompiledGrammar compiled) {
      on = std::this_thread::get_id();
      if (n_told++ == 0) promise.set_value(std::move(compiled));
    };
  }
  CompiledGrammar wait() { return promise.get_future().get(); }
};

}  // namespace

TEST(a_long_compilation_does_not_delay_others) {
  Asked first, second, quick, again;  // The second one may be reported as late as the compiler's destruction.
  Compiling compiling(500);
  REQUIRE(compiling.compiler);
  compiling.compiler->compile(endless(1), first.done());
  compiling.compiler->compile(endless(2), second.done());
  compiling.compiler->compile(choice("yes"), quick.done());
  const CompiledGrammar compiled = quick.wait();
  CHECK(compiled.grammar != nullptr && compiled.ns > 0);
  CHECK_EQ(first.n_told + second.n_told, 0);
  // A cached grammar is returned immediately.
  compiling.compiler->compile(choice("yes"), again.done());
  CHECK_EQ(again.n_told.load(), 1);
  CHECK(again.on == std::this_thread::get_id() && again.wait().grammar == compiled.grammar);
  // A long compilation gets the full time limit, not the shorter limit for short compilations.
  const CompiledGrammar refused = first.wait();
  CHECK(refused.grammar == nullptr && refused.problems.back().kind == SchemaProblem::Kind::kTooLarge);
  CHECK(refused.ns > 400'000'000);
}

TEST(closing_the_engine_does_not_wait_for_compilations) {
  Asked quick;
  std::vector<Asked> asked(6);
  Compiling compiling(600'000);
  REQUIRE(compiling.compiler);
  for (int i = 0; i < 6; ++i) compiling.compiler->compile(endless(i), asked[static_cast<size_t>(i)].done());
  compiling.compiler->compile(choice("yes"), quick.done());
  // At this point, the other compilations are waiting for the second thread, or one of them is running on it.
  CHECK(quick.wait().grammar != nullptr);
  const auto from = std::chrono::steady_clock::now();
  compiling.compiler.reset();
  CHECK(std::chrono::steady_clock::now() - from < std::chrono::seconds(20));
  int closed = 0;
  for (Asked& one : asked) {
    CHECK_EQ(one.n_told.load(), 1);
    const CompiledGrammar refused = one.wait();
    CHECK(refused.grammar == nullptr && refused.problems.back().kind == SchemaProblem::Kind::kTooLarge);
    closed += refused.problems.back().what == "the engine was closed";
  }
  CHECK(closed >= 5);                               // All except the one that was running.
  CHECK_EQ(compiling.cache->entries(), size_t{1});  // Unfinished compilations are not cached as failures.
}

}  // namespace monolith
