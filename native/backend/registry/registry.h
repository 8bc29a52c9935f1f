// The backends of this build, by name. Models are loaded through this registry, so that no higher layer depends on a
// particular backend. Safe to call from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace monolith {

// The options for creating a backend. Each backend ignores the options that do not apply to it.
struct BackendOptions {
  std::string device = "auto";  // "auto", a backend's name, or NAME:N for its device number N.
  int threads = 0;              // CPU: 0 = one thread per core.
  std::string isa = "auto";     // CPU: see CpuBackendOptions.
  Arithmetic arithmetic = Arithmetic::kProduction;
  bool batch_invariant = true;  // A token's result has the same bits regardless of the rest of the batch.
  std::string cublaslt = {};    // CUDA: path of cuBLASLt, or "auto" (see CudaBackendOptions).

  bool operator==(const BackendOptions&) const = default;
};

// A kind of backend. If this build lacks a kind, the kind is still listed, and its probe() returns an error with the
// reason.
struct BackendKind {
  std::string_view name;
  bool has_devices;  // Whether there may be several devices: NAME:N selects one of them.
  // Returns the names of the devices that can be used, or an error with the reason why there are none.
  Result<std::vector<std::string>> (*probe)();
  // Called only after a successful probe.
  Result<std::unique_ptr<Backend>> (*create)(const BackendOptions& options, int device);
};

// All kinds, in the order in which "auto" tries them. cpu_only.cc and with_cuda.cc each define this function; a build
// links one of them.
std::span<const BackendKind> backend_kinds();

// Whether make_backend() accepts this device name, even if no such device exists.
bool is_device(std::string_view name);
// Returns a list of the device names that is_device() accepts, for messages: "auto, cpu, cuda or cuda:N".
std::string device_names();

// Creates the backend for options.device. "auto" selects the first kind that this machine can use. Returns the errors
// of the kind's probe() and create(), prefixed with the device name unless it is the only device of its kind.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

}  // namespace monolith
