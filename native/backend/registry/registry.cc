#include "backend/registry/registry.h"

#include <charconv>
#include <optional>

namespace monolith {
namespace {

constexpr std::string_view kAuto = "auto";

// A device name, resolved.
struct Device {
  const BackendKind* kind;
  int number;
};

std::optional<Device> find_device(std::string_view name) {
  for (const BackendKind& kind : backend_kinds()) {
    if (!name.starts_with(kind.name)) continue;
    const std::string_view rest = name.substr(kind.name.size());
    if (rest.empty()) return Device{&kind, 0};
    if (!kind.has_devices || rest[0] != ':') continue;
    int number = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    if (error == std::errc{} && end == rest.data() + rest.size() && number >= 0) return Device{&kind, number};
  }
  return std::nullopt;
}

Result<std::unique_ptr<Backend>> create(const BackendKind& kind, const BackendOptions& options, int device) {
  auto backend = kind.create(options, device);
  if (backend || !kind.has_devices) return backend;
  return Error{backend.error().code, "device " + options.device + ": " + backend.error().message};
}

}  // namespace

bool is_device(std::string_view name) { return name == kAuto || find_device(name).has_value(); }

std::string device_names() {
  const std::span<const BackendKind> kinds = backend_kinds();
  std::vector<std::string> names = {std::string(kAuto)};
  for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) {
    names.emplace_back(kind->name);
    if (kind->has_devices) names.push_back(std::string(kind->name) + ":N");
  }
  std::string list = names[0];
  for (size_t i = 1; i < names.size(); ++i) list += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return list;
}

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (options.device == kAuto) {
    Error last{ErrorCode::kUnsupported, "this build has no backend"};
    for (const BackendKind& kind : backend_kinds()) {
      if (!kind.probe()) continue;
      auto backend = create(kind, options, 0);
      // A device that is too old for its backend is skipped.
      if (backend || backend.error().code != ErrorCode::kUnsupported) return backend;
      last = backend.error();
    }
    return last;
  }
  const std::optional<Device> device = find_device(options.device);
  if (!device) return Error{ErrorCode::kInvalidArgument, "device " + options.device + ": must be " + device_names()};
  if (const auto probed = device->kind->probe(); !probed)
    return Error{probed.error().code, "device " + options.device + ": " + probed.error().message};
  return create(*device->kind, options, device->number);
}

}  // namespace monolith
