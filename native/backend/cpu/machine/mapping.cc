#include "backend/cpu/machine/mapping.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <sys/mman.h>

#include "backend/cpu/machine/numa.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MONOLITH_POISONS_MAPPINGS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(MONOLITH_POISONS_MAPPINGS)
#include <sanitizer/asan_interface.h>
#define MONOLITH_POISON(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define MONOLITH_UNPOISON(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define MONOLITH_POISON(at, bytes) static_cast<void>(0)
#define MONOLITH_UNPOISON(at, bytes) static_cast<void>(0)
#endif

namespace monolith {
namespace {

constexpr size_t kHugePage = size_t{2} << 20, kSmallPage = 4096;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack.
constexpr int kMaxRefused = 8;

// AddressSanitizer detects accesses beyond the end of heap blocks, but not beyond the end of memory mappings, because
// another mapping may follow immediately. In AddressSanitizer builds, each mapping is therefore followed by this many
// poisoned bytes.
#if defined(__SANITIZE_ADDRESS__) || defined(MONOLITH_POISONS_MAPPINGS)
constexpr size_t kGuard = 64 << 10;
#else
constexpr size_t kGuard = 0;
#endif

bool asks_for_huge_pages(size_t bytes) { return bytes >= kHugePage / 2; }

void unmap(void* base, size_t size) {
  if (base == nullptr) return;
  MONOLITH_UNPOISON(base, size);
  munmap(base, size);
}

}  // namespace

Mapping::~Mapping() { unmap(base_, base_size_); }

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      base_(std::exchange(other.base_, nullptr)),
      base_size_(std::exchange(other.base_size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    unmap(base_, base_size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    base_ = std::exchange(other.base_, nullptr);
    base_size_ = std::exchange(other.base_size_, 0);
  }
  return *this;
}

Result<Mapping> Mapping::create(size_t bytes) {
  if (bytes == 0) return Mapping();
  // Regions of at least half a huge page get extra space so that they can start on a huge-page boundary and consist
  // only of huge pages. A TLB entry then covers 2 MiB rather than 4 KiB, which speeds up streaming over gigabytes of
  // weights.
  const bool huge = asks_for_huge_pages(bytes);
  const size_t wanted = bytes + (huge ? kHugePage : 0) + kGuard;
  void* base = wanted < bytes
                   ? MAP_FAILED
                   : mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return Error{ErrorCode::kOutOfMemory, "cannot map " + std::to_string(bytes) + " bytes of memory"};
  Mapping mapping;
  mapping.base_ = base;
  mapping.base_size_ = wanted;
  mapping.size_ = bytes;
  mapping.data_ = static_cast<std::byte*>(base);
  if (huge) {
    const size_t past_edge = reinterpret_cast<uintptr_t>(base) % kHugePage;
    if (past_edge != 0) mapping.data_ += kHugePage - past_edge;
#if defined(MADV_HUGEPAGE)
    // This request is only a hint: without huge pages, everything still works, but more slowly.
    madvise(mapping.data_, bytes, MADV_HUGEPAGE);
#endif
    static const uint64_t nodes = memory_nodes();
    interleave(mapping.data_, bytes, nodes);
  }
  MONOLITH_POISON(mapping.data_ + bytes, static_cast<std::byte*>(base) + wanted - (mapping.data_ + bytes));
  return mapping;
}

size_t Mapping::page_bytes() const { return asks_for_huge_pages(size_) ? kHugePage : kSmallPage; }

size_t Mapping::collapse_huge_pages(const std::function<bool()>& stopped) const {
  size_t gathered = 0;
  int refused = 0;  // Consecutive failures. Each costs milliseconds, because the kernel searches all of its memory.
  for (size_t at = 0; at + kHugePage <= size_ && refused < kMaxRefused && !stopped(); at += kHugePage) {
    const bool huge = madvise(data_ + at, kHugePage, kCollapse) == 0;
    refused = huge ? 0 : refused + 1;
    gathered += huge ? kHugePage : 0;
  }
  return gathered;
}

void Mapping::place_on_node(size_t begin, size_t end, int node) const {
  const auto rounded = [](size_t at) { return (at + kHugePage / 2) / kHugePage * kHugePage; };
  // The region starts on a huge-page boundary.
  const size_t first = rounded(begin), last = std::min(rounded(end), size_ / kHugePage * kHugePage);
  if (first < last) prefer_node(data_ + first, last - first, node);
}

}  // namespace monolith
