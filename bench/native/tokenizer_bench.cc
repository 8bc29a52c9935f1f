// Benchmark of the tokenizer, in MB per second of CPU time on one thread. Measures a given text, and generated inputs
// that are designed to be slow.
//
//   tokenizer_bench VOCABULARY.gguf [TEXT]
//
// Each generated input is measured at two sizes, one ten times as large as the other. The last column is the ratio of
// their times: a value well above 10 means that the time grows faster than the size.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf.h"
#include "formats/gguf/tokenizer.h"

using namespace monolith;

namespace {

constexpr size_t kMegabyte = 1'000'000;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Timing {
  double megabytes_per_second = 0;
  size_t tokens = 0;
};

// Returns the highest speed of 2 to 5 runs; after 0.5 s, no third or later run is started. Each call to the tokenizer
// gets `piece` bytes of `text`.
Timing measure(const Tokenizer& tokenizer, std::string_view text, size_t piece) {
  Timing best;
  std::vector<TokenId> ids;
  const double begin = thread_seconds();
  for (int run = 0; run < 2 || (run < 5 && thread_seconds() - begin < 0.5); ++run) {
    size_t tokens = 0;
    const double start = thread_seconds();
    for (size_t at = 0; at < text.size(); at += piece) {
      ids.clear();
      tokenizer.encode(text.substr(at, piece), {.add_special = true, .parse_special = true}, ids);
      tokens += ids.size();
    }
    const double speed = static_cast<double>(text.size()) / 1e6 / (thread_seconds() - start);
    best = {std::max(best.megabytes_per_second, speed), tokens};
  }
  return best;
}

std::string repeated(std::string_view what, size_t size) {
  std::string text;
  text.reserve(size + what.size());
  while (text.size() < size) text += what;
  return text;
}

std::string random_text(size_t size, std::string_view alphabet) {
  std::mt19937 random(1);
  std::string text(size, '\0');
  for (char& c : text) c = alphabet.empty() ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
  return text;
}

struct Made {
  const char* name;
  std::function<std::string(size_t)> make;
};

const Made kMade[] = {
    {"one letter", [](size_t n) { return std::string(n, 'a'); }},
    {"one capital", [](size_t n) { return std::string(n, 'A'); }},
    {"one rare letter", [](size_t n) { return repeated("\u0153", n); }},
    {"spaces", [](size_t n) { return std::string(n, ' '); }},
    {"line breaks", [](size_t n) { return std::string(n, '\n'); }},
    {"spaces, line breaks", [](size_t n) { return repeated(" \n", n); }},
    {"digits", [](size_t n) { return std::string(n, '7'); }},
    {"full stops", [](size_t n) { return std::string(n, '.'); }},
    {"apostrophes", [](size_t n) { return std::string(n, '\''); }},
    {"emoji", [](size_t n) { return repeated("\U0001F600", n); }},
    {"combining marks", [](size_t n) { return repeated("\u0301", n); }},
    {"escaped spaces", [](size_t n) { return repeated("\u2581", n); }},
    {"random letters", [](size_t n) { return random_text(n, "abcdefghijklmnopqrstuvwxyz"); }},
    {"random capitals", [](size_t n) { return random_text(n, "abcABC"); }},
    {"two letters, random", [](size_t n) { return random_text(n, "ab"); }},
    {"random bytes", [](size_t n) { return random_text(n, ""); }},
    {"half a special token", [](size_t n) { return repeated("<|end", n); }},
    {"angle brackets", [](size_t n) { return std::string(n, '<'); }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tokenizer_bench VOCABULARY.gguf [TEXT]\n");
    return 2;
  }
  auto file = GgufFile::open(argv[1]);
  if (!file) {
    std::fprintf(stderr, "%s\n", file.error().message.c_str());
    return 1;
  }
  auto loaded = load_tokenizer(**file);
  if (!loaded) {
    std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
    return 1;
  }
  const Tokenizer& tokenizer = **loaded;
  if (argc > 2) {
    std::ifstream in(argv[2], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (const size_t piece : {size_t{200}, size_t{4000}, std::max<size_t>(text.size(), 1)}) {
      const Timing timing = measure(tokenizer, text, piece);
      std::printf("%-24s %9zu bytes per call  %8.1f MB/s  %9zu tokens  %.2f bytes per token\n", "text", piece,
                  timing.megabytes_per_second, timing.tokens,
                  static_cast<double>(text.size()) / static_cast<double>(timing.tokens));
    }
  }
  for (const Made& made : kMade) {
    const std::string small = made.make(kMegabyte / 10), large = made.make(kMegabyte);
    const Timing quick = measure(tokenizer, small, small.size());
    const Timing whole = measure(tokenizer, large, large.size());
    std::printf("%-24s %9zu bytes per call  %8.1f MB/s  %9zu tokens  %.1f times as long as a tenth\n", made.name,
                large.size(), whole.megabytes_per_second, whole.tokens,
                10 * quick.megabytes_per_second / whole.megabytes_per_second);
  }
  return 0;
}
