#include "backend/cpu/machine/numa.h"

#include <bit>
#include <charconv>
#include <fstream>
#include <string>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace monolith {

uint64_t parse_node_list(std::string_view list) {
  while (!list.empty() && (list.back() == '\n' || list.back() == ' ')) list.remove_suffix(1);
  uint64_t nodes = 0;
  while (!list.empty()) {
    const std::string_view range = list.substr(0, list.find(','));
    const char* const end = range.data() + range.size();
    unsigned low = 0, high = 0;
    auto [at, error] = std::from_chars(range.data(), end, low);
    if (error != std::errc()) return 0;
    high = low;
    if (at != end) {
      if (*at != '-') return 0;
      const auto [after, second_error] = std::from_chars(at + 1, end, high);
      if (second_error != std::errc() || after != end) return 0;
    }
    if (high < low || high > 63) return 0;
    nodes |= (~uint64_t{0} >> (63 - (high - low))) << low;
    list.remove_prefix(range.size());
    if (list.empty()) break;
    list.remove_prefix(1);
    if (list.empty()) return 0;  // A trailing comma is invalid.
  }
  return nodes;
}

uint64_t memory_nodes() {
  std::ifstream file("/sys/devices/system/node/has_memory");
  std::string line;
  return std::getline(file, line) ? parse_node_list(line) : 0;
}

namespace {

bool set_policy(void* begin, size_t bytes, int policy, uint64_t nodes) {
#if defined(__linux__) && defined(SYS_mbind)
  constexpr unsigned long kMaskBits = 65;  // The kernel reads one bit less than this.
  const unsigned long mask = nodes;
  static_assert(sizeof mask == sizeof nodes);
  return syscall(SYS_mbind, begin, bytes, policy, &mask, kMaskBits, 0) == 0;
#else
  static_cast<void>(begin), static_cast<void>(bytes), static_cast<void>(policy), static_cast<void>(nodes);
  return false;
#endif
}

}  // namespace

bool interleave(void* begin, size_t bytes, uint64_t nodes) {
  constexpr int kInterleave = 3;  // MPOL_INTERLEAVE.
  return std::popcount(nodes) >= 2 && set_policy(begin, bytes, kInterleave, nodes);
}

bool prefer_node(void* begin, size_t bytes, int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED.
  return node >= 0 && node <= 63 && bytes > 0 && set_policy(begin, bytes, kPreferred, uint64_t{1} << node);
}

}  // namespace monolith
