// A fuzz target is a named function that accepts any bytes and ends the process if an invariant is violated. libFuzzer
// runs each target in its own executable (fuzzer.cc). The tests run all targets in one executable, on the committed
// corpora (replay_test.cc). See docs/internals/fuzzing.md.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/utf8.h"
#include "fuzz/mutate.h"

namespace monolith::fuzzing {

using Input = std::span<const uint8_t>;

// Returns a changed input that the parser is likely to accept. If it returns nullopt, the caller should apply byte
// mutations instead.
using Mutate = std::optional<std::string> (*)(std::string_view input, Chance& chance);

struct Target {
  const char* name;  // The target's corpus is test/fuzz/corpus/NAME.pack.
  void (*run)(Input);
  Mutate mutate = nullptr;
};

inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}
inline bool add(const Target& target) {
  targets().push_back(target);
  return true;
}

inline bool mutate_with(std::string_view name, Mutate mutate) {
  for (Target& target : targets())
    if (target.name == name) target.mutate = mutate;
  return true;
}

#define FUZZ_TARGET(name)                                                                         \
  static void fuzz_##name(monolith::fuzzing::Input input);                                        \
  [[maybe_unused]] static const bool added_##name = monolith::fuzzing::add({#name, fuzz_##name}); \
  static void fuzz_##name([[maybe_unused]] monolith::fuzzing::Input input)

// Must come after the definition of the target with the same name.
#define FUZZ_MUTATOR(name)                                                                                    \
  static std::optional<std::string> mutate_##name(std::string_view input, monolith::fuzzing::Chance& chance); \
  [[maybe_unused]] static const bool mutated_##name = monolith::fuzzing::mutate_with(#name, mutate_##name);   \
  static std::optional<std::string> mutate_##name(std::string_view input, monolith::fuzzing::Chance& chance)

inline void insist(bool holds, const char* what, std::string_view with = {}) {
  if (holds) return;
  const std::string text = std::string(what) + (with.empty() ? "" : ": ") + std::string(with);
  std::fprintf(stderr, "invariant violated: %s\n", text.c_str());
  std::abort();
}

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

// Splits an input at the last separator and returns the parts before and after it. The second part is empty if there is
// no separator.
inline std::pair<std::string_view, std::string_view> halves(Input input) {
  using namespace std::string_view_literals;
  constexpr std::string_view kMark = "\xFF\x00\xFF"sv;
  const std::string_view all = text_of(input);
  const size_t at = all.rfind(kMark);
  if (at == std::string_view::npos) return {all, {}};
  return {all.substr(0, at), all.substr(at + kMark.size())};
}

// The input that the target is currently processing.
inline Input& given() {
  thread_local Input input;
  return input;
}

// Number of inputs that have reached the deepest code that the target tests. A target that rejects all inputs early
// would not find anything.
inline size_t& n_reached() {
  static size_t count = 0;
  return count;
}

// An error message must be a single line that is safe to print: no control characters from the file and no memory
// addresses from this process.
inline void check_message(std::string_view message) {
  // A message can be long, because it may list all known names.
  insist(!message.empty() && message.size() < 2500, "an error message is one line of fewer than 2500 bytes", message);
  for (const char c : message)
    insist(static_cast<uint8_t>(c) >= 0x20 && c != 0x7F, "an error message has no control characters", message);
  // Looks for text that has the length and prefix of a memory address and is a separate word (not an escaped byte
  // followed by digits). Such text is allowed if it comes from the input and is quoted by the message.
  constexpr size_t kLength = 10;
  for (size_t at = message.find("0x7f"); at != std::string_view::npos && at + kLength <= message.size();
       at = message.find("0x7f", at + 1)) {
    const std::string_view address = message.substr(at, kLength);
    if (at > 0 && std::isalnum(static_cast<unsigned char>(message[at - 1]))) continue;
    insist(address.find_first_not_of("0123456789abcdef", 2) != std::string_view::npos ||
               text_of(given()).find(address) != std::string_view::npos,
           "an error message has no memory addresses", message);
  }
}
inline void check_refusal(const Error& error) {
  check_message(error.message);
  insist(error.code != ErrorCode::kInternal, "an invalid file is not an internal error", error.message);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// Runs one input and fails if it takes too long. Measures the thread's CPU time, so that load from other processes does
// not cause failures.
inline void run(const Target& target, Input input) {
  constexpr double kMaxSeconds = kSanitized ? 5 : 1;
  const auto seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  const double began = seconds();
  given() = input;
  target.run(input);
  const double took = seconds() - began;
  insist(took < kMaxSeconds, "an input takes less than its time limit", std::to_string(took) + " s of a core");
}

}  // namespace monolith::fuzzing
