// Tests what happens to a file's pages after its weights have been copied. The pages are removed from this process's
// memory. If the file and the weights do not both fit in memory, the pages are also removed from the page cache. The
// weights' memory is collapsed into huge pages. Also tests that weights are read ahead of their use. Linux only,
// because the tests read /proc.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/machine/mapping.h"
#include "check.h"
#include "formats/gguf/read_ahead.h"
#include "model/architecture_cases.h"
#include "support/model_fixture.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

// Returns the resident bytes of this process's mappings of `path`.
size_t resident_of(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  size_t total = 0;
  for (bool ours = false; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) ours = line.ends_with(path);
    if (ours && line.starts_with("Rss:")) total += std::stoul(line.substr(4)) * 1024;
  }
  return total;
}

// Returns how many bytes of a file are in the page cache.
size_t cached_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SIZE_MAX;
  const auto size = static_cast<size_t>(::lseek(fd, 0, SEEK_END));
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((size + page - 1) / page);
  size_t cached = SIZE_MAX;
  if (data != MAP_FAILED && ::mincore(data, size, there.data()) == 0) {
    cached = 0;
    for (const unsigned char flags : there) cached += (flags & 1) != 0 ? page : 0;
  }
  if (data != MAP_FAILED) ::munmap(data, size);
  ::close(fd);
  return cached;
}

// Writes the file to disk. Returns false if the file's pages cannot leave the cache. This is the case for dirty pages
// and for all pages of an in-memory file system.
bool settle_on_disk(const std::string& path) {
  struct statfs system;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = fd >= 0 && ::fsync(fd) == 0 && ::fstatfs(fd, &system) == 0 && system.f_type != TMPFS_MAGIC;
  if (fd >= 0) ::close(fd);
  return done;
}

// In one tensor, runs of gate rows and runs of up rows alternate, so that each matrix consists of runs of many pages.
TinyModel fused_experts() {
  // Runs of one MiB, because the page cache stores files in blocks of up to two MiB.
  constexpr uint32_t kWide = 8192;
  TinyModel model("qwen3moe");
  put_experts(model, kWide);
  add_qk_norms(model, true);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "ffn_gate_exps.weight");
    model.tensors.erase(block + "ffn_up_exps.weight");
    model.experts(block + "ffn_gate_up_exps.weight", kExperts, 2 * kWide, kEmbd);
    for (const char* name : {"ffn_gate_up_exps.weight", "ffn_down_exps.weight"})
      model.tensors[block + name].type = TensorType::kF16;
  });
  return model;
}

constexpr ModelLimits kLimits = {
    .max_batch_tokens = 8, .max_logit_rows = 1, .max_context = 32, .n_pages = 2, .kv_type = KvType::kF32};

}  // namespace

TEST(pages_of_a_loaded_file_are_released_even_if_rows_alternate) {
  const TinyModel model = fused_experts();
  const ModelFile on_disk(model);
  const auto file = GgufFile::open(on_disk.path());
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  const auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  const auto loaded = Model::load(**file, **backend, kLimits, {});
  if (!loaded) return check::fail(__FILE__, __LINE__, loaded.error().message);
  size_t in_runs = 0;
  for (const GgufTensor& tensor : (*file)->tensors())
    if (tensor.name.find("gate_up") != std::string::npos) in_runs += tensor.bytes();
  // Both ends of a run share pages with the neighboring runs, and the kernel maps some additional pages around each
  // page that is read.
  CHECK(in_runs > 1 << 20);
  CHECK(resident_of(on_disk.path()) < in_runs / 4);
}

TEST(a_file_leaves_the_page_cache_whole_or_in_parts) {
  const ModelFile on_disk(fused_experts());
  if (!settle_on_disk(on_disk.path())) return;
  const auto file = GgufFile::open(on_disk.path());
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  const GgufTensor* const tensor = (*file)->tensor("blk.0.ffn_gate_up_exps.weight");
  REQUIRE(tensor != nullptr);
  const auto read_all = [&] {
    for (const GgufTensor& each : (*file)->tensors()) {
      std::vector<std::byte> scratch, copy(each.bytes());
      std::memcpy(copy.data(), (*file)->read(each, 0, each.bytes(), scratch).data(), each.bytes());
    }
  };
  const size_t all = (*file)->file_bytes();
  read_all();
  CHECK(cached_of(on_disk.path()) >= all);
  (*file)->give_back(*tensor, 0, tensor->bytes());
  // The pages stay in the page cache, so that the file can be read again without disk access.
  CHECK(cached_of(on_disk.path()) >= all);
  (*file)->give_back(*tensor, 0, tensor->bytes(), true);
  CHECK(cached_of(on_disk.path()) <= all - tensor->bytes() / 2);
  read_all();
  CHECK(cached_of(on_disk.path()) >= all);
  (*file)->leave_cache();
  CHECK(cached_of(on_disk.path()) <= all / 4);
}

// The pieces are the file's tensors, in file order.
TEST(weights_are_read_ahead_of_their_use_within_the_window) {
  const ModelFile on_disk(fused_experts());
  const auto file = GgufFile::open(on_disk.path());
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  std::vector<ReadAhead::Piece> pieces;
  std::vector<size_t> ends;
  for (const GgufTensor& tensor : (*file)->tensors()) {
    pieces.push_back({tensor.data});
    ends.push_back((ends.empty() ? 0 : ends.back()) + tensor.bytes());
  }
  REQUIRE(pieces.size() > 4);
  const auto reads = [](const ReadAhead& ahead, size_t bytes) {
    for (int i = 0; i < 10'000 && ahead.bytes_read() < bytes; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Time to read too much.
    return ahead.bytes_read();
  };
  {
    ReadAhead ahead(**file, pieces, 0);
    CHECK_EQ(reads(ahead, 0), size_t{0});  // The loader has not started.
    ahead.use(0);
    CHECK_EQ(reads(ahead, ends[0]), ends[0]);
    ahead.use(1);
    CHECK_EQ(reads(ahead, ends[1]), ends[1]);
    // The loader is ahead of the thread, which skips the pieces that the loader has finished.
    ahead.finish(3);
    ahead.use(4);
    const size_t skipped = ends[3] - ends[1];
    CHECK_EQ(reads(ahead, ends[4] - skipped), ends[4] - skipped);
  }
  ReadAhead ahead(**file, pieces);
  CHECK_EQ(reads(ahead, ends.back()), ends.back());
  CHECK(cached_of(on_disk.path()) >= ends.back());
  CHECK(resident_of(on_disk.path()) >= ends.back());
}

TEST(bytes_that_will_be_needed_are_read_into_the_page_cache) {
  const ModelFile on_disk(fused_experts());
  if (!settle_on_disk(on_disk.path())) return;
  const auto file = GgufFile::open(on_disk.path());
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  const GgufTensor* const tensor = (*file)->tensor("blk.0.ffn_gate_up_exps.weight");
  REQUIRE(tensor != nullptr);
  (*file)->leave_cache();
  const size_t before = cached_of(on_disk.path());
  (*file)->will_need(tensor->data);
  size_t cached = 0;
  for (int i = 0; i < 10'000 && (cached = cached_of(on_disk.path())) < before + tensor->bytes() / 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(cached >= before + tensor->bytes() / 2);
}

TEST(the_memory_size_decides_whether_file_and_weights_both_fit) {
  const ModelFile on_disk{TinyModel()};
  const auto file = GgufFile::open(on_disk.path());
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  CHECK((*file)->fits_beside(0));
  CHECK((*file)->fits_beside(1 << 20));
  CHECK(
      !(*file)->fits_beside(static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE))));
  CHECK(!(*file)->fits_beside(SIZE_MAX));
}

TEST(huge_page_collapse_keeps_the_contents_and_stops_when_asked) {
  constexpr size_t kHuge = size_t{2} << 20, kBytes = 3 * kHuge + 4096;
  auto mapping = Mapping::create(kBytes);
  REQUIRE(mapping.ok());
  // Forces small pages regardless of what the system would have allocated.
  madvise(mapping->data(), kBytes, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < kBytes; ++i) mapping->data()[i] = static_cast<std::byte>(i * 31 >> 3);
  madvise(mapping->data(), kBytes, MADV_HUGEPAGE);
  CHECK_EQ(mapping->collapse_huge_pages([] { return true; }), size_t{0});
  // The function is called before each of the three huge pages.
  int calls = 0;
  mapping->collapse_huge_pages([&] { return ++calls > 2; });
  CHECK_EQ(calls, 3);
  const size_t collapsed = mapping->collapse_huge_pages([] { return false; });
  // How many pages the kernel collapses depends on the state of the system, so the test does not check the number.
  CHECK(collapsed % kHuge == 0 && collapsed <= kBytes);
  bool same = true;
  for (size_t i = 0; i < kBytes; ++i) same = same && mapping->data()[i] == static_cast<std::byte>(i * 31 >> 3);
  CHECK(same);
  CHECK_EQ(Mapping().collapse_huge_pages([] { return false; }), size_t{0});
}

}  // namespace monolith
