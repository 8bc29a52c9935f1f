// A test harness of one table: TEST(name) { ... CHECK(...) }. Each executable prints TAP 14 on stdout,
// takes an optional substring filter and --list, and exits 1 if anything failed. Before them --clock=SECONDS, or
// --clock=max, sets what the engine's clock begins with.
#pragma once

#include <cmath>
#include <sstream>
#include <string>

namespace check {

struct Test {
  const char* name;
  void (*run)();
  const char* file;
  int line;
};
bool add(const Test& test);
// Record and continue. Cold: what is said of a failure is built out of the way, thousands of times in the tests' code.
[[gnu::cold]] void fail(const char* file, int line, const std::string& what);
[[gnu::cold]] void fail(const char* file, int line, const char* what);
void note(const std::string& text);  // a TAP comment
void skip(const std::string& why);   // marks the running test; return after it
// Of an executable whose tests all need something of the machine: asked once, before the first test. If the answer says
// what is missing, every test is skipped with it.
bool needs(std::string (*what_is_missing)());
// A file of the repository's own test data: <repository>/test/data/<relative>.
std::string data_path(const std::string& relative);
std::string repository_path(const std::string& relative);  // <repository>/<relative>
// A file of the golden vectors, of their first part or their second: in $MONOLITH_VECTORS or $MONOLITH_VECTORS2, in
// test/data/vectors or vectors2, or in ../shared/vectors2. Empty if it is nowhere: the test calls skip().
std::string vectors_path(const std::string& relative);

template <typename A, typename B>
std::string describe(const char* ea, const char* eb, const A& a, const B& b) {
  std::ostringstream out;
  out << ea << " = " << a << ", " << eb << " = " << b;
  return out.str();
}

template <typename A, typename B>
[[gnu::cold, gnu::noinline]] void unequal(const char* file, int line, const char* ea, const char* eb, const A& a,
                                          const B& b) {
  fail(file, line, "expected equal: " + describe(ea, eb, a, b));
}

// A function, so that references into temporaries (`CHECK_EQ(f()->value(), 1)`) live until it returns.
template <typename A, typename B>
void equal(const char* file, int line, const char* ea, const char* eb, const A& a, const B& b) {
  if (!(a == b)) unequal(file, line, ea, eb, a, b);
}

}  // namespace check

#define TEST(name)                                                                                        \
  static void test_##name();                                                                              \
  [[maybe_unused]] static const bool added_##name = check::add({#name, test_##name, __FILE__, __LINE__}); \
  static void test_##name()

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) check::fail(__FILE__, __LINE__, "CHECK(" #condition ")"); \
  } while (0)

#define CHECK_EQ(a, b) check::equal(__FILE__, __LINE__, #a, #b, (a), (b))

// Stops the test: what follows cannot make sense.
#define REQUIRE(condition)                                        \
  do {                                                            \
    if (!(condition)) {                                           \
      check::fail(__FILE__, __LINE__, "REQUIRE(" #condition ")"); \
      return;                                                     \
    }                                                             \
  } while (0)
