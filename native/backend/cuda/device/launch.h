// launch() starts a kernel on a Runtime, on the GPU or in the emulator. Used by *.cu files.
//
// On devices of compute capability 9.0 and later, kernels are launched with programmatic stream serialization (PTX ISA,
// "griddepcontrol"; CUDA programming guide, "Programmatic Dependent Launch"). A kernel that directly follows another
// kernel starts when all blocks of the previous kernel have called let_next_start(), and waits for its results with
// wait_for_inputs(). A kernel after a copy or a fill starts when the copy or fill is complete. Copies and fills after a
// kernel start when the kernel is complete. In a captured CUDA graph, kernel-to-kernel edges are programmatic and all
// other edges are ordinary. A graph as a whole starts after all work submitted before it.
//
// A multiprocessor's L1 cache and shared memory share one memory, divided as the running kernel requests. A kernel that
// requests a different split waits until the multiprocessor is idle. All kernels with dependent launch therefore
// request the same split.
#pragma once

#include <tuple>
#include <utility>

#include "backend/cuda/device/language.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

#ifdef __CUDACC__

// Defined in runtime.cu. `kernel` is a __global__ function; `arguments` points to pointers to its arguments.
void launch_kernel(Runtime& runtime, const void* kernel, dim3 grid, int threads, size_t shared_bytes, void** arguments);

// Launches `grid` blocks of `threads` threads. Each block gets `shared_bytes` bytes of shared memory (the size of the
// kernel's shared struct, or 0). The arguments are converted to the kernel's parameter types.
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

// Defined in runtime_emulated.cc. Runs the kernel no later than the next synchronize(), and adds it to the graph if a
// capture is active.
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
