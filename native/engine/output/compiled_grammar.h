// Result of compiling a grammar. Safe to use from any thread.
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
  std::shared_ptr<grammar::Grammar> grammar;  // Null if the grammar was rejected (see `problems`).
  std::vector<grammar::SchemaProblem> problems;
  int64_t ns = 0;  // CPU time of the compilation, in ns; 0 = taken from the cache.
};

// Callback that receives the result exactly once, either on the caller's thread or on a compiler thread. It must not
// block.
using GrammarDone = std::function<void(CompiledGrammar)>;

}  // namespace monolith
