#include "base/control_group.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace monolith {
namespace {

// Mount point of a cgroup hierarchy, and the cgroup that is mounted there.
struct Mount {
  std::string point, top;
};

// Paths of the process's cgroups, as listed in /proc/self/cgroup.
struct Groups {
  std::string unified, cpu, memory;
};

struct Hierarchies {
  std::vector<Mount> unified, cpu, memory;
};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

// Parses lines of /proc/self/cgroup such as "4:cpu,cpuacct:/path" (cgroup v1) or "0::/path" (cgroup v2).
Groups read_groups(const std::string& root) {
  Groups groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) groups.unified = path;
    if (lists(controllers, "cpu")) groups.cpu = path;
    if (lists(controllers, "memory")) groups.memory = path;
  }
  return groups;
}

// mountinfo writes spaces and backslashes in paths as octal escapes.
std::string unescaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return text[i + at] >= '0' && text[i + at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && digit(1) && digit(2) && digit(3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Parses lines of /proc/self/mountinfo, which have the form "ID PARENT MAJOR:MINOR TOP POINT OPTIONS [FIELD...] - TYPE
// SOURCE OPTIONS". The usual mount points are always checked as well, because a container may see a cgroup's files
// without having a mount for them.
Hierarchies read_hierarchies(const std::string& root) {
  Hierarchies found{.unified = {{"/sys/fs/cgroup", "/"}},
                    .cpu = {{"/sys/fs/cgroup/cpu", "/"}},
                    .memory = {{"/sys/fs/cgroup/memory", "/"}}};
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream left(line.substr(0, separator)), right(line.substr(separator + 3));
    std::string skipped, top, point, type, source, options;
    left >> skipped >> skipped >> skipped >> top >> point;
    right >> type >> source >> options;
    const Mount mount{unescaped(point), unescaped(top)};
    if (type == "cgroup2") found.unified.push_back(mount);
    if (type == "cgroup" && lists(options, "cpu")) found.cpu.push_back(mount);
    if (type == "cgroup" && lists(options, "memory")) found.memory.push_back(mount);
  }
  return found;
}

// Returns the cgroup's path below the mount point: "" or "/a/b". A cgroup outside the mounted subtree is not visible;
// the cgroup at the mount point is then used instead.
std::string below_mount(const std::string& group, const std::string& top) {
  std::string path = group == "/" ? "" : group;
  if (top != "/") {
    const bool inside = path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
    path = inside ? path.substr(top.size()) : "";
  }
  const bool is_outside = path.starts_with("/..") && (path.size() == 3 || path[3] == '/');
  return is_outside || (!path.empty() && path[0] != '/') ? "" : path;
}

// Calls `read` with the directories of the process's cgroup and all of its ancestors.
template <typename Read>
void for_each_group(const std::string& root, const std::vector<Mount>& mounts, const std::string& group, Read&& read) {
  for (const Mount& mount : mounts) {
    for (std::string path = below_mount(group, mount.top);; path.resize(path.rfind('/'))) {
      read(root + mount.point + path + "/");
      if (path.empty()) break;
    }
  }
}

// Returns the first number in a file, or nullopt if there is none ("max").
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number) || number < 0) return std::nullopt;
  return static_cast<uint64_t>(number);
}

// Returns the bytes of page cache charged to a cgroup. The kernel reclaims page cache before it lets an allocation
// fail.
uint64_t page_cache(const std::string& folder, std::initializer_list<std::string_view> fields) {
  std::ifstream file(folder + "memory.stat");
  uint64_t sum = 0, number = 0;
  for (std::string field; file >> field >> number;)
    if (std::ranges::find(fields, field) != fields.end()) sum += number;
  return sum;
}

void limit_processors(GroupLimits& limits, std::optional<uint64_t> quota, std::optional<uint64_t> period) {
  if (!quota || !period || *quota == 0 || *period == 0) return;
  const uint64_t processors = (*quota - 1) / *period + 1;
  limits.processors = static_cast<int>(std::min<uint64_t>(processors, static_cast<uint64_t>(limits.processors)));
}

void limit_memory(GroupLimits& limits, std::optional<uint64_t> limit, uint64_t used, uint64_t cache) {
  // cgroup v1 writes "no limit" as the largest multiple of the page size.
  constexpr uint64_t kUnlimited = uint64_t{1} << 62;
  if (!limit || *limit == 0 || *limit >= kUnlimited) return;
  const uint64_t taken = used - std::min(used, cache);
  limits.memory_bytes = std::min(limits.memory_bytes, *limit);
  limits.free_memory_bytes = std::min(limits.free_memory_bytes, *limit - std::min(*limit, taken));
}

}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  const Groups groups = read_groups(root);
  const Hierarchies hierarchies = read_hierarchies(root);
  for_each_group(root, hierarchies.unified, groups.unified, [&](const std::string& folder) {
    std::ifstream file(folder + "cpu.max");
    int64_t quota = 0, period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) limit_processors(limits, quota, period);
    const auto max = number_in(folder + "memory.max"), high = number_in(folder + "memory.high");
    if (!max && !high) return;
    const uint64_t used = number_in(folder + "memory.current").value_or(0),
                   cache = page_cache(folder, {"inactive_file", "active_file"});
    limit_memory(limits, max, used, cache);
    limit_memory(limits, high, used, cache);
  });
  for_each_group(root, hierarchies.cpu, groups.cpu, [&](const std::string& folder) {
    limit_processors(limits, number_in(folder + "cpu.cfs_quota_us"), number_in(folder + "cpu.cfs_period_us"));
  });
  for_each_group(root, hierarchies.memory, groups.memory, [&](const std::string& folder) {
    limit_memory(limits, number_in(folder + "memory.limit_in_bytes"),
                 number_in(folder + "memory.usage_in_bytes").value_or(0),
                 page_cache(folder, {"total_inactive_file", "total_active_file"}));
  });
  return limits;
}

int usable_processors() {
  const auto allowed = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::clamp(group_limits().processors, 1, allowed);
}

}  // namespace monolith
