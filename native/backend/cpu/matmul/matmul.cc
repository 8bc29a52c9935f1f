// The matmul driver (see matmul.h). A call is split as follows:
// - Rows are split into tiles of nearly equal size, at most max_tile_rows each. A kernel call covers one tile.
// - Panels (16 outputs each) are split into groups that stay in the L2 cache while all tiles use them.
// - A task is one group of one target's panels times one range of tiles. Threads take tasks dynamically.
//
// If there are more rows than fit in one tile, and all types have pair kernels, the pair kernels are used, with smaller
// tiles and two panels per call. Each of these calls also prefetches part of the group of panels that its thread will
// probably take next. This keeps the memory busy during all tiles, not only during the first one.
//
// With AMX and enough rows, if the tile kernels support all types, each group of panels is expanded for the tile unit
// and multiplied by up to 16 rows (kFast: 32) per call (tiles.h).
//
// On a machine with several NUMA nodes, the threads of a node first take the tasks whose panels are in its memory.
//
// With a single tile, a task is a contiguous range of memory, and a thread's tasks are adjacent. Whenever a thread
// continues elsewhere in memory, the first cache lines arrive late. Measured on Zen 5 with Q4_K, on two cores with a
// read bandwidth of 66 GB/s: threads that alternate between 128 KiB tasks reach 75% of the bandwidth, threads with 1
// MiB tasks reach 90%, and threads that each process one half of the memory reach 98%.
#include "backend/cpu/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matmul/kernel_choice.h"
#include "backend/cpu/matmul/row_tiles.h"

namespace monolith {
namespace {

// Weights per task: half of the smallest L2 cache among the supported processors (Zen 4: 1 MiB per core).
constexpr int64_t kGroupBytes = 512 * 1024;
// Like kGroupBytes, but for pair kernels, for which the L2 cache also holds the next group of panels.
constexpr int64_t kPairGroupBytes = 256 * 1024;
// Weights per task in decode. A core reads 32 KiB from memory in about a microsecond, which limits how long the other
// threads wait for the last one to finish. Small tasks have no other cost, because a thread's tasks are adjacent in
// memory.
constexpr int64_t kStreamBytes = 32 * 1024;
// Tasks per thread: enough for dynamic scheduling to balance the load.
constexpr int64_t kTasksPerThread = 4;
// Maximum number of targets that are split into tasks together. Any further targets are computed afterwards.
constexpr size_t kMaxTargets = 8;
// A matmul that reads at most this many bytes is faster on one thread: reading 64 KiB from the L2 cache takes about as
// long as starting a parallel section.
constexpr int64_t kProductAlone = 64 * 1024;
// Below this number of values, packing on one thread is faster than in a separate parallel section.
constexpr int64_t kPackAlone = 16 * 1024;

const CpuMatrix& cpu_matrix(const MatmulTarget& target) { return static_cast<const CpuMatrix&>(*target.weight); }

// How one target is split into tasks.
struct Tasks {
  int64_t panels_per_group, groups;
  int tiles_per_range, ranges;
  int64_t count() const { return groups * ranges; }
};

// Prefetches the next group of panels, spread over the kernel calls for the current group. The threads of a node
// process groups in rotation, so the distance from a thread's current group to its next one equals the number of the
// node's threads.
struct Ahead {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  int64_t step = 0;  // Bytes that one call prefetches.
  int lines = 0;     // Cache lines per 32 columns.

  Ahead(const CpuMatrix& matrix, const Tasks& tasks, int64_t first_panel, int64_t last_panel, int tiles, int threads) {
    const int64_t begin_panel = first_panel + tasks.panels_per_group * threads;
    if (tasks.ranges > 1 || begin_panel >= matrix.n_panels()) return;
    const int64_t panels = std::min(tasks.panels_per_group, matrix.n_panels() - begin_panel);
    const int64_t bytes = panels * static_cast<int64_t>(matrix.layout().records);
    const int64_t line_bytes = static_cast<int64_t>(kLineBytes), blocks = (matrix.cols + 31) / 32;
    const int64_t calls = tiles * ((last_panel - first_panel + 1) / 2);
    at = matrix.panel(begin_panel);
    end = at + bytes;
    lines = static_cast<int>((bytes / line_bytes + calls * blocks - 1) / (calls * blocks));
    step = lines * blocks * line_bytes;
  }

  const std::byte* next() {
    const std::byte* const from = at;
    if (at == nullptr) return from;
    at += step;
    if (from >= end) lines = 0;
    return from;
  }
};

struct Product {
  const MatmulKernels& kernels;
  const MatmulScratch& scratch;
  std::span<const MatmulTarget> targets;
  const Tiles& tiles;
  int64_t cols, all_panels;
  const ThreadPool& pool;
  KernelKind kernel_kind;
  std::array<Tasks, kMaxTargets> cuts = {};  // One entry per target.

  ActivationKind kind(const MatmulTarget& target) const {
    return activation_kind(kernels, kernel_kind, cpu_matrix(target).layout().type);
  }

  Tasks cut(const CpuMatrix& matrix) const {
    const bool pairs = kernel_kind == KernelKind::kPair;
    const TileKernels* const of_tiles = tile_kernels(kernels, kernel_kind);
    const int64_t budget = tiles.count == 1 ? kStreamBytes : pairs ? kPairGroupBytes : kGroupBytes;
    const int64_t by_cache = of_tiles != nullptr ? panels_per_tile_group(*of_tiles, matrix.layout(), tiles.n_rows)
                                                 : budget / static_cast<int64_t>(matrix.layout().bytes());
    const int64_t by_balance = pool.size() == 1 ? all_panels : all_panels / (kTasksPerThread * pool.size());
    Tasks tasks;
    tasks.panels_per_group = std::clamp<int64_t>(std::min(by_cache, by_balance), 1, matrix.n_panels());
    if (pairs) tasks.panels_per_group += tasks.panels_per_group % 2;
    tasks.groups = (matrix.n_panels() + tasks.panels_per_group - 1) / tasks.panels_per_group;
    // With many threads and few groups, the rows are divided among tasks as well.
    const int64_t wanted = pool.size() == 1 ? 1 : (kTasksPerThread * pool.size() + tasks.groups - 1) / tasks.groups;
    const int ranges = static_cast<int>(std::clamp<int64_t>(wanted, 1, tiles.count));
    tasks.tiles_per_range = (tiles.count + ranges - 1) / ranges;
    tasks.ranges = (tiles.count + tasks.tiles_per_range - 1) / tasks.tiles_per_range;
    return tasks;
  }

  void pack(ActivationKind kind, const float* x, int first, int last) const {
    const size_t row_bytes = static_cast<size_t>(lines_per_row(kind, cols)) * kLineBytes;
    for (int row = first; row < last; ++row) {
      const int tile = tiles.tile_of(row), tile_row = tiles.first_row(tile);
      std::byte* const lines = scratch.lines(kind) + static_cast<size_t>(tile_row) * row_bytes;
      kernels.pack[static_cast<int>(kind)](x + row * cols, cols,
                                           lines + static_cast<size_t>(row - tile_row) * kLineBytes,
                                           static_cast<size_t>(tiles.rows(tile)) * kLineBytes);
    }
  }

  void compute(const MatmulTarget& target, const Tasks& tasks, int64_t task, int thread) const {
    const CpuMatrix& matrix = cpu_matrix(target);
    const int64_t first_panel = task / tasks.ranges * tasks.panels_per_group;
    const int64_t last_panel = std::min(first_panel + tasks.panels_per_group, matrix.n_panels());
    const int first_tile = static_cast<int>(task % tasks.ranges) * tasks.tiles_per_range;
    const int last_tile = std::min(first_tile + tasks.tiles_per_range, tiles.count);
    const ActivationKind wanted = kind(target);
    const size_t row_bytes = static_cast<size_t>(lines_per_row(wanted, cols)) * kLineBytes;
    if (const TileKernels* const of_tiles = tile_kernels(kernels, kernel_kind)) {
      const int64_t first_out = first_panel * kPanelRows;
      const int64_t next = first_panel + tasks.panels_per_group * pool.threads_on_node_of(thread);
      const int64_t next_panels =
          tasks.ranges > 1 ? 0 : std::clamp<int64_t>(matrix.n_panels() - next, 0, tasks.panels_per_group);
      return multiply_tiles(*of_tiles,
                            {.matrix = matrix,
                             .first_panel = first_panel,
                             .n_panels = static_cast<int>(last_panel - first_panel),
                             .lanes = static_cast<int>(std::min(last_panel * kPanelRows, matrix.rows) - first_out),
                             .lines = scratch.lines(wanted),
                             .row_bytes = row_bytes,
                             .tiles = tiles,
                             .first_tile = first_tile,
                             .last_tile = last_tile,
                             .out = target.out + first_out,
                             .out_stride = target.out_stride,
                             .bias = target.bias ? target.bias + first_out : nullptr,
                             .add_to_out = target.add_to_out,
                             .next_weights = next_panels > 0 ? matrix.panel(next) : nullptr,
                             .next_bytes = next_panels * static_cast<int64_t>(matrix.layout().records)},
                            scratch.tiles(thread));
    }
    const int type = panel_type_index(matrix.layout().type);
    const PanelKernel kernel = kernels.panel[type],
                      pair_kernel = kernel_kind == KernelKind::kPair ? kernels.pair[type] : nullptr;
    Ahead ahead(matrix, tasks, first_panel, last_panel, last_tile - first_tile, pool.threads_on_node_of(thread));
    for (int tile = first_tile; tile < last_tile; ++tile) {
      const int64_t row = tiles.first_row(tile);
      for (int64_t panel = first_panel, width; panel < last_panel; panel += width) {
        width = pair_kernel != nullptr && panel + 1 < last_panel ? 2 : 1;
        const int64_t first_out = panel * kPanelRows;
        run_tile(width == 2 ? pair_kernel : kernel,
                 {.panel = matrix.panel(panel),
                  .block_scales = matrix.block_scales(panel),
                  .layout = &matrix.layout(),
                  .lines = scratch.lines(wanted) + static_cast<size_t>(row) * row_bytes,
                  .n_rows = tiles.rows(tile),
                  .lanes = static_cast<int>(std::min<int64_t>(width * kPanelRows, matrix.rows - first_out)),
                  .out = target.out + row * target.out_stride + first_out,
                  .out_stride = target.out_stride,
                  .bias = target.bias ? target.bias + first_out : nullptr,
                  .add_to_out = target.add_to_out,
                  .ahead = ahead.next(),
                  .ahead_lines = ahead.lines},
                 matrix.factors(panel));
      }
    }
  }

  // Returns the end of a NUMA node's tasks of target `i`. Node k computes the groups of panels that are in its own
  // memory (CpuMatrix::divide_among_nodes).
  int64_t node_end(size_t i, int node) const { return pool.node_end(node, cuts[i].groups) * cuts[i].ranges; }

  NodeShares shares() const {
    NodeShares shares;
    for (int node = 0; node < pool.n_nodes(); ++node) {
      int64_t n = 0;
      for (size_t i = 0; i < targets.size(); ++i) n += node_end(i, node) - node_end(i, node - 1);
      shares.add(n);
    }
    return shares;
  }

  // Computes one task. Tasks are numbered by node and, within a node, in target order.
  void compute(int64_t task, int thread) const {
    for (int node = 0; node < pool.n_nodes(); ++node)
      for (size_t i = 0; i < targets.size(); ++i) {
        const int64_t begin = node_end(i, node - 1), count = node_end(i, node) - begin;
        if (task < count) return compute(targets[i], cuts[i], begin + task, thread);
        task -= count;
      }
  }
};

}  // namespace

// Prefetch distances, measured with one row and weights in memory, on two cores. On Zen 5, (0, 4096) was fastest for
// all types: Q8_0 reached 76 GB/s, compared with 71 at (8192, 4096) and 64 at (16384, 2048). On Zen 4, (8192, 2048) was
// 4 to 44% faster than (0, 4096), except for BF16, which gained nothing. Longer distances brought no further gain. For
// types whose loads guide the hardware prefetcher, Zen 4 reaches 53 GB/s with (8192, 0) and 41 GB/s with (8192, 2048).
// This does not apply to K-quants: with (8192, 0), a single core streams a large Q4_K matrix at 27 rather than 21 GB/s,
// but MoE layers lose 5%, because each small expert starts with a cold prefetcher.
const StreamDistances kStreamLed = cpu_is_zen4() ? StreamDistances{8192, 0} : StreamDistances{0, 4096};
const StreamDistances kStreamDistances = cpu_is_zen4() ? StreamDistances{8192, 2048} : StreamDistances{0, 4096};

const MatmulKernels& matmul_kernels(CpuIsa isa, Arithmetic arithmetic) {
  assert(cpu_has(isa));
  static_cast<void>(arithmetic);  // Makes a difference only with AMX.
#if defined(__x86_64__)
  static const MatmulKernels with_bf16 = [] {
    MatmulKernels kernels = kAvx512Matmul;
    kernels.pack[static_cast<int>(ActivationKind::kBf16)] = kAvx512Bf16.pack;
    kernels.activation[panel_type_index(TensorType::kBF16)] = ActivationKind::kBf16;
    kernels.panel[panel_type_index(TensorType::kBF16)] = kAvx512Bf16.panel;
    return kernels;
  }();
  static std::atomic<uint64_t> calls_with_amx{0};
  static const MatmulKernels with_amx = [] {
    MatmulKernels kernels = with_bf16;
    kernels.name = "amx";
    kernels.calls = &calls_with_amx;
    kernels.tiles = &kAmxTiles;
    return kernels;
  }();
  static const MatmulKernels fast = [] {
    MatmulKernels kernels = with_amx;
    kernels.fast_tiles = &kAmxFastTiles;
    kernels.min_fast_rows = 64;
    return kernels;
  }();
  static std::atomic<uint64_t> calls_with_vnni{0};
  static const MatmulKernels with_vnni = [] {
    MatmulKernels kernels = kAvx2Matmul;
    kernels.name = "avx_vnni";
    kernels.calls = &calls_with_vnni;
    for (int type = 0; type < kPanelTypes; ++type)
      if (kAvxVnniPanels[type] != nullptr) kernels.panel[type] = kAvxVnniPanels[type];
    return kernels;
  }();
  if (isa == CpuIsa::kAmx) return arithmetic == Arithmetic::kFast ? fast : with_amx;
  if (isa == CpuIsa::kAvx512) return cpu_has_avx512_bf16() ? with_bf16 : kAvx512Matmul;
  if (isa == CpuIsa::kAvxVnni) return with_vnni;
  if (isa == CpuIsa::kAvx2) return kAvx2Matmul;
#elif defined(__aarch64__)
  if (isa == CpuIsa::kNeon) return kNeonMatmul;
  if (isa == CpuIsa::kNeonI8mm) return kNeonI8mmMatmul;
#endif
  return kPlainMatmul;
}

namespace {

size_t area_bytes(int kind, int max_rows, int64_t max_cols) {
  // The tile kernels read up to three lines past the last packed line.
  const int64_t lines = lines_per_row(static_cast<ActivationKind>(kind), max_cols) * max_rows + 3;
  return static_cast<size_t>(lines) * kLineBytes;
}

}  // namespace

size_t MatmulScratch::bytes_for(int max_rows, int64_t max_cols, int tile_threads) {
  size_t bytes = static_cast<size_t>(tile_threads) * tile_scratch_bytes(max_cols);
  for (int kind = 0; kind < kActivationKinds; ++kind) bytes += area_bytes(kind, max_rows, max_cols);
  return bytes;
}

Status MatmulScratch::reserve(int max_rows, int64_t max_cols, int tile_threads) {
  for (int kind = 0; kind < kActivationKinds; ++kind) {
    // The mapping is not touched here, so the system allocates its pages only on first use.
    auto area = Mapping::create(area_bytes(kind, max_rows, max_cols));
    if (!area) return area.error();
    areas_[kind] = std::move(*area);
  }
  tile_bytes_ = tile_scratch_bytes(max_cols);
  if (tile_threads > 0) {
    auto tiles = Mapping::create(static_cast<size_t>(tile_threads) * tile_bytes_);
    if (!tiles) return tiles.error();
    tiles_ = std::move(*tiles);
  }
  max_rows_ = max_rows;
  max_cols_ = max_cols;
  return {};
}

void cpu_matmul(const MatmulKernels& kernels, ThreadPool& pool, const MatmulScratch& scratch,
                std::span<const MatmulTarget> targets, const float* x, int n_rows) {
  for (; targets.size() > kMaxTargets; targets = targets.subspan(kMaxTargets))
    cpu_matmul(kernels, pool, scratch, targets.first(kMaxTargets), x, n_rows);
  if (targets.empty() || n_rows <= 0) return;
  const int64_t cols = targets[0].weight->cols;
  assert(scratch.holds(n_rows, cols));
  kernels.calls->fetch_add(1, std::memory_order_relaxed);
  KernelChoice choice(kernels, n_rows);
  for (const MatmulTarget& target : targets) choice.add(cpu_matrix(target).layout().type, target.never_fast);
  const Tiles tiles = split_rows(kernels, choice.kind(), n_rows);
  Product product{kernels, scratch, targets, tiles, cols, 0, pool, choice.kind()};

  bool wanted[kActivationKinds] = {};
  for (const MatmulTarget& target : targets) {
    assert(target.weight->cols == cols);
    product.all_panels += cpu_matrix(target).n_panels();
    wanted[static_cast<int>(product.kind(target))] = true;
  }
  for (int kind = 0; kind < kActivationKinds; ++kind) {
    if (!wanted[kind]) continue;
    const auto pack = [&](int64_t first, int64_t last, int) {
      product.pack(static_cast<ActivationKind>(kind), x, static_cast<int>(first), static_cast<int>(last));
    };
    if (n_rows * cols <= kPackAlone)
      pack(0, n_rows, 0);
    else
      pool.parallel_for(n_rows, std::max<int64_t>(1, kPackAlone / 4 / cols), pack);
  }

  int64_t tasks = 0, work = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const CpuMatrix& matrix = cpu_matrix(targets[i]);
    product.cuts[i] = product.cut(matrix);
    tasks += product.cuts[i].count();
    work += matrix.n_panels() * static_cast<int64_t>(matrix.layout().bytes()) * tiles.count;
  }
  const auto compute = [&](int64_t task, int thread) { product.compute(task, thread); };
  if (work <= kProductAlone)
    for (int64_t task = 0; task < tasks; ++task) compute(task, 0);
  else if (tiles.count == 1)
    pool.parallel_runs(product.shares(), compute);
  else
    pool.parallel_by_node(product.shares(), compute);
}

// The packed lines of a row of activations are those of all of its heads. Within a tile, the lines of head h for all
// rows follow those of head h - 1.
void cpu_matmul_heads(const MatmulKernels& kernels, ThreadPool& pool, const MatmulScratch& scratch,
                      const BatchedMatmul& products, int n_rows) {
  if (n_rows <= 0) return;
  const CpuMatrix& matrix = static_cast<const CpuMatrix&>(*products.weight);
  const int64_t n_heads = products.n_heads, cols = matrix.cols;
  const int64_t head_panels = matrix.n_panels() / n_heads, used_panels = (products.rows + kPanelRows - 1) / kPanelRows;
  assert(matrix.rows % (n_heads * kPanelRows) == 0 && used_panels <= head_panels);
  kernels.calls->fetch_add(1, std::memory_order_relaxed);
  const int type = panel_type_index(matrix.layout().type);
  const ActivationKind kind = kernels.activation[type];
  const Tiles tiles(n_rows, kernels.max_tile_rows);
  const int64_t row_lines = lines_per_row(kind, cols);
  assert(scratch.fits(kind, n_rows * n_heads * row_lines));
  const auto lines_of = [&](int64_t head, int tile) {
    const int64_t before = tiles.first_row(tile) * n_heads + head * tiles.rows(tile);
    return scratch.lines(kind) + static_cast<size_t>(before * row_lines) * kLineBytes;
  };
  const auto pack = [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      const int row = static_cast<int>(i / n_heads), tile = tiles.tile_of(row);
      kernels.pack[static_cast<int>(kind)](
          products.x + row * products.x_stride + i % n_heads * products.x_head_stride, cols,
          lines_of(i % n_heads, tile) + static_cast<size_t>(row - tiles.first_row(tile)) * kLineBytes,
          static_cast<size_t>(tiles.rows(tile)) * kLineBytes);
    }
  };
  const int64_t n_parts = n_rows * n_heads;
  if (n_parts * cols <= kPackAlone)
    pack(0, n_parts, 0);
  else
    pool.parallel_for(n_parts, std::max<int64_t>(1, kPackAlone / 4 / cols), pack);

  const auto panel_bytes = static_cast<int64_t>(matrix.layout().bytes());
  const int64_t by_cache = (tiles.count == 1 ? kStreamBytes : kGroupBytes) / panel_bytes;
  const int64_t by_balance = pool.size() == 1 ? used_panels : n_heads * used_panels / (kTasksPerThread * pool.size());
  const int64_t group_panels = std::clamp<int64_t>(std::min(by_cache, by_balance), 1, used_panels);
  const int64_t groups = (used_panels + group_panels - 1) / group_panels, tasks = n_heads * groups;
  const auto compute = [&](int64_t task) {
    const int64_t head = task / groups, first = task % groups * group_panels,
                  last = std::min(first + group_panels, used_panels);
    for (int tile = 0; tile < tiles.count; ++tile)
      for (int64_t panel = first; panel < last; ++panel)
        run_tile(kernels.panel[type],
                 {.panel = matrix.panel(head * head_panels + panel),
                  .block_scales = matrix.block_scales(head * head_panels + panel),
                  .layout = &matrix.layout(),
                  .lines = lines_of(head, tile),
                  .n_rows = tiles.rows(tile),
                  .lanes = static_cast<int>(std::min<int64_t>(kPanelRows, products.rows - panel * kPanelRows)),
                  .out = products.out + tiles.first_row(tile) * products.out_stride + head * products.out_head_stride +
                         panel * kPanelRows,
                  .out_stride = products.out_stride,
                  .bias = nullptr,
                  .add_to_out = false},
                 matrix.factors(head * head_panels + panel));
  };
  if (n_heads * used_panels * panel_bytes * tiles.count <= kProductAlone)
    for (int64_t task = 0; task < tasks; ++task) compute(task);
  else if (tiles.count == 1)
    pool.parallel_runs(tasks, [&](int64_t task, int) { compute(task); });
  else
    pool.parallel_for(tasks, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) compute(task);
    });
}

}  // namespace monolith
