// Tests that a page pool uses physical memory only for pages that have been used, and no more than it reports.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "check.h"

using namespace monolith;

namespace {

constexpr size_t kMiB = size_t{1} << 20, kSystemPage = 4096;

// Returns the resident bytes of the cache's memory.
size_t resident(const CpuKvCache& cache) {
  const auto pieces = cache.pieces();
  std::byte* const data = std::ranges::min_element(pieces, {}, &CpuKvCache::Pages::data)->data;
  std::vector<unsigned char> there(cache.bytes / kSystemPage);
  if (mincore(data, there.size() * kSystemPage, there.data()) != 0) check::fail(__FILE__, __LINE__, "mincore");
  return static_cast<size_t>(std::ranges::count_if(there, [](unsigned char page) { return (page & 1) != 0; })) *
         kSystemPage;
}

void write_page(const CpuKvCache& cache, int64_t page) {
  for (const CpuKvCache::Pages& piece : cache.pieces())
    std::memset(piece.data + static_cast<size_t>(page) * piece.page_stride, 1, piece.bytes);
}

}  // namespace

TEST(pages_use_memory_only_after_the_first_write) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    const auto cache = CpuKvCache::create(KvShape::of_equal_layers(3, 2, 64, 8'000, type));
    REQUIRE(cache.ok() && (*cache)->bytes > 90 * kMiB);
    CHECK_EQ(resident(**cache), 0u);
    CHECK_EQ((*cache)->bytes_of_first(0), 0u);
    size_t before = 0;
    for (int64_t n = 1; n <= 300; n = n * 3 + 1) {
      for (int64_t page = 0; page < n; ++page) write_page(**cache, page);
      const size_t said = (*cache)->bytes_of_first(n), is = resident(**cache);
      CHECK(is > 0 && is <= said);
      CHECK(said >= before && said <= (*cache)->bytes);
      before = said;
    }
    // Twelve memory blocks, each of which starts with a huge page.
    CHECK((*cache)->bytes_of_first(1) <= 12 * 2 * 2 * kMiB && (*cache)->bytes_of_first(1) < (*cache)->bytes / 2);
    CHECK_EQ((*cache)->bytes_of_first(8'000), (*cache)->bytes);
  }
}
