// Messages about a device that does not do what it was asked for: words alone, so that they are tested without one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace monolith::cuda {

// CUDA counts its versions so: 13000 is 13.0.
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// `what` is what CUDA calls it; only where memory is short is it a matter of the size.
inline Error allocation_error(std::string_view device, size_t bytes, bool is_memory_short, std::string_view what) {
  const std::string size = std::to_string(bytes) + " bytes";
  if (is_memory_short)
    return {ErrorCode::kOutOfMemory, std::string(device) + " has no " + size + " left: " + std::string(what)};
  return {ErrorCode::kIo, std::string(device) + " failed at allocating " + size + ": " + std::string(what)};
}

// The oldest driver that CUDA `major` runs with. Each major version is said to run with any driver of its own.
inline std::string_view oldest_driver(int major) {
  if (major == 13) return "580";
  if (major == 12) return "525";
  return "";
}

// `driver`: the CUDA version it is for, 0 if there is none; `runtime`: the one this was built with.
inline Error driver_error(int driver, int runtime) {
  if (driver == 0) return {ErrorCode::kUnsupported, "no NVIDIA driver on this machine"};
  const std::string_view oldest = oldest_driver(runtime / 1000);
  return {ErrorCode::kUnsupported, "the NVIDIA driver is too old: it is for CUDA " + version_text(driver) +
                                       ", this build needs CUDA " + std::to_string(runtime / 1000) +
                                       (oldest.empty() ? "" : " (driver " + std::string(oldest) + " or newer)")};
}

}  // namespace monolith::cuda
