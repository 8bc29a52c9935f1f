// What comes of compiling a grammar. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace monolith {

namespace grammar {
class Grammar;
struct SchemaProblem;
}

struct CompiledGrammar {
  std::shared_ptr<grammar::Grammar> grammar;  // null: refused
  std::vector<grammar::SchemaProblem> problems;
  int64_t ns = 0;  // of a thread's time; 0: it was known
};

// Takes it, once, on the caller's thread or another; it must not block.
using GrammarDone = std::function<void(CompiledGrammar)>;

}  // namespace monolith
