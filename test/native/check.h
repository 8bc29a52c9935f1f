// A minimal test harness: TEST(name) { ... CHECK(...) }. Each test executable prints TAP 14 to stdout and exits with
// code 1 if a test failed. The argument is --list or a filter. A filter is a substring of test names or, if it contains
// a slash, of the paths of test files. An option before this argument, --clock=SECONDS or --clock=max, sets the start
// value of the engine's clock.
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
// Records a failure; the test continues. These functions are marked cold, so that the compiler moves the code that
// builds the message, which occurs thousands of times in tests, out of the hot path.
[[gnu::cold]] void fail(const char* file, int line, const std::string& what);
[[gnu::cold]] void fail(const char* file, int line, const char* what);
void note(const std::string& text);  // Prints a TAP comment.
void skip(const std::string& why);   // Marks the running test as skipped. The test must return after the call.
// For a test executable in which all tests depend on a property of the machine. `what_is_missing` is called once,
// before the first test. If it returns a string, every test is skipped, with that string as the reason.
bool needs(std::string (*what_is_missing)());
// Returns the path of a test data file in the repository: <repository>/test/data/<relative>.
std::string data_path(const std::string& relative);
std::string repository_path(const std::string& relative);  // Returns the path <repository>/<relative>.
// Returns the path of a golden-vector file from any of the three vector sets. Searches $MONOLITH_VECTORS,
// $MONOLITH_VECTORS2 and $MONOLITH_VECTORS3, test/data/vectors and vectors2, and ../shared/vectors2 and vectors3.
// Returns an empty string if the file does not exist; the test should then call skip().
std::string vectors_path(const std::string& relative);

// The main function of every test executable: runs the tests, prints TAP and returns the exit code.
int run(int argc, char** argv);

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

// A function rather than a macro, so that references into temporaries (`CHECK_EQ(f()->value(), 1)`) stay valid until
// the comparison is done.
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

// Returns from the test on failure. Use it for conditions on which the rest of the test depends.
#define REQUIRE(condition)                                        \
  do {                                                            \
    if (!(condition)) {                                           \
      check::fail(__FILE__, __LINE__, "REQUIRE(" #condition ")"); \
      return;                                                     \
    }                                                             \
  } while (0)
