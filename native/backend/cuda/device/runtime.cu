// Implements Runtime with the CUDA runtime, which is linked statically and loads the driver only on first use.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/messages.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {
namespace {

constexpr int kOldestMajor = 8;                 // Ampere.
constexpr size_t kPlainSharedBytes = 48 << 10;  // Shared memory that a block may use without opting in.

constexpr int kEarlyLaunchMajor = 9;  // Hopper.
constexpr int kEarlyLaunchCode = 90;  // Kernels compiled for an older architecture do not wait for their inputs.

// The first kernel that is launched. Its attributes show the architecture for which all kernels were compiled, because
// all files are compiled with the same flags.
constexpr int kProbeThreads = 32;
__global__ void probe_kernel() { start_after_inputs(); }

std::string text_of(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

class CudaRecording final : public Recording {
 public:
  CudaRecording(int device, cudaGraphExec_t graph) : device_(device), graph_(graph) {}
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  ~CudaRecording() override {
    cudaSetDevice(device_);
    cudaGraphExecDestroy(graph_);
  }
  cudaGraphExec_t graph() const { return graph_; }

 private:
  int device_;
  cudaGraphExec_t graph_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(int device, cudaEvent_t event) : device_(device), event_(event) {}
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override {
    cudaSetDevice(device_);
    cudaEventDestroy(event_);
  }
  cudaEvent_t event() const { return event_; }

 private:
  int device_;
  cudaEvent_t event_;
};

class CudaRuntime final : public Runtime {
 public:
  explicit CudaRuntime(int device, DeviceProperties properties) : device_(device) {
    properties_ = std::move(properties);
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;

  ~CudaRuntime() override {
    cudaSetDevice(device_);
    if (stream_) cudaStreamSynchronize(stream_);
    for (void* memory : memory_) cudaFree(memory);
    for (void* memory : pinned_) cudaFreeHost(memory);
    if (recorder_) cudaStreamDestroy(recorder_);
    if (stream_) cudaStreamDestroy(stream_);
  }

  size_t free_bytes() const override {
    size_t free_bytes = 0, total = 0;
    cudaSetDevice(device_);
    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess ? free_bytes : 0;
  }

  Status start() {
    if (const cudaError_t error = cudaSetDevice(device_); error != cudaSuccess) return failure("could not open", error);
    if (const cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); error != cudaSuccess)
      return failure("could not create a stream on", error);
    cudaFuncAttributes code{};
    if (const cudaError_t error = cudaFuncGetAttributes(&code, probe_kernel); error != cudaSuccess)
      return failure("could not find kernels for", error);
    can_launch_early_ =
        properties_.major >= kEarlyLaunchMajor && code.ptxVersion >= kEarlyLaunchCode && try_early_launch();
    set_early_launch(true);
    return {};
  }

  Result<void*> allocate(size_t bytes) override {
    cudaSetDevice(device_);
    void* memory = nullptr;
    if (const cudaError_t error = cudaMalloc(&memory, std::max<size_t>(bytes, 1)); error != cudaSuccess) {
      cudaGetLastError();
      return allocation_error(properties_.name, bytes, error == cudaErrorMemoryAllocation, text_of(error));
    }
    memory_.push_back(memory);
    fill(memory, 0, bytes);
    return memory;
  }

  Result<void*> allocate_pinned(size_t bytes) override {
    cudaSetDevice(device_);
    void* memory = nullptr;
    if (const cudaError_t error = cudaMallocHost(&memory, std::max<size_t>(bytes, 1)); error != cudaSuccess) {
      cudaGetLastError();
      return allocation_error("page-locked memory", bytes, error == cudaErrorMemoryAllocation, text_of(error));
    }
    pinned_.push_back(memory);
    return memory;
  }

  // cudaSetDevice() is needed because a thread without a current device would use device 0.
  void free(void* memory) override {
    if (std::erase(memory_, memory) == 0) return;
    cudaSetDevice(device_);
    note("freeing memory", cudaFree(memory));
  }
  void free_pinned(void* memory) override {
    if (std::erase(pinned_, memory) == 0) return;
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);  // Copies may be in flight, and only cudaFree() is documented to wait for them.
    note("freeing memory", cudaFreeHost(memory));
  }

  void upload(void* to, const void* from_host, size_t bytes) override {
    if (!begin_work()) return;
    note("copying to the device", cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_));
  }
  void download(void* to_host, const void* from, size_t bytes) override {
    if (!begin_work()) return;
    note("copying from the device", cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_));
  }
  void copy(void* to, const void* from, size_t bytes) override {
    perform("copying",
            [=](cudaStream_t stream) { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream); });
  }
  void fill(void* to, int byte, size_t bytes) override {
    perform("filling memory", [=](cudaStream_t stream) { return cudaMemsetAsync(to, byte, bytes, stream); });
  }

  void synchronize() override {
    if (has_work_ && ready()) note("running a kernel", cudaStreamSynchronize(stream_));
    has_work_ = false;
    if (!failed_.empty()) throw std::runtime_error(failed_);
  }

  void settle() override { settles_ = true; }
  void set_early_launch(bool wanted) override { launches_early_ = wanted && can_launch_early_; }

  Result<std::unique_ptr<Event>> make_event() override {
    cudaSetDevice(device_);
    cudaEvent_t event = nullptr;
    if (const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming); error != cudaSuccess) {
      cudaGetLastError();
      return failure("could not create an event on", error);
    }
    return std::unique_ptr<Event>(std::make_unique<CudaEvent>(device_, event));
  }
  void record(Event& event) override {
    if (ready()) note("recording an event", cudaEventRecord(static_cast<CudaEvent&>(event).event(), stream_));
  }
  void wait(Event& event) override {
    if (ready()) note("running a kernel", cudaEventSynchronize(static_cast<CudaEvent&>(event).event()));
    if (!failed_.empty()) throw std::runtime_error(failed_);
  }
  void make_current() override { ready(); }
  bool use_stream(const std::function<bool(void*)>& work) override {
    if (!begin_work()) return false;
    const bool done = work(stream_);
    if (!done) cudaGetLastError();  // Clears the error. A device fault would be reported again.
    if (done && recording_ && !work(recorder_))
      forget_recording({ErrorCode::kUnsupported, "a library's work could not be captured"});
    return done;
  }

  // Captures on a separate stream, so that a capture error cannot become an error of the running work.
  void begin_recording(bool early) override {
    if (!ready()) return;
    records_early_ = early && launches_early_;
    cudaError_t error = recorder_ ? cudaSuccess : cudaStreamCreateWithFlags(&recorder_, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaStreamBeginCapture(recorder_, cudaStreamCaptureModeRelaxed);
    recording_ = error == cudaSuccess;
    if (recording_) return;
    cudaGetLastError();
    recording_failure_ = recording_error("starting the capture", error);
  }
  Result<std::unique_ptr<Recording>> end_recording() override {
    if (!recording_) return recording_failure_;
    recording_ = false;
    cudaSetDevice(device_);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    const char* doing = "capturing";
    // This call also reports errors that occurred during the capture.
    cudaError_t error = cudaStreamEndCapture(recorder_, &graph);
    if (error == cudaSuccess) {
      doing = "creating the CUDA graph";
      error = cudaGraphInstantiate(&exec, graph, 0);
    }
    if (graph) cudaGraphDestroy(graph);
    // Uploads the graph now. Otherwise the first launch would allocate its memory, and a failure would then be a device
    // fault.
    if (error == cudaSuccess) {
      doing = "uploading the CUDA graph";
      error = cudaGraphUpload(exec, stream_);
      if (error != cudaSuccess) cudaGraphExecDestroy(exec);
    }
    if (error != cudaSuccess) {
      cudaGetLastError();
      return recording_error(doing, error);
    }
    return std::unique_ptr<Recording>(std::make_unique<CudaRecording>(device_, exec));
  }
  void play(Recording& recording) override {
    if (begin_work())
      note("launching a CUDA graph", cudaGraphLaunch(static_cast<CudaRecording&>(recording).graph(), stream_));
  }

  void launch(const void* kernel, dim3 grid, int threads, size_t shared_bytes, void** arguments) {
    if (!ready()) return;
    if (shared_bytes > kPlainSharedBytes) allow_shared(kernel, shared_bytes);
    perform("starting a kernel", [&](cudaStream_t stream) {
      const bool early = (stream == stream_ ? launches_early_ : records_early_) && !settles_;
      return start_kernel(stream, early, kernel, grid, threads, shared_bytes, arguments);
    });
    settles_ = false;
  }

 private:
  static cudaError_t start_kernel(cudaStream_t stream, bool early, const void* kernel, dim3 grid, int threads,
                                  size_t shared_bytes, void** arguments) {
    // Kernels request the maximum shared memory carveout, which the largest kernels need.
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[1].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = early ? 2 : 0;
    return cudaLaunchKernelExC(&config, kernel, arguments);
  }

  // Tests whether the driver and the device accept several programmatic dependent launches in succession. Without this
  // test, the first step would fail on a device that does not accept them.
  bool try_early_launch() {
    void* none[] = {nullptr};
    const void* const probe = reinterpret_cast<const void*>(probe_kernel);
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 2 && error == cudaSuccess; ++i)
      error = start_kernel(stream_, true, probe, dim3{1, 1, 1}, kProbeThreads, 0, none);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
    if (error != cudaSuccess) cudaGetLastError();
    return error == cudaSuccess;
  }

  // Runs the work on the stream, and also on the capture stream while a capture is active.
  template <typename Work>
  void perform(const char* doing, const Work& work) {
    if (!begin_work()) return;
    note(doing, work(stream_));
    if (!recording_) return;
    const cudaError_t error = work(recorder_);
    if (error == cudaSuccess) return;
    cudaGetLastError();
    forget_recording(recording_error(doing, error));
  }
  static Error recording_error(const char* doing, cudaError_t error) {
    return {error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported,
            std::string(doing) + ": " + text_of(error)};
  }
  void forget_recording(Error why) {
    recording_failure_ = std::move(why);
    recording_ = false;
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(recorder_, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
  }

  bool begin_work() {
    has_work_ = true;
    return ready();
  }
  bool ready() {
    // Sets the current device of this thread. Costs practically nothing if this device is already set.
    if (failed_.empty()) cudaSetDevice(device_);
    return failed_.empty();
  }
  void note(const char* doing, cudaError_t error) {
    if (error != cudaSuccess && failed_.empty())
      failed_ = properties_.name + ": error while " + doing + ": " + text_of(error);
  }
  Error failure(const char* doing, cudaError_t error) const {
    return {ErrorCode::kIo, std::string(doing) + " " + properties_.name + ": " + text_of(error)};
  }

  // To use more than 48 KB of shared memory, a kernel must opt in once.
  void allow_shared(const void* kernel, size_t bytes) {
    for (Allowed& allowed : allowed_) {
      if (allowed.kernel != kernel) continue;
      if (allowed.bytes < bytes) raise_limit(allowed, bytes);
      return;
    }
    raise_limit(allowed_.emplace_back(Allowed{kernel, 0}), bytes);
  }
  struct Allowed {
    const void* kernel;
    size_t bytes;
  };
  void raise_limit(Allowed& allowed, size_t bytes) {
    note("raising the shared memory limit",
         cudaFuncSetAttribute(allowed.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
    allowed.bytes = bytes;
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t recorder_ = nullptr;  // The capture stream, created for the first capture.
  bool recording_ = false;
  Error recording_failure_{ErrorCode::kUnsupported, "nothing was captured"};  // Why the last capture ended early.
  bool can_launch_early_ = false;
  bool settles_ = false;
  bool launches_early_ = false, records_early_ = false;  // records_early_ refers to the current capture.
  bool has_work_ = false;                                // True if work was submitted since the last synchronize().
  std::string failed_;                                   // Message of the first failure; empty if there was none.
  std::vector<void*> memory_, pinned_;
  std::vector<Allowed> allowed_;
};

Result<DeviceProperties> describe(int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) {
    cudaGetLastError();
    return Error{ErrorCode::kUnsupported, "GPU " + std::to_string(device) + " cannot be queried: " + text_of(error)};
  }
  DeviceProperties own;
  own.name = properties.name;
  own.major = properties.major;
  own.minor = properties.minor;
  own.multiprocessors = properties.multiProcessorCount;
  own.memory_bytes = properties.totalGlobalMem;
  own.l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  own.shared_bytes = properties.sharedMemPerBlockOptin;
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) own.driver = version_text(version);
  return own;
}

Result<int> count_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    int version = 0;
    cudaDriverGetVersion(&version);
    return driver_error(version, CUDART_VERSION);
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    return Error{ErrorCode::kUnsupported, "no NVIDIA GPU found on this machine"};
  if (error != cudaSuccess) return Error{ErrorCode::kUnsupported, "CUDA failed to start: " + text_of(error)};
  return count;
}

}  // namespace

Result<std::vector<DeviceProperties>> list_devices() {
  const auto count = count_devices();
  if (!count) return count.error();
  std::vector<DeviceProperties> devices;
  for (int i = 0; i < *count; ++i) {
    auto device = describe(i);
    if (!device) return device.error();
    devices.push_back(std::move(*device));
  }
  return devices;
}

Result<std::unique_ptr<Runtime>> Runtime::open(int device) {
  const auto count = count_devices();
  if (!count) return count.error();
  if (device < 0 || device >= *count)
    return Error{ErrorCode::kInvalidArgument, "there is no GPU " + std::to_string(device) + ": this machine has " +
                                                  std::to_string(*count) + ", counted from 0"};
  auto properties = describe(device);
  if (!properties) return properties.error();
  if (properties->major < kOldestMajor)
    return Error{ErrorCode::kUnsupported,
                 properties->name + " has compute capability " + std::to_string(properties->major) + "." +
                     std::to_string(properties->minor) + "; this build needs 8.0 (Ampere) or newer"};
  auto runtime = std::make_unique<CudaRuntime>(device, std::move(*properties));
  if (Status status = runtime->start(); !status) return status.error();
  return std::unique_ptr<Runtime>(std::move(runtime));
}

void launch_kernel(Runtime& runtime, const void* kernel, dim3 grid, int threads, size_t shared_bytes,
                   void** arguments) {
  static_cast<CudaRuntime&>(runtime).launch(kernel, grid, threads, shared_bytes, arguments);
}

}  // namespace monolith::cuda
