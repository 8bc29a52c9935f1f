// Tests memory claims, and the memory and processor limits. The limits are read from a directory tree laid out like the
// kernel's /proc and /sys/fs/cgroup.
#include "base/control_group.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/machine_memory.h"
#include "check.h"

using namespace monolith;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kNoBytes = std::numeric_limits<uint64_t>::max();
constexpr int kNoProcessors = std::numeric_limits<int>::max();

class Root {
 public:
  Root() {
    std::string name = (std::filesystem::temp_directory_path() / "monolith-groups-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Root() { std::filesystem::remove_all(path_); }
  Root& write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = path_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kMountV2 = "30 22 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const std::string kMountsV1 =
    "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "33 30 0:36 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n";

}  // namespace

TEST(groups_without_limits_limit_nothing) {
  Root none, unlimited;
  unlimited.write("/proc/self/cgroup", "0::/a\n").write("/proc/self/mountinfo", kMountV2);
  unlimited.write("/sys/fs/cgroup/a/cpu.max", "max 100000\n").write("/sys/fs/cgroup/a/memory.max", "max\n");
  unlimited.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
      .write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  unlimited.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  for (const Root* root : {&none, &unlimited}) {
    const GroupLimits limits = group_limits(root->path());
    CHECK_EQ(limits.processors, kNoProcessors);
    CHECK_EQ(limits.memory_bytes, kNoBytes);
    CHECK_EQ(limits.free_memory_bytes, kNoBytes);
  }
}

// A container with its own cgroup namespace sees its own cgroup as the root.
TEST(the_limits_of_a_version_2_root_group_apply) {
  Root root;
  root.write("/sys/fs/cgroup/cpu.max", "150000 100000\n").write("/sys/fs/cgroup/memory.max", "2097152\n");
  const GroupLimits limits = group_limits(root.path());
  CHECK_EQ(limits.processors, 2);
  CHECK_EQ(limits.memory_bytes, 2 * kMiB);
}

// The files that the kernel has after CPUQuota= and MemoryMax= are set in a systemd unit and in the slice above it.
TEST(the_smallest_limit_between_group_and_root_applies) {
  const auto with = [](const std::vector<std::pair<std::string, std::string>>& files) {
    Root root;
    root.write("/proc/self/cgroup", "0::/system.slice/monolith.service\n").write("/proc/self/mountinfo", kMountV2);
    for (const auto& [path, text] : files) root.write("/sys/fs/cgroup" + path, text);
    return group_limits(root.path());
  };
  const std::string own = "/system.slice/monolith.service", slice = "/system.slice";
  CHECK_EQ(with({{own + "/cpu.max", "300000 100000"}}).processors, 3);
  CHECK_EQ(with({{own + "/cpu.max", "300000 100000"}, {slice + "/cpu.max", "20000 10000"}}).processors, 2);
  CHECK_EQ(with({{own + "/cpu.max", "100000 100000"}, {slice + "/cpu.max", "200000 100000"}}).processors, 1);
  CHECK_EQ(with({{own + "/cpu.max", "max 100000"}, {"/cpu.max", "400000 100000"}}).processors, 4);
  CHECK_EQ(with({{own + "/memory.max", "4194304"}, {slice + "/memory.max", "8388608"}}).memory_bytes, 4 * kMiB);
  CHECK_EQ(with({{own + "/memory.max", "max"}, {slice + "/memory.max", "8388608"}}).memory_bytes, 8 * kMiB);
  CHECK_EQ(with({{own + "/memory.max", "4194304"}, {own + "/memory.high", "3145728"}}).memory_bytes, 3 * kMiB);
  // A limit of a different unit has no effect.
  CHECK_EQ(with({{"/system.slice/other.service/cpu.max", "100000 100000"}}).processors, kNoProcessors);
}

TEST(version_1_limits_apply_with_one_hierarchy_per_controller) {
  Root root;
  root.write("/proc/self/cgroup", "5:cpu,cpuacct:/batch/job\n4:memory:/batch\n1:name=systemd:/elsewhere\n0::/\n")
      .write("/proc/self/mountinfo", kMountsV1);
  root.write("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_quota_us", "-1\n")
      .write("/sys/fs/cgroup/cpu,cpuacct/batch/job/cpu.cfs_period_us", "100000\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "250000\n")
      .write("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
  root.write("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "6291456\n")
      .write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const GroupLimits limits = group_limits(root.path());
  CHECK_EQ(limits.processors, 3);
  CHECK_EQ(limits.memory_bytes, 6 * kMiB);
}

// Both cgroup versions are mounted: v1 has the controllers, and v2 only tracks processes.
TEST(limits_apply_with_both_versions_mounted) {
  Root root;
  root.write("/proc/self/cgroup", "4:memory:/job\n0::/job\n")
      .write("/proc/self/mountinfo", kMountsV1 + "40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4194304\n")
      .write("/sys/fs/cgroup/unified/job/cpu.max", "100000 100000\n");
  const GroupLimits limits = group_limits(root.path());
  CHECK_EQ(limits.processors, 1);
  CHECK_EQ(limits.memory_bytes, 4 * kMiB);
}

// Tests a container without its own cgroup namespace: the path of its cgroup is that of the host, and only part of the
// hierarchy is mounted.
TEST(a_group_path_is_relative_to_the_mounted_part) {
  const auto limit_with = [](const std::string& group, const std::string& top) {
    Root root;
    root.write("/proc/self/cgroup", "0::" + group + "\n")
        .write("/proc/self/mountinfo", "30 22 0:27 " + top + " /sys/fs/c\\040g rw - cgroup2 cgroup2 rw\n");
    root.write("/sys/fs/c g/memory.max", "8388608\n").write("/sys/fs/c g/inner/memory.max", "4194304\n");
    return group_limits(root.path()).memory_bytes;
  };
  CHECK_EQ(limit_with("/docker/1f", "/docker/1f"), 8 * kMiB);
  CHECK_EQ(limit_with("/docker/1f/inner", "/docker/1f"), 4 * kMiB);
  CHECK_EQ(limit_with("/docker/1f0/inner", "/docker/1f"), 8 * kMiB);  // The group is outside the mounted part.
  CHECK_EQ(limit_with("/../other/inner", "/"), 8 * kMiB);             // The group is outside the namespace.
  CHECK_EQ(limit_with("/inner", "/"), 4 * kMiB);
}

TEST(free_memory_of_a_group_includes_reclaimable_page_cache) {
  Root root;
  root.write("/proc/self/cgroup", "0::/a/b\n").write("/proc/self/mountinfo", kMountV2);
  root.write("/sys/fs/cgroup/a/b/memory.max", "10485760").write("/sys/fs/cgroup/a/b/memory.current", "6291456");
  root.write("/sys/fs/cgroup/a/b/memory.stat",
             "anon 4194304\nfile 2097152\ninactive_file 1048576\nactive_file 1048576\n");
  CHECK_EQ(group_limits(root.path()).free_memory_bytes, 6 * kMiB);
  // Sets the limit and the usage of the parent group "a", which is shared with other groups.
  root.write("/sys/fs/cgroup/a/memory.max", "20971520").write("/sys/fs/cgroup/a/memory.current", "19922944");
  CHECK_EQ(group_limits(root.path()).free_memory_bytes, 1 * kMiB);
  root.write("/sys/fs/cgroup/a/memory.current", "31457280");
  CHECK_EQ(group_limits(root.path()).free_memory_bytes, 0u);
  Root old;
  old.write("/proc/self/cgroup", "4:memory:/a\n")
      .write("/proc/self/mountinfo", kMountsV1)
      .write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "10485760");
  old.write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "6291456")
      .write("/sys/fs/cgroup/memory/a/memory.stat", "cache 9\ntotal_inactive_file 3145728\n");
  CHECK_EQ(group_limits(old.path()).free_memory_bytes, 7 * kMiB);
}

TEST(available_memory_is_the_machines_without_a_smaller_group_limit) {
  Root root;
  root.write("/proc/meminfo",
             "MemTotal:       8192 kB\nMemFree:   100 kB\nMemAvailable:    5120 kB\nHugePages_Total:       0\n");
  CHECK_EQ(machine_memory(root.path()).total, 8 * kMiB);
  CHECK_EQ(machine_memory(root.path()).available, 5 * kMiB);
  root.write("/sys/fs/cgroup/memory.max", "4194304").write("/sys/fs/cgroup/memory.current", "1048576");
  CHECK_EQ(machine_memory(root.path()).total, 4 * kMiB);
  CHECK_EQ(machine_memory(root.path()).available, 3 * kMiB);
}

TEST(strict_overcommit_reduces_available_memory) {
  Root root;
  root.write("/proc/meminfo",
             "MemTotal: 8192 kB\nMemAvailable: 5120 kB\nCommitLimit: 4096 kB\nCommitted_AS: 3072 kB\n");
  CHECK_EQ(machine_memory(root.path()).available, 5 * kMiB);
  root.write("/proc/sys/vm/overcommit_memory", "2\n");
  CHECK_EQ(machine_memory(root.path()).available, 1 * kMiB);
}

TEST(this_machine_has_memory_and_a_processor) {
  const MachineMemory memory = machine_memory();
  CHECK(memory.available > kMiB && memory.available <= memory.total);
  CHECK(usable_processors() >= 1);
}

TEST(memory_claims_add_up_and_are_released) {
  const uint64_t before = MemoryClaim::all();
  {
    MemoryClaim a(100), b;
    b.set(50);
    CHECK_EQ(MemoryClaim::all(), before + 150);
    a.set(30);
    CHECK_EQ(MemoryClaim::all(), before + 80);
    CHECK_EQ(a.bytes(), 30u);
  }
  CHECK_EQ(MemoryClaim::all(), before);
}
