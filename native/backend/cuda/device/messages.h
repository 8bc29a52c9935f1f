// Pure functions that build device error messages. They can be tested without a device.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace monolith::cuda {

// Formats a CUDA version number: 13000 is "13.0".
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Builds the error of a failed allocation. `what` is CUDA's own error message. The error code is kOutOfMemory only if
// the allocation failed because there is not enough memory.
inline Error allocation_error(std::string_view device, size_t bytes, bool is_memory_short, std::string_view what) {
  const std::string size = std::to_string(bytes) + " bytes";
  if (is_memory_short)
    return {ErrorCode::kOutOfMemory, std::string(device) + " has less than " + size + " free: " + std::string(what)};
  return {ErrorCode::kIo, std::string(device) + " failed to allocate " + size + ": " + std::string(what)};
}

// Returns the oldest driver that supports CUDA `major`. According to NVIDIA, every minor version of CUDA runs with any
// driver of the same major version.
inline std::string_view oldest_driver(int major) {
  if (major == 13) return "580";
  if (major == 12) return "525";
  return "";
}

// `driver` is the CUDA version that the driver supports, or 0 if there is no driver. `runtime` is the CUDA version of
// this build.
inline Error driver_error(int driver, int runtime) {
  if (driver == 0) return {ErrorCode::kUnsupported, "no NVIDIA driver found on this machine"};
  const std::string_view oldest = oldest_driver(runtime / 1000);
  return {ErrorCode::kUnsupported, "the NVIDIA driver is too old: it supports CUDA " + version_text(driver) +
                                       ", this build needs CUDA " + std::to_string(runtime / 1000) +
                                       (oldest.empty() ? "" : " (driver " + std::string(oldest) + " or newer)")};
}

}  // namespace monolith::cuda
