// Benchmark of the CPU attention kernels for every SIMD instruction set, and for engine.arithmetic fast, without the
// rest of the model. Decode is reported as a share of the memory bandwidth that a plain read loop reaches in the same
// run, prefill in Gflop/s. Successive kernel calls cycle through the layers of a large KV cache, so that keys and
// values are read from memory rather than from a CPU cache, as in a real step.
//
//   attention_bench [threads [name [isa [seconds [cpu]]]]]
//
// Prints one table with the cases whose name contains `name`. An empty `isa` means all instruction sets. Each case runs
// for at least `seconds`. Reported times are the 20th percentile over all calls. With `cpu`, times are the CPU time of
// the process, which is meaningful with one thread on a machine whose cores are shared with other programs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/machine/peak.h"
#include "base/memory_bandwidth.h"
#include "base/thread_pool.h"

using namespace monolith;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool measures_cpu_time = false;
double now() {
  if (!measures_cpu_time) return seconds();
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double least_seconds = 0.5;  // Minimum measuring time per case in seconds.

struct Case {
  const char* name;
  int n_heads, n_kv_heads, head_dim;
  KvType type;
  int n_sequences, n_tokens, depth;  // Each sequence computes n_tokens new tokens after `depth` positions in the cache.
  int others_depth = -1;             // Depth of all sequences except the last; -1: `depth`.
  int window = 0;
  // For latent attention (MLA): how many of the head_dim elements of a latent row form the value; 0 = separate keys and
  // values.
  int value_dim = 0;
};

void measure(const Case& c, CpuIsa isa, Arithmetic arithmetic, int threads, double bandwidth, double peak) {
  const int context = c.depth + c.n_tokens, pages_each = (context + kPageTokens - 1) / kPageTokens;
  const int64_t n_pages = int64_t{pages_each} * c.n_sequences;
  const auto shape_of = [&](int n_layers) {
    KvShape shape = KvShape::of_equal_layers(n_layers, c.n_kv_heads, c.head_dim, n_pages, c.type);
    for (LayerState& layer : shape.layers)
      if (c.value_dim > 0) layer.kind = StateKind::kLatents, layer.value_dim = c.value_dim;
    return shape;
  };
  const size_t layer_bytes = CpuKvCache::bytes_for(shape_of(1));
  const int n_layers = static_cast<int>(std::max<size_t>(2, (size_t{160} << 20) / layer_bytes));
  const KvShape shape = shape_of(n_layers);
  auto made = CpuKvCache::create(shape);
  if (!made) return void(std::printf("%s\n", made.error().message.c_str()));
  CpuKvCache& cache = **made;
  // Write the memory first: unwritten memory maps to a single page of zeros, which stays in the CPU's caches.
  std::memset(cache.layer(0).n_kv_heads > 0 && c.value_dim == 0 ? cache.layer(0).keys.data : cache.layer(0).values.data,
              0, cache.bytes);
  // Interleave the sequences' pages, as if the sequences had grown concurrently.
  std::vector<int32_t> pages(shape.n_pages);
  for (int64_t i = 0; i < shape.n_pages; ++i)
    pages[i] = static_cast<int32_t>(i % pages_each * c.n_sequences + i / pages_each);
  std::vector<Segment> segments;
  for (int s = 0; s < c.n_sequences; ++s)
    segments.push_back({s * c.n_tokens, c.n_tokens,
                        c.others_depth < 0 || s == c.n_sequences - 1 ? c.depth : c.others_depth,
                        pages.data() + s * pages_each});
  const int n_rows = c.n_sequences * c.n_tokens;
  const int64_t q_dim = int64_t{c.n_heads} * c.head_dim;
  const int64_t out_dim = c.value_dim > 0 ? int64_t{c.n_heads} * c.value_dim : q_dim;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> q(n_rows * q_dim), out(q.size());
  for (float& x : q) x = normal(random);
  CpuBackend backend(isa, threads, arithmetic);
  if (!backend.reserve(n_rows, q_dim, context, c.head_dim, {})) std::abort();

  // The 20th percentile excludes most calls that were slowed down by other programs on the machine.
  std::vector<double> times;
  backend.begin_step({});
  for (const double start = seconds(); times.size() < 40 || seconds() - start < least_seconds;) {
    const int layer = static_cast<int>(times.size()) % n_layers;
    const double before = now();
    backend.attention({segments,
                       q.data(),
                       q_dim,
                       c.n_heads,
                       layer,
                       cache,
                       {.scale = 0.125f, .window = c.window},
                       out.data(),
                       out_dim});
    times.push_back(now() - before);
  }
  backend.end_step();
  std::sort(times.begin(), times.end());
  const double best = times[times.size() / 5];
  double seen = 0;  // Attended positions, summed over all query tokens.
  for (const Segment& segment : segments)
    for (int i = 1; i <= segment.n_tokens; ++i)
      seen += c.window > 0 ? std::min(segment.first_position + i, c.window) : segment.first_position + i;
  const double flops = 2.0 * seen * (q_dim + out_dim);
  const std::string name = arithmetic == Arithmetic::kFast ? "fast" : std::string(cpu_isa_name(isa));
  std::printf("%-8s %-36s %9.1f us/layer %7.1f Gflop/s", name.c_str(), c.name, best * 1e6, flops / best * 1e-9);
  if (peak > 0) std::printf(", %3.0f%% of peak", 100 * flops / best / peak);
  if (c.n_tokens == 1 && c.others_depth < 0 && c.window == 0)
    std::printf(" %6.1f GB/s, %3.0f%% of a read loop", double(layer_bytes) / best * 1e-9,
                100 * double(layer_bytes) / best / bandwidth);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = std::max(1, argc > 1 ? std::atoi(argv[1]) : 2);
  if (argc > 4) least_seconds = std::atof(argv[4]);
  measures_cpu_time = argc > 5 && std::strcmp(argv[5], "cpu") == 0;
  const double bandwidth = read_bandwidth(threads, size_t{256} << 20, 5).value();
  std::printf("%d threads, read loop %.1f GB/s\n", threads, bandwidth * 1e-9);
  const KvType f16 = KvType::kF16, f32 = KvType::kF32, q8 = KvType::kQ8_0, q4 = KvType::kQ4_0, q5 = KvType::kQ5_0;
  const Case cases[] = {
      {"decode 32/4x64 @4096 f16", 32, 4, 64, f16, 1, 1, 4095},
      {"decode 32/8x128 @4096 f16", 32, 8, 128, f16, 1, 1, 4095},
      {"decode 32/32x128 @4096 f16", 32, 32, 128, f16, 1, 1, 4095},
      {"decode 32/8x128 @4096 f32", 32, 8, 128, f32, 1, 1, 4095},
      {"decode 32/4x64 @4096 q8_0", 32, 4, 64, q8, 1, 1, 4095},
      {"decode 32/8x128 @4096 q8_0", 32, 8, 128, q8, 1, 1, 4095},
      {"decode 32/32x128 @4096 q8_0", 32, 32, 128, q8, 1, 1, 4095},
      {"decode 28/4x128 @4096 f16", 28, 4, 128, f16, 1, 1, 4095},
      {"decode 32/4x64 @128 f16", 32, 4, 64, f16, 1, 1, 127},
      {"decode 16 x 32/4x64 @512", 32, 4, 64, f16, 16, 1, 511},
      {"decode 8 x 32/4x64 @4096 f16", 32, 4, 64, f16, 8, 1, 4095},
      {"decode 8 x 32/8x128 @4096 f16", 32, 8, 128, f16, 8, 1, 4095},
      {"decode 8 x 32/4x64 @4096 q8_0", 32, 4, 64, q8, 8, 1, 4095},
      {"decode 8 x 32/8x128 @4096 q8_0", 32, 8, 128, q8, 8, 1, 4095},
      {"decode 32/4x64 @16384 f16", 32, 4, 64, f16, 1, 1, 16383},
      {"decode 32/8x128 @16384 q8_0", 32, 8, 128, q8, 1, 1, 16383},
      {"decode 32/8x128 @16384 q5_0", 32, 8, 128, q5, 1, 1, 16383},
      {"decode 32/8x128 @16384 q4_0", 32, 8, 128, q4, 1, 1, 16383},
      {"decode 32/8x128 @16384 f16", 32, 8, 128, f16, 1, 1, 16383},
      {"decode 32/4x64 @16384 q8_0", 32, 4, 64, q8, 1, 1, 16383},
      {"decode 32/4x64 @16384 q5_0", 32, 4, 64, q5, 1, 1, 16383},
      {"decode 32/4x64 @16384 q4_0", 32, 4, 64, q4, 1, 1, 16383},
      {"decode 32/32x128 @16384 q8_0", 32, 32, 128, q8, 1, 1, 16383},
      {"decode 32/32x128 @16384 q5_0", 32, 32, 128, q5, 1, 1, 16383},
      {"decode 32/32x128 @16384 q4_0", 32, 32, 128, q4, 1, 1, 16383},
      {"decode 8 x 32/8x128 @16384 q8_0", 32, 8, 128, q8, 8, 1, 16383},
      {"decode 8 x 32/8x128 @16384 q5_0", 32, 8, 128, q5, 8, 1, 16383},
      {"decode 8 x 32/8x128 @16384 q4_0", 32, 8, 128, q4, 8, 1, 16383},
      {"prefill 32 32/8x128 @16384 q8_0", 32, 8, 128, q8, 1, 32, 16384},
      {"prefill 32 32/8x128 @16384 q5_0", 32, 8, 128, q5, 1, 32, 16384},
      {"prefill 32 32/8x128 @16384 q4_0", 32, 8, 128, q4, 1, 32, 16384},
      {"decode 32/8x128 @16384 window 1024", 32, 8, 128, f16, 1, 1, 16383, -1, 1024},
      {"decode 8/1x128 @16384 with 31 @64", 8, 1, 128, f16, 32, 1, 16383, 63},
      {"prefill 256 32/4x64 @0", 32, 4, 64, f16, 1, 256, 0},
      {"prefill 256 32/4x64 @1024", 32, 4, 64, f16, 1, 256, 1024},
      {"prefill 256 32/8x128 @1024", 32, 8, 128, f16, 1, 256, 1024},
      {"prefill 256 32/4x64 @1024 q8_0", 32, 4, 64, q8, 1, 256, 1024},
      {"prefill 256 32/8x128 @1024 q8_0", 32, 8, 128, q8, 1, 256, 1024},
      {"prefill 256 16/16x80 @256", 16, 16, 80, f16, 1, 256, 256},
      {"decode latents 16x576 @32768 f16", 16, 1, 576, f16, 1, 1, 32767, -1, 0, 512},
      {"decode latents 16x576 @32768 q8_0", 16, 1, 576, q8, 1, 1, 32767, -1, 0, 512},
      {"decode latents 128x576 @32768 f16", 128, 1, 576, f16, 1, 1, 32767, -1, 0, 512},
      {"decode latents 16x576 @1024 f16", 16, 1, 576, f16, 1, 1, 1023, -1, 0, 512},
      {"decode latents 16x576 @1024 q8_0", 16, 1, 576, q8, 1, 1, 1023, -1, 0, 512},
      {"decode latents 16x576 @512 f16", 16, 1, 576, f16, 1, 1, 511, -1, 0, 512},
      {"decode latents 16x576 @2048 f16", 16, 1, 576, f16, 1, 1, 2047, -1, 0, 512},
      {"decode latents 16x576 @8192 f16", 16, 1, 576, f16, 1, 1, 8191, -1, 0, 512},
      {"decode latents 20x576 @32768 f16", 20, 1, 576, f16, 1, 1, 32767, -1, 0, 512},
      {"decode latents 64x576 @32768 f16", 64, 1, 576, f16, 1, 1, 32767, -1, 0, 512},
      {"decode 16/2x256 @32768 f16", 16, 2, 256, f16, 1, 1, 32767},
      {"decode 32/8x128 @32768 f16", 32, 8, 128, f16, 1, 1, 32767},
      {"decode 8/2x64 @32768 f16", 8, 2, 64, f16, 1, 1, 32767},
      {"decode 8/2x128 @32768 f16", 8, 2, 128, f16, 1, 1, 32767},
      {"decode 32/2x128 @32768 f16", 32, 2, 128, f16, 1, 1, 32767},
      {"decode 8/2x256 @32768 f16", 8, 2, 256, f16, 1, 1, 32767},
      {"decode latents 2x576 @32768 f16", 2, 1, 576, f16, 1, 1, 32767, -1, 0, 512},
      {"prefill 256 16/2x256 @1024 f16", 16, 2, 256, f16, 1, 256, 1024},
      {"prefill latents 256 16x576 @1024 f16", 16, 1, 576, f16, 1, 256, 1024, -1, 0, 512},
      {"prefill latents 256 16x576 @1024 q8_0", 16, 1, 576, q8, 1, 256, 1024, -1, 0, 512},
  };
  struct Kernels {
    CpuIsa isa;
    Arithmetic arithmetic;
    double peak;
  };
  std::vector<Kernels> all;
  for (const CpuIsa isa : available_cpu_isas()) {
    // Skip CpuIsa::kPlain, the portable code without SIMD, which is two orders of magnitude slower.
    if (isa == CpuIsa::kPlain || (argc > 3 && argv[3][0] != '\0' && cpu_isa_name(isa) != argv[3])) continue;
    const double peak = measure_peak(isa, threads, 5).float32;
    all.push_back({isa, Arithmetic::kProduction, peak});
    if (isa == CpuIsa::kAmx) all.push_back({isa, Arithmetic::kFast, peak});
  }
  for (const Case& c : cases)
    for (const Kernels& kernels : all)
      if (argc < 3 || std::strstr(c.name, argv[2]))
        measure(c, kernels.isa, kernels.arithmetic, threads, bandwidth, kernels.peak);
  return 0;
}
