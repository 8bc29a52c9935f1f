// The host's interface to one GPU: memory, one stream and CUDA graphs. There are two implementations: runtime.cu uses
// the CUDA runtime, and runtime_emulated.cc uses the emulator. Host files of this folder include this header and never
// CUDA's headers.
//
// Device failures after open() (a fault, a lost device) are sticky. Every later call does nothing, and synchronize()
// throws std::runtime_error with the reason, which the engine reports to its requests. A Runtime is owned and used by
// one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace monolith::cuda {

struct DeviceProperties {
  std::string name;          // For example "NVIDIA H200".
  int major = 0, minor = 0;  // Compute capability.
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
  size_t shared_bytes = 0;  // Maximum shared memory of one block.
  std::string driver;       // CUDA version of the driver, for example "13.0"; "none" for the emulator.
};

// Lists the GPUs of this machine that this build can use. Returns kUnsupported with the reason if there are none: no
// driver, a driver that is too old, or no device.
Result<std::vector<DeviceProperties>> list_devices();

class Runtime;

// A captured sequence of launches and copies (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
};

// A position in the stream.
class Event {
 public:
  virtual ~Event() = default;
};

class Runtime {
 public:
  // Opens GPU `device`, counted from 0.
  static Result<std::unique_ptr<Runtime>> open(int device);
  virtual ~Runtime() = default;

  const DeviceProperties& device() const { return properties_; }
  // Returns the number of bytes of device memory that are currently free.
  virtual size_t free_bytes() const = 0;

  // Allocates device memory, 256-byte aligned and zeroed. It is freed at the latest when the Runtime is destroyed.
  // kOutOfMemory errors contain the requested size; any other failure is kIo with CUDA's error message.
  virtual Result<void*> allocate(size_t bytes) = 0;
  // Allocates page-locked host memory, which asynchronous copies require.
  virtual Result<void*> allocate_pinned(size_t bytes) = 0;
  virtual void free(void* memory) = 0;  // Frees memory from allocate().
  virtual void free_pinned(void* memory) = 0;

  // The following operations run in stream order. Copies between pinned host memory and the device are asynchronous:
  // until synchronize(), `from` must not change and `to` must not be read.
  virtual void upload(void* to, const void* from_host, size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void fill(void* to, int byte, size_t bytes) = 0;
  // Waits for all submitted work.
  virtual void synchronize() = 0;
  // wait() blocks until the work submitted before the event's last record() is complete; it does not wait for later
  // work. It returns immediately for an event that was never recorded. It throws like synchronize(). Events must be
  // destroyed before their Runtime.
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;

  // Enables or disables programmatic dependent launch, where a kernel starts while the previous kernel still runs
  // (language.h). Enabled by default on devices that support it. All kernels must support it, as all kernels in cuda/
  // do.
  virtual void set_early_launch(bool wanted) = 0;
  // Fence: the next kernel starts only when all earlier work is complete, even with programmatic dependent launch.
  // Needed after kernels that write data which later kernels prefetch (weights). Copies and fills need no fence,
  // because they never overlap with kernels.
  virtual void settle() = 0;

  // For libraries that call CUDA themselves. make_current() selects this device for the calling thread. use_stream()
  // calls `work` with the stream; `work` submits its operations to the stream and returns whether it succeeded. A
  // failure of `work` is not treated as a device failure.
  virtual void make_current() = 0;
  virtual bool use_stream(const std::function<bool(void* stream)>& work) = 0;

  // Launches, device-to-device copies and fills submitted between begin_recording() and end_recording() run as usual
  // and are also captured. Uploads and downloads are not captured. `early` enables programmatic dependent launch in the
  // graph if the device supports it. A failed capture has no other effect: the error is kOutOfMemory if there was not
  // enough memory, otherwise kUnsupported with the reason.
  virtual void begin_recording(bool early) = 0;
  virtual Result<std::unique_ptr<Recording>> end_recording() = 0;
  virtual void play(Recording& recording) = 0;

 protected:
  DeviceProperties properties_;
};

}  // namespace monolith::cuda
