// A library for LD_PRELOAD that injects storage faults into a process with a database. It counts the writes to one file
// and its syncs, and makes one of them fail. Thread-safe: one lock guards all counts. Environment variables:
//
//   FAULT_FILE    path suffix of the file
//   FAULT_AT      number of the call at which the fault occurs, counted from 1
//   FAULT_HOW     eio, enospc    the call fails with that error and does nothing
//                 full           the call and all later writes fail with ENOSPC: the disk stays full
//                 kill           the process ends before the call
//                 torn           the process ends after half of the bytes have been written
//                 power          the process ends, and part of the data written since the last sync is lost, chosen by
//                                FAULT_SEED. The next process sees a new boot ID, as after a machine restart.
//                 sync           the first sync at or after that call fails with EIO
//                 meta           the first write at or after that call whose size is not a multiple of 512 bytes (the
//                                end of a meta page) fails with EIO
//                 record         no fault: all calls, and the process's writes to its standard output, are logged to
//                                FAULT_SEEN in order. recorded.ts reads the log.
//   FAULT_BOOT    if set, the process sees a new boot ID, as with power
//   FAULT_FROM    calls are counted once this file exists; if not set, from the first call
//   FAULT_SEEN    file that is created when the fault occurs and contains the number of the call
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" int open64(const char* path, int flags, ...);

namespace {

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long calls = 0;

template <typename F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

ssize_t really_pwrite(int file, const void* bytes, size_t n, off_t at) {
  static auto* const call = real<ssize_t(int, const void*, size_t, off_t)>("pwrite64");
  return call(file, bytes, n, at);
}

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

bool is_meant(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = 0;
  const char* end = setting("FAULT_FILE");
  const size_t length = strlen(end);
  return length > 0 && static_cast<size_t>(n) >= length && strcmp(path + n - length, end) == 0;
}

// The previous content of a file range that was written since the last sync.
struct Undo {
  Undo* before;
  int file;  // Duplicated file descriptor, because the writer may close its own before a sync.
  off_t at;
  // The number of bytes that were written, and how many of these bytes the file contained before. The previous bytes
  // are stored directly after this struct.
  size_t n, had;
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
};
Undo* undo = nullptr;

bool keeps_undo() { return strcmp(setting("FAULT_HOW"), "power") == 0; }
bool records() { return strcmp(setting("FAULT_HOW"), "record") == 0; }

bool is_durable(int file) { return (fcntl(file, F_GETFL) & (O_DSYNC | O_SYNC)) != 0; }

enum class Did : uint8_t { wrote = 1, wrote_durably, synced, cut, said };
struct Entry {
  // For a write: file offset. For a sync: number of log entries when the sync started. For a truncation: new length of
  // the file.
  uint64_t at;
  uint32_t n;  // Number of data bytes after the log entry.
  uint32_t what;
};
static_assert(sizeof(Entry) == 16);
uint64_t entries = 0;

// Appends an entry to the log. The caller holds the lock.
void record(Did what, uint64_t at, const void* bytes, size_t n) {
  static const int file = open64(setting("FAULT_SEEN"), O_CREAT | O_WRONLY | O_APPEND, 0600);
  static auto* const call = real<ssize_t(int, const void*, size_t)>("write");
  const Entry entry{at, static_cast<uint32_t>(n), static_cast<uint32_t>(what)};
  if (call(file, &entry, sizeof entry) != sizeof entry || call(file, bytes, n) != static_cast<ssize_t>(n)) _exit(139);
  ++entries;
}

void note_write(int file, off_t at, size_t n) {
  if (!keeps_undo() || n == 0) return;
  // The file is opened with O_DSYNC or O_SYNC, so the write is durable when the call returns.
  if (is_durable(file)) return;
  auto* entry = static_cast<Undo*>(malloc(sizeof(Undo) + n));
  if (!entry) return;
  entry->before = undo, entry->file = dup(file), entry->at = at, entry->n = n;
  const ssize_t had = pread(file, entry->bytes(), n, at);
  entry->had = had > 0 ? static_cast<size_t>(had) : 0;
  undo = entry;
}

void forget_writes() {
  while (undo) {
    Undo* before = undo->before;
    close(undo->file);
    free(undo);
    undo = before;
  }
}

// A disk may write cached sectors in any order, so any subset of the sectors that have not been synced may be lost.
void lose_writes() {
  uint64_t chance = strtoull(setting("FAULT_SEED"), nullptr, 10) * 0x9E3779B97F4A7C15u + 1;
  constexpr size_t kSector = 4096;
  for (Undo* entry = undo; entry; entry = entry->before) {
    for (size_t from = 0; from < entry->n; from += kSector) {
      chance = chance * 6364136223846793005u + 1442695040888963407u;
      if (chance >> 63) continue;
      const size_t n = entry->n - from < kSector ? entry->n - from : kSector;
      char old[kSector] = {};  // Bytes beyond the previous end of the file become zeros.
      if (entry->had > from) memcpy(old, entry->bytes() + from, entry->had - from < n ? entry->had - from : n);
      if (really_pwrite(entry->file, old, n, entry->at + static_cast<off_t>(from)) < 0) _exit(138);
    }
  }
}

void mark() {
  const int file = open(setting("FAULT_SEEN"), O_CREAT | O_WRONLY, 0600);
  if (file < 0) return;
  dprintf(file, "%ld", calls);
  close(file);
}

// Returns true if the call must fail; errno is then set. The caller holds the lock. `half` writes half of the call's
// bytes.
template <typename Half>
bool meets_fault(bool writes, size_t bytes, Half&& half) {
  const long at = strtol(setting("FAULT_AT"), nullptr, 10);
  const char* how = setting("FAULT_HOW");
  if (*setting("FAULT_FROM") != 0 && access(setting("FAULT_FROM"), F_OK) != 0) return false;
  ++calls;
  if (strcmp(how, "sync") == 0 || strcmp(how, "meta") == 0) {
    static bool failed = false;
    if (failed || calls < at || (strcmp(how, "sync") == 0 ? writes : !writes || bytes % 512 == 0)) return false;
    failed = true;
    mark();
    errno = EIO;
    return true;
  }
  if (at > 0 && calls > at && writes && strcmp(how, "full") == 0) {
    errno = ENOSPC;
    return true;
  }
  if (calls != at || records()) return false;
  mark();
  if (strcmp(how, "torn") == 0) half();
  if (strcmp(how, "power") == 0) lose_writes();
  if (strcmp(how, "torn") == 0 || strcmp(how, "kill") == 0 || strcmp(how, "power") == 0) _exit(137);
  if (strcmp(how, "full") == 0 && !writes) return false;
  errno = strcmp(how, "eio") == 0 ? EIO : ENOSPC;
  return true;
}

ssize_t write_at(int file, const struct iovec* parts, int n_parts, off_t at) {
  ssize_t total = 0;
  pthread_mutex_lock(&lock);
  size_t all = 0;
  for (int i = 0; i < n_parts; ++i) all += parts[i].iov_len;
  const bool fails = meets_fault(true, all, [&] {
    size_t left = all / 2;
    off_t to = at;
    for (int i = 0; i < n_parts && left > 0; ++i) {
      const size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
      if (really_pwrite(file, parts[i].iov_base, n, to) < 0) break;
      left -= n, to += static_cast<off_t>(n);
    }
  });
  if (fails) {
    total = -1;
  } else {
    note_write(file, at, all);
    for (int i = 0; i < n_parts; ++i) {
      const ssize_t n = really_pwrite(file, parts[i].iov_base, parts[i].iov_len, at + total);
      if (n < 0) {
        if (total == 0) total = -1;
        break;
      }
      if (records())
        record(is_durable(file) ? Did::wrote_durably : Did::wrote, static_cast<uint64_t>(at + total), parts[i].iov_base,
               static_cast<size_t>(n));
      total += n;
      if (static_cast<size_t>(n) < parts[i].iov_len) break;
    }
  }
  pthread_mutex_unlock(&lock);
  return total;
}

int sync_of(int file, const char* name) {
  auto* const call = real<int(int)>(name);
  if (!is_meant(file)) return call(file);
  pthread_mutex_lock(&lock);
  const bool fails = meets_fault(false, 0, [] {});
  const uint64_t begun = entries;
  pthread_mutex_unlock(&lock);
  if (fails) return -1;
  const int result = call(file);
  pthread_mutex_lock(&lock);
  if (result == 0) forget_writes();
  if (result == 0 && records()) record(Did::synced, begun, nullptr, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

}  // namespace

extern "C" {

// With FAULT_HOW=power or FAULT_BOOT, the process reads a random boot ID, which is different each time.
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((keeps_undo() || *setting("FAULT_BOOT") != 0) && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
    path = "/proc/sys/kernel/random/uuid";
  static auto* const call = real<int(const char*, int, ...)>("open64");
  return call(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open64(path, flags, mode);
}

ssize_t pwrite(int file, const void* bytes, size_t n, off_t at) {
  if (!is_meant(file)) return really_pwrite(file, bytes, n, at);
  const struct iovec part = {const_cast<void*>(bytes), n};
  return write_at(file, &part, 1, at);
}

ssize_t pwrite64(int file, const void* bytes, size_t n, off_t at) { return pwrite(file, bytes, n, at); }

ssize_t pwritev(int file, const struct iovec* parts, int n, off_t at) {
  if (is_meant(file)) return write_at(file, parts, n, at);
  return real<ssize_t(int, const struct iovec*, int, off_t)>("pwritev64")(file, parts, n, at);
}

ssize_t pwritev64(int file, const struct iovec* parts, int n, off_t at) { return pwritev(file, parts, n, at); }

ssize_t write(int file, const void* bytes, size_t n) {
  static auto* const call = real<ssize_t(int, const void*, size_t)>("write");
  if (file == STDOUT_FILENO && records()) {
    pthread_mutex_lock(&lock);
    record(Did::said, 0, bytes, n);
    pthread_mutex_unlock(&lock);
  }
  if (!is_meant(file)) return call(file, bytes, n);
  const off_t at = lseek(file, 0, SEEK_CUR);
  const struct iovec part = {const_cast<void*>(bytes), n};
  const ssize_t written = write_at(file, &part, 1, at);
  if (written > 0) lseek(file, at + written, SEEK_SET);
  return written;
}

ssize_t writev(int file, const struct iovec* parts, int n) {
  static auto* const call = real<ssize_t(int, const struct iovec*, int)>("writev");
  if (!is_meant(file)) return call(file, parts, n);
  const off_t at = lseek(file, 0, SEEK_CUR);
  const ssize_t written = write_at(file, parts, n, at);
  if (written > 0) lseek(file, at + written, SEEK_SET);
  return written;
}

int fsync(int file) { return sync_of(file, "fsync"); }
int fdatasync(int file) { return sync_of(file, "fdatasync"); }

int ftruncate(int file, off_t length) {
  auto* const call = real<int(int, off_t)>("ftruncate64");
  if (!is_meant(file)) return call(file, length);
  pthread_mutex_lock(&lock);
  const bool fails = meets_fault(true, 0, [] {});
  const int result = fails ? -1 : call(file, length);
  if (result == 0 && records()) record(Did::cut, static_cast<uint64_t>(length), nullptr, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

int ftruncate64(int file, off_t length) { return ftruncate(file, length); }

// The library does not know which file is mapped, so it counts every msync() call.
int msync(void* from, size_t n, int flags) {
  static auto* const call = real<int(void*, size_t, int)>("msync");
  pthread_mutex_lock(&lock);
  const bool fails = meets_fault(false, 0, [] {});
  if (records()) _exit(140);  // The process ends, because writes through a mapping cannot be recorded.
  pthread_mutex_unlock(&lock);
  if (fails) return -1;
  const int result = call(from, n, flags);
  pthread_mutex_lock(&lock);
  if (result == 0) forget_writes();
  pthread_mutex_unlock(&lock);
  return result;
}

}  // extern "C"
