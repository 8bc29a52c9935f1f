#include "backend/cpu/machine/mapping.h"

#include <cstdint>
#include <string>
#include <utility>

#include <sys/mman.h>

#include "backend/cpu/machine/numa.h"

namespace monolith {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Mapping::~Mapping() {
  if (base_) munmap(base_, base_size_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
      base_(std::exchange(other.base_, nullptr)), base_size_(std::exchange(other.base_size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (base_) munmap(base_, base_size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    base_ = std::exchange(other.base_, nullptr);
    base_size_ = std::exchange(other.base_size_, 0);
  }
  return *this;
}

Result<Mapping> Mapping::create(size_t bytes) {
  if (bytes == 0) return Mapping();
  // From half a huge page up: room to begin at an edge, so that all of it can be huge pages. A TLB entry
  // then covers 2 MiB instead of 4 KiB, which a stream over gigabytes of weights notices.
  const bool huge = bytes >= kHugePage / 2;
  const size_t wanted = bytes + (huge ? kHugePage : 0);
  void* base = wanted < bytes ? MAP_FAILED
                              : mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
    madvise(mapping.data_, bytes, MADV_HUGEPAGE);   // a hint: without it everything works, slower
#endif
    static const uint64_t nodes = memory_nodes();
    interleave(mapping.data_, bytes, nodes);
  }
  return mapping;
}

}  // namespace monolith
