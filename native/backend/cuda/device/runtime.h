// One GPU as host code sees it: memory, one stream of work, recorded steps. Two implementations: runtime.cu over
// CUDA's runtime, and runtime_emulated.cc over the emulator. Host files of this folder include this and never
// CUDA's headers.
//
// Failures of a device after it was opened (a fault, a lost device) are kept: every later call does nothing, and
// synchronize() throws std::runtime_error with what happened; the engine ends its requests with that. Owned and
// used by one thread at a time.
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
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
  size_t shared_bytes = 0;  // that one block may have
  std::string driver;       // "13.0"; "none" of the emulator
};

// The GPUs of this machine that this build can use. kUnsupported, with the reason, where there are none: no driver,
// a driver too old, no device.
Result<std::vector<DeviceProperties>> list_devices();

class Runtime;

// A recorded sequence of launches and copies.
class Recording {
 public:
  virtual ~Recording() = default;
};

// A place in the stream's order.
class Event {
 public:
  virtual ~Event() = default;
};

class Runtime {
 public:
  // `device` counts from 0.
  static Result<std::unique_ptr<Runtime>> open(int device);
  virtual ~Runtime() = default;

  const DeviceProperties& device() const { return properties_; }
  // Bytes of device memory that are free now.
  virtual size_t free_bytes() const = 0;

  // Device memory, 256-byte aligned, zeroed; freed with the Runtime. kOutOfMemory says how much was asked for; any other
  // failure is kIo, with what CUDA calls it.
  virtual Result<void*> allocate(size_t bytes) = 0;
  // Page-locked host memory, which copies do not stop for.
  virtual Result<void*> allocate_pinned(size_t bytes) = 0;
  virtual void free(void* memory) = 0;  // of allocate()
  virtual void free_pinned(void* memory) = 0;

  // In the stream's order. Copies between pinned host memory and the device do not wait; `from` must not change,
  // `to` not be read, before synchronize().
  virtual void upload(void* to, const void* from_host, size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void fill(void* to, int byte, size_t bytes) = 0;
  // Waits for all that was asked for.
  virtual void synchronize() = 0;
  // Waits for what was asked for before the event was last put into the stream, and for nothing after it; for one that
  // never was, not at all. Throws as synchronize() does. Events end before their Runtime.
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;

  // Whether a kernel may be started while the one before it still runs (language.h), where the device can; at first
  // they are. All kernels must be made for it, as those of this folder are.
  virtual void set_early_launch(bool wanted) = 0;
  // The next kernel starts when all before it is over, whatever is said above: after kernels that write what others
  // read early (weights). Copies and fills need none: nothing overlaps with them.
  virtual void settle() = 0;

  // For libraries that use CUDA themselves: the calling thread's calls of it go to this device; and `work`, which gets
  // the stream and asks for something in its order. Its answer is whether it could: what it did not do is no failure of
  // the device.
  virtual void make_current() = 0;
  virtual bool use_stream(const std::function<bool(void* stream)>& work) = 0;

  // The launches, copies on the device and fills that are asked for between these are done as always, and recorded
  // besides; uploads and downloads are not recorded. `early`: with early launches, where the device can. An error harms
  // nothing: kOutOfMemory if there was no memory for it, else kUnsupported, with what was refused.
  virtual void begin_recording(bool early) = 0;
  virtual Result<std::unique_ptr<Recording>> end_recording() = 0;
  virtual void play(Recording& recording) = 0;

 protected:
  DeviceProperties properties_;
};

}  // namespace monolith::cuda
