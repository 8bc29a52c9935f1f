// Benchmark of the CPU matmuls, compared with the machine's memory bandwidth and clock rate, which are measured in the
// same run. For each weight type and number of tokens, the program prints:
//
// - the bytes of weights read per second, and their share of a plain read loop's rate, which limits matmuls with one
//   token
// - the multiply-adds per cycle and core, which limit matmuls with many tokens
//
// usage: matmul_bench [isa, or fast] [threads] [types, comma-separated] [numbers of tokens, comma-separated]
//                     [outputs and inputs of the matrix, comma-separated]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/half.h"
#include "base/memory_bandwidth.h"
#include "base/thread_pool.h"

namespace monolith {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Returns the clock rate of a core in cycles per second, measured with a chain of dependent 64-bit multiplications,
// which take three cycles each on every x86 core since 2010.
double cycles_per_second() {
  double best = 0;
  for (int attempt = 0; attempt < 9; ++attempt) {
    uint64_t x = 3;
    const double start = now();
    for (int i = 0; i < 1000000; ++i) {
      x = x * x;
      asm volatile("" : "+r"(x));
    }
    best = std::max(best, 3e6 / (now() - start));
  }
  return best;
}

// Returns random blocks with small scales, so that sums remain finite.
std::vector<std::byte> random_blocks(TensorType type, int64_t values) {
  const TensorTypeTraits& traits = traits_of(type);
  std::vector<std::byte> data(static_cast<size_t>(values / traits.block_values * traits.block_bytes));
  uint64_t state = 1;
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bits = type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16
                              ? 0x3c003c003c003c00u  // At most 1 in each of these formats.
                              : state ^ state >> 31;
    std::memcpy(&data[i], &bits, 8);
  }
  const auto put = [&](size_t first, const void* scale, size_t bytes) {
    for (size_t i = first; i + bytes <= data.size(); i += static_cast<size_t>(traits.block_bytes))
      std::memcpy(&data[i], scale, bytes);
  };
  const uint16_t halves[] = {float_to_half(0.01f), float_to_half(0.01f)};
  const uint8_t exponent = 120;
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kF8E4M3: break;  // F8_E4M3 is not measured.
    case TensorType::kMXFP4: put(0, &exponent, 1); break;
    case TensorType::kTQ1_0: put(52, halves, 2); break;
    case TensorType::kTQ2_0: put(64, halves, 2); break;
    case TensorType::kIQ1_M:
    case TensorType::kNVFP4: break;  // Arbitrary bits give values of similar magnitude.
    case TensorType::kQ2_K: put(80, halves, 4); break;
    case TensorType::kQ3_K: put(108, halves, 2); break;
    case TensorType::kQ6_K: put(208, halves, 2); break;
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K: put(0, halves, 4); break;
    default: put(0, halves, 2); break;
  }
  return data;
}

std::vector<std::string> split(const char* list) {
  std::vector<std::string> parts(1);
  for (; *list; ++list)
    if (*list == ',')
      parts.emplace_back();
    else
      parts.back() += *list;
  return parts;
}

int run(int argc, char** argv) {
  const char* isa = argc > 1 ? argv[1] : "auto";
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const auto types =
      split(argc > 3 ? argv[3] : "Q8_0,Q4_0,Q4_1,Q5_0,Q5_1,IQ4_NL,MXFP4,Q2_K,Q3_K,Q4_K,Q5_K,Q6_K,IQ4_XS,BF16,F16,F32");
  const auto rows = split(argc > 4 ? argv[4] : "1,4,16,32,128,512");
  const auto shape = split(argc > 5 ? argv[5] : "5632,2048");
  const int64_t n_rows_out = std::atoll(shape[0].c_str()),
                n_cols = shape.size() == 2 ? std::atoll(shape[1].c_str()) : 0;
  if (n_rows_out < 1 || n_cols < 256 || n_cols % 256 != 0 || n_rows_out > 1 << 20 || n_cols > 1 << 20) {
    std::fprintf(stderr, "the shape must be two numbers, and the second a multiple of 256\n");
    return 1;
  }
  // Successive calls cycle through kMatrices matrices, so that a matrix has left the CPU caches by the time it is used
  // again.
  constexpr int kMaxRows = 512, kMatrices = 16;

  const bool fast = std::string_view(isa) == "fast";
  auto backend = make_cpu_backend({.threads = threads,
                                   .isa = fast ? "auto" : isa,
                                   .arithmetic = fast ? Arithmetic::kFast : Arithmetic::kProduction});
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message.c_str());
    return 1;
  }
  Backend& cpu = **backend;
  const BackendInfo info = cpu.info();
  ThreadPool readers(info.threads);
  std::printf("isa %s, %d threads, matrices of %lld x %lld\n", info.isa.c_str(), info.threads,
              static_cast<long long>(n_rows_out), static_cast<long long>(n_cols));
  if (!cpu.reserve(kMaxRows, n_cols, 16, 64)) return 1;
  float* x = *cpu.allocate(kMaxRows * n_cols);
  float* out = *cpu.allocate(kMaxRows * n_rows_out);
  for (int64_t i = 0; i < kMaxRows * n_cols; ++i) x[i] = static_cast<float>(i * 7919 % 2001 - 1000) * 0.001f;

  for (const std::string& name : types) {
    const TensorTypeTraits* traits = nullptr;
    TensorType type{};
    for (uint32_t number = 0; number < 64; ++number)
      if (tensor_type_traits(number) && tensor_type_traits(number)->name == name) {
        traits = tensor_type_traits(number);
        type = static_cast<TensorType>(number);
      }
    if (!traits) continue;
    const std::vector<std::byte> data = random_blocks(type, n_rows_out * n_cols);
    std::vector<std::unique_ptr<Matrix>> matrices;
    const double load_start = now();
    for (int i = 0; i < kMatrices; ++i)
      matrices.push_back(cpu.matrix({.type = type, .rows = n_rows_out, .cols = n_cols, .data = data}).value());
    const double load = now() - load_start;
    const double bytes = static_cast<double>(matrices[0]->bytes);
    std::printf("%s: %.2f bits per weight, loaded at %.2f GB/s\n", name.c_str(), bytes * 8 / n_rows_out / n_cols,
                bytes * kMatrices / load / 1e9);
    for (const std::string& count : rows) {
      const int n_rows = std::atoi(count.c_str());
      if (n_rows < 1 || n_rows > kMaxRows) continue;
      const double read = read_bandwidth(readers.size(), size_t{256} << 20, 7).value(), hertz = cycles_per_second();
      double best = 1e9;
      cpu.begin_step({});
      const int repeats = n_rows < 64 ? 5 * kMatrices : 8;
      double start = now();
      for (int i = 0; i < repeats; ++i) {
        const MatmulTarget target{
            .weight = matrices[static_cast<size_t>(i % kMatrices)].get(), .out = out, .out_stride = n_rows_out};
        cpu.matmul({&target, 1}, x, RowCount::fixed(n_rows));
        const double end = now();
        best = std::min(best, end - start);
        start = end;
      }
      cpu.end_step();
      const double macs = static_cast<double>(n_rows_out) * n_cols * n_rows;
      std::printf(
          "  %4d tokens  %8.3f ms  %6.2f GB/s = %3.0f%% of a read loop's %.1f   %6.1f MAC/cycle/core at %.2f GHz\n",
          n_rows, best * 1e3, bytes / best / 1e9, bytes / best / read * 100, read / 1e9,
          macs / best / hertz / info.threads, hertz / 1e9);
    }
  }
  return 0;
}

}  // namespace
}  // namespace monolith

int main(int argc, char** argv) { return monolith::run(argc, argv); }
