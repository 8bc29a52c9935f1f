// Maps a whole file as read-only memory. The mapping does not change after open(), so any thread may read it.
//
// A mapping cannot protect against another process that truncates or overwrites the file in place: reading past the new
// end raises SIGBUS. Replacing a model by rename is safe, because the mapping keeps the old file alive.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "formats/gguf/gguf.h"

namespace monolith {
namespace {

Error io_error(const std::string& path, const char* what, int code) {
  return {ErrorCode::kIo, path + ": " + what + ": " + std::generic_category().message(code)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return Error{ErrorCode::kInvalidArgument, "path must not contain a NUL byte"};
  // O_NONBLOCK keeps open() from waiting for a FIFO's writer; fstat() then rejects the FIFO.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error(path, "cannot open", errno);
  struct stat status;
  if (::fstat(fd, &status) != 0) {
    const int code = errno;
    ::close(fd);
    return io_error(path, "cannot stat", code);
  }
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
    ::close(fd);
    if (S_ISDIR(status.st_mode)) return Error{ErrorCode::kIo, path + ": is a directory, not a file"};
    if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kIo, path + ": is not a regular file"};
    return Error{ErrorCode::kInvalidFile, path + ": the file is empty"};
  }
  if (static_cast<uint64_t>(status.st_size) > SIZE_MAX) {
    ::close(fd);
    return Error{ErrorCode::kUnsupported, path + ": larger than this machine's address space"};
  }
  const size_t size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int code = errno;
  if (data != MAP_FAILED) {
    // The loader reads tensors from start to end. Without this hint, the kernel would read as many bytes before a
    // faulting address as after it.
    madvise(data, size, MADV_SEQUENTIAL);
    return MappedFile(fd, static_cast<const std::byte*>(data), size);
  }
  ::close(fd);
  return io_error(path, "cannot map into memory", code);
}

void MappedFile::give_back(std::span<const std::byte> bytes, bool cached_too) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  if (begin >= end) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  // MADV_PAGEOUT would not work here: it drops pages of a file only if the process is allowed to write to that file.
  const auto offset = static_cast<off_t>(begin - reinterpret_cast<uintptr_t>(data_));
  if (cached_too) posix_fadvise(fd_, offset, static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
}

void MappedFile::will_need(std::span<const std::byte> bytes) const {
#if defined(POSIX_FADV_WILLNEED)
  // The kernel ignores the part of a request that exceeds the device's read-ahead size or request size. On nearly all
  // devices, both limits are at least this large.
  constexpr size_t kCallBytes = size_t{128} << 10;
  for (size_t at = 0; at < bytes.size(); at += kCallBytes) {
    const auto part = bytes.subspan(at, std::min(kCallBytes, bytes.size() - at));
    posix_fadvise(fd_, part.data() - data_, static_cast<off_t>(part.size()), POSIX_FADV_WILLNEED);
  }
#else
  static_cast<void>(bytes);
#endif
}

void MappedFile::populate(std::span<const std::byte> bytes) const {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers lack.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() + page - 1) / page * page;
  if (begin >= end || madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateRead) == 0) return;
  if (errno == EINVAL) will_need(bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace monolith
