#include "check.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/clock.h"

namespace check {
namespace {

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}
std::vector<std::string> failures;
std::string skipped;
std::string (*missing)() = nullptr;

}  // namespace

bool add(const Test& test) {
  tests().push_back(test);
  return true;
}

bool needs(std::string (*what_is_missing)()) {
  missing = what_is_missing;
  return true;
}

void fail(const char* file, int line, const std::string& what) {
  failures.push_back(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

void fail(const char* file, int line, const char* what) { fail(file, line, std::string(what)); }

void note(const std::string& text) { std::printf("# %s\n", text.c_str()); }

void skip(const std::string& why) { skipped = why.empty() ? "no reason given" : why; }

std::string repository_path(const std::string& relative) { return MONOLITH_REPOSITORY + relative; }

std::string data_path(const std::string& relative) { return MONOLITH_REPOSITORY "test/data/" + relative; }

std::string vectors_path(const std::string& relative) {
  std::vector<std::string> roots;
  for (const char* variable : {"MONOLITH_VECTORS", "MONOLITH_VECTORS2", "MONOLITH_VECTORS3"})
    if (const char* root = std::getenv(variable)) roots.push_back(root);
  for (const char* folder : {"test/data/vectors", "test/data/vectors2", "../shared/vectors2", "../shared/vectors3"})
    roots.push_back(std::string(MONOLITH_REPOSITORY) + folder);
  for (const auto& root : roots) {
    const std::string path = root + "/" + relative;
    if (FILE* file = std::fopen(path.c_str(), "rb")) {
      std::fclose(file);
      return path;
    }
  }
  return "";
}

}  // namespace check

namespace {
// Sets the start value of the engine's clock in seconds. "max" means one hour before the largest representable time.
void start_clock_at(const char* seconds) {
  using monolith::Clock;
  const Clock::duration at = std::strcmp(seconds, "max") == 0
                                 ? Clock::duration::max() - std::chrono::hours(1)
                                 : std::chrono::seconds(std::strtoll(seconds, nullptr, 10));
  Clock::set(Clock::time_point(at));
}
}  // namespace

int check::run(int argc, char** argv) {
  constexpr const char* kClock = "--clock=";
  if (argc > 1 && std::strncmp(argv[1], kClock, std::strlen(kClock)) == 0) {
    start_clock_at(argv[1] + std::strlen(kClock));
    --argc, ++argv;
  }
  const char* filter = argc > 1 ? argv[1] : "";
  if (std::strcmp(filter, "--list") == 0) {
    for (const auto& test : check::tests()) std::printf("%s\n", test.name);
    return 0;
  }
  std::printf("TAP version 14\n");
  const std::string why_none = check::missing ? check::missing() : "";
  int number = 0, failed = 0;
  for (const auto& test : check::tests()) {
    if (!std::strstr(std::strchr(filter, '/') ? test.file : test.name, filter)) continue;
    check::failures.clear();
    check::skipped.clear();
    if (why_none.empty())
      test.run();
    else
      check::skip(why_none);
    const bool ok = check::failures.empty();
    if (ok && !check::skipped.empty())
      std::printf("ok %d - %s # SKIP %s\n", ++number, test.name, check::skipped.c_str());
    else
      std::printf("%s %d - %s\n", ok ? "ok" : "not ok", ++number, test.name);
    if (!ok) {
      ++failed;
      std::printf("  ---\n  failures:\n");
      size_t shown = 0;
      for (const auto& failure : check::failures) {
        if (++shown > 20) break;
        std::string line = failure;
        for (char& c : line)
          if (c == '"' || c == '\n') c = '\'';
        std::printf("    - \"%s\"\n", line.c_str());
      }
      std::printf("  ...\n");
    }
    std::fflush(stdout);
  }
  std::printf("1..%d\n", number);
  return failed == 0 && number > 0 ? 0 : 1;
}
