// launch(): how *.cu files start a kernel on a Runtime, on the GPU or in the emulator.
//
// On devices of compute capability 9.0 and later kernels ask for programmatic stream serialization (PTX ISA,
// "griddepcontrol"; CUDA programming guide, "Programmatic Dependent Launch"): a kernel that comes right after another
// one starts when all blocks of that one have called let_next_start(), and waits for its results itself
// (wait_for_inputs()). After a copy or a fill it starts when that is done, and so do copies and fills after a kernel.
// Recorded, these are edges of a graph of the programmatic kind between kernels, of the ordinary kind elsewhere; a
// graph as a whole starts after what was asked for before it.
//
// A multiprocessor's cache and shared memory are one memory, divided as the kernel asks that runs there, and a kernel
// that wants another division waits until the multiprocessor is idle. So all that start early ask for the same one.
#pragma once

#include <tuple>
#include <utility>

#include "backend/cuda/device/language.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

#ifdef __CUDACC__

// Of runtime.cu: `kernel` is a __global__ function, `arguments` point at its arguments.
void launch_kernel(Runtime& runtime, const void* kernel, dim3 grid, int threads, size_t shared_bytes, void** arguments);

// `grid` blocks of `threads` threads, each block with `shared_bytes` of shared memory (the size of the kernel's
// shared struct; 0: none). Arguments are converted to the kernel's own types.
template <typename... Parameters, typename... Arguments>
void launch(Runtime& runtime, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes,
            Arguments&&... arguments) {
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&value))..., nullptr};
        launch_kernel(runtime, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes, pointers);
      },
      values);
}

#else

// Of runtime_emulated.cc: runs it by the next synchronize(), and records it where a recording is made.
void launch_emulated(Runtime& runtime, std::function<void()> kernel, dim3 grid, int threads, size_t shared_bytes);

template <typename... Parameters, typename... Arguments>
void launch(Runtime& runtime, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes,
            Arguments&&... arguments) {
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  launch_emulated(
      runtime, [kernel, values] { std::apply(kernel, values); }, grid, threads, shared_bytes);
}

#endif

}  // namespace monolith::cuda
