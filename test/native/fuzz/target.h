// What is fuzzed: a function of any bytes at all, under a name. The same function is run by libFuzzer (fuzzer.cc, one
// executable for each) and over the committed corpus by the tests (replay_test.cc, all in one). It ends the process when
// something that must hold does not. See docs/internals/fuzzing.md.
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

// An input changed such that it can still be read; nullopt: this one is left to changes of bytes.
using Mutate = std::optional<std::string> (*)(std::string_view input, Chance& chance);

struct Target {
  const char* name;  // its corpus: test/fuzz/corpus/NAME
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

// Behind the target of the name.
#define FUZZ_MUTATOR(name)                                                                                    \
  static std::optional<std::string> mutate_##name(std::string_view input, monolith::fuzzing::Chance& chance); \
  [[maybe_unused]] static const bool mutated_##name = monolith::fuzzing::mutate_with(#name, mutate_##name);   \
  static std::optional<std::string> mutate_##name(std::string_view input, monolith::fuzzing::Chance& chance)

inline void insist(bool holds, const char* what, std::string_view with = {}) {
  if (holds) return;
  const std::string text = std::string(what) + (with.empty() ? "" : ": ") + std::string(with);
  std::fprintf(stderr, "what must hold does not: %s\n", text.c_str());
  std::abort();
}

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

// An input of two parts: what stands before the last mark, and behind it; the latter empty where there is no mark.
inline std::pair<std::string_view, std::string_view> halves(Input input) {
  using namespace std::string_view_literals;
  constexpr std::string_view kMark = "\xFF\x00\xFF"sv;
  const std::string_view all = text_of(input);
  const size_t at = all.rfind(kMark);
  if (at == std::string_view::npos) return {all, {}};
  return {all.substr(0, at), all.substr(at + kMark.size())};
}

// What the target is given just now.
inline Input& given() {
  thread_local Input input;
  return input;
}

// How many inputs came to where their target looks deepest: a target that refuses all of them at its door finds nothing.
inline size_t& n_reached() {
  static size_t count = 0;
  return count;
}

// A refusal says why in a line that anybody may read: no control characters of the file's, no addresses of this process.
inline void check_message(std::string_view message) {
  // which may list all that is known
  insist(!message.empty() && message.size() < 2500, "a refusal says why, in a line", message);
  for (const char c : message)
    insist(static_cast<uint8_t>(c) >= 0x20 && c != 0x7F, "a refusal holds no control characters", message);
  // As long as an address is and a word by itself (not of an escaped byte and what follows), unless a file holds it and the refusal quotes that.
  constexpr size_t kLength = 10;
  for (size_t at = message.find("0x7f"); at != std::string_view::npos && at + kLength <= message.size();
       at = message.find("0x7f", at + 1)) {
    const std::string_view address = message.substr(at, kLength);
    if (at > 0 && std::isalnum(static_cast<unsigned char>(message[at - 1]))) continue;
    insist(address.find_first_not_of("0123456789abcdef", 2) != std::string_view::npos ||
               text_of(given()).find(address) != std::string_view::npos,
           "a refusal holds no addresses", message);
  }
}
inline void check_refusal(const Error& error) {
  check_message(error.message);
  insist(error.code != ErrorCode::kInternal, "what a file holds is no fault of ours", error.message);
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

// Runs one input and says that it took too long where it did: by the thread's own time, so that a busy machine fails nothing.
inline void run(const Target& target, Input input) {
  constexpr double kMostSeconds = kSanitized ? 5 : 1;
  const auto seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  const double began = seconds();
  given() = input;
  target.run(input);
  const double took = seconds() - began;
  insist(took < kMostSeconds, "an input is done with within a second", std::to_string(took) + " s of a core");
}

}  // namespace monolith::fuzzing
