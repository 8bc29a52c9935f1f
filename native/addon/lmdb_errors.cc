#include "addon/functions.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

namespace monolith::addon {
namespace {

// mdb.c in lmdb 3.5.6 formats the reason for a failed write ("Attempting to write page at position ...") into a buffer
// from malloc(100), but the text may be up to 155 characters long. Any write that fails because the disk is full may
// therefore overflow the buffer, and the process then aborts in malloc. To prevent this, the library's malloc import is
// rebound to a function that allocates more for this size.
constexpr size_t kErrorBytes = 100, kRoomBytes = 256;

void* roomy_malloc(size_t size) { return std::malloc(size == kErrorBytes ? kRoomBytes : size); }

// Converts an address from the dynamic section to a pointer. glibc relocates these addresses in place; musl does not.
template <typename T>
T at(const dl_phdr_info& library, ElfW(Addr) address) {
  return reinterpret_cast<T>(address < library.dlpi_addr ? library.dlpi_addr + address : address);
}

void bind(void** slot, void* function) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(slot) / page * page;
  // The page is already writable unless the library was linked with full RELRO.
  if (mprotect(reinterpret_cast<void*>(first), page, PROT_READ | PROT_WRITE) == 0)
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
}

// Rebinds one library's malloc import. Returns the number of relocations changed.
int bind_malloc(const dl_phdr_info& library) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < library.dlpi_phnum; ++i)
    if (library.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
  if (dynamic == nullptr) return 0;
  const ElfW(Rela)* imports = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  size_t bytes = 0;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_JMPREL) imports = at<const ElfW(Rela)*>(library, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_PLTRELSZ) bytes = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_SYMTAB) symbols = at<const ElfW(Sym)*>(library, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_STRTAB) names = at<const char*>(library, dynamic->d_un.d_ptr);
  }
  if (imports == nullptr || symbols == nullptr || names == nullptr) return 0;
  int bound = 0;
  for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); ++i) {
    const char* name = names + symbols[ELF64_R_SYM(imports[i].r_info)].st_name;
    if (std::strcmp(name, "malloc") != 0) continue;
    bind(reinterpret_cast<void**>(library.dlpi_addr + imports[i].r_offset), reinterpret_cast<void*>(&roomy_malloc));
    ++bound;
  }
  return bound;
}

int bind_in_lmdb(dl_phdr_info* library, size_t, void* bound) {
  const std::string_view path = library->dlpi_name == nullptr ? "" : library->dlpi_name;
  if (path.find("lmdb") != std::string_view::npos && path.ends_with(".node"))
    *static_cast<int*>(bound) += bind_malloc(*library);
  return 0;
}

}  // namespace

Napi::Value js_guard_lmdb_errors(const Napi::CallbackInfo& info) {
  static std::mutex mutex;  // The library is loaded once per process and shared by all threads.
  const std::lock_guard lock(mutex);
  int bound = 0;
  dl_iterate_phdr(bind_in_lmdb, &bound);
  return Napi::Number::New(info.Env(), bound);
}

}  // namespace monolith::addon
