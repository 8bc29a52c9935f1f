// Shared by all parts of the GPU benchmark: options, results, the clock and random data. Single-threaded.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/device/runtime.h"
#include "formats/gguf/tensor_type.h"

namespace monolith::bench {

struct Options {
  int device = 0;
  bool tiny = false;  // Use sizes for the emulator, to check that the benchmark works.
  bool kernels = true, models = true;
  // Peak rate of 16-bit matmuls in TFLOP/s; 0 = use the best measured rate. The peak rate of 8-bit matmuls is twice as
  // high.
  double tflops = 0;
  double seconds = 400;  // No new measurement starts after this many seconds.
  std::string filter;    // Measure only kernels and models whose name contains this text.
};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// The arithmetic unit that may limit a kernel's speed, besides the memory bandwidth: none, or the matrix unit with
// 16-bit or 8-bit operands.
enum class Unit : uint8_t { kNone, kHalf, kByte };

struct KernelResult {
  std::string family, name;
  int64_t rows;    // Rows of activations: columns of a matmul, tokens, or sampling tasks.
  double seconds;  // Median time per call.
  double bytes;    // Minimum memory traffic: each operand and each result once.
  double operations;
  Unit unit;
};

struct ModelResult {
  std::string model;  // The weight type, for example "Q4_K".
  std::string phase;  // "decode" or "prefill".
  int streams;
  int64_t tokens;                           // Tokens per step.
  bool recording, invariant, early_launch;  // The CudaBackendOptions members of the same names.
  double step_seconds;  // Time per step: tables, kernels, greedy sampling and the download of the tokens.
  double weight_bytes;  // Bytes of weights that every step reads: all except the embedding table.
  double host_seconds;  // Time until the host has submitted a whole step to an idle device.
};

struct Results {
  double copy_bytes_per_second = 0;    // Bandwidth of device-to-device copies: the sum of reads and writes.
  double upload_bytes_per_second = 0;  // Bandwidth of uploads from page-locked host memory.
  std::vector<KernelResult> kernels;
  std::vector<ModelResult> models;
  std::vector<std::string> left_out;  // Measurements that were skipped, with the reason.
};

class Clock {
 public:
  explicit Clock(double seconds) : end_(now() + seconds) {}
  bool is_over() const { return now() > end_; }

 private:
  double end_;
};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }
  // Returns an approximately normally distributed number with standard deviation `deviation`: the scaled sum of four
  // uniform numbers.
  float number(float deviation) {
    const uint64_t bits = next();
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
    return sum * deviation * 1.732f;
  }

 private:
  uint64_t state_;
};

// Returns `n` blocks in the file format of `type`. All bits are random, except that scales are small and finite.
std::vector<std::byte> random_blocks(TensorType type, size_t n, uint64_t seed);

// Allocates device memory for `n` floats, which is freed with the runtime. random_floats() also fills it with random
// numbers. Both throw std::runtime_error if there is not enough memory.
float* random_floats(cuda::Runtime& runtime, int64_t n, float deviation, uint64_t seed);
float* floats(cuda::Runtime& runtime, int64_t n);

// Returns the median time of `call(i)` in seconds. `i` is the index of the call; the calls cycle through `sets` sets of
// inputs. Many calls are captured in a CUDA graph and replayed, so that the host's launch overhead is not measured.
double time_calls(cuda::Runtime& runtime, const Options& options, int sets, const std::function<void(int)>& call);

void measure_kernels(const Options& options, const Clock& clock, Results& results);
void measure_mixtures(const Options& options, const Clock& clock, Results& results);
void measure_models(const Options& options, const Clock& clock, Results& results);

}  // namespace monolith::bench
