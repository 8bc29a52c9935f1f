// What all parts of the GPU bench share: options, results, the clock, random data. One thread.
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
  bool tiny = false;  // sizes for the emulator, to see that the bench itself works
  bool kernels = true, models = true;
  double tflops = 0;     // ceiling of 16-bit products; 0: the best product seen. 8-bit ones get twice that
  double seconds = 400;  // nothing new is begun after that
  std::string filter;    // kernels and models whose name contains it
};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// What bounds a kernel besides memory.
enum class Unit : uint8_t { kNone, kHalf, kByte };  // no matrix unit; products of 16 bits; of 8 bits

struct KernelResult {
  std::string family, name;
  int64_t rows;    // of activations: columns of the product, tokens, tasks
  double seconds;  // median of one call
  double bytes;    // that must be moved at least: each operand and result once
  double operations;
  Unit unit;
};

struct ModelResult {
  std::string model;  // of its weights' type
  std::string phase;  // "decode", "prefill"
  int streams;
  int64_t tokens;                           // of a step
  bool recording, invariant, early_launch;  // CudaBackendOptions
  double step_seconds;                      // of a whole step: tables, kernels, greedy sampling, the answer at the host
  double weight_bytes;                      // that every step reads: all but the embedding table
  double host_seconds;                      // of the host until it has asked for all of a step, the device idle before
};

struct Results {
  double copy_bytes_per_second = 0;    // device to device, reads and writes together
  double upload_bytes_per_second = 0;  // from page-locked memory
  std::vector<KernelResult> kernels;
  std::vector<ModelResult> models;
  std::vector<std::string> left_out;  // what was not measured, and why
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
  // About a normal distribution of this deviation: a sum of four.
  float number(float deviation) {
    const uint64_t bits = next();
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffff) / 65536.0f - 0.5f;
    return sum * deviation * 1.732f;
  }

 private:
  uint64_t state_;
};

// `n` blocks of a type as a file has them: every bit random, scales small and finite.
std::vector<std::byte> random_blocks(TensorType type, size_t n, uint64_t seed);

// Device memory with random floats, freed with the runtime. Throws std::runtime_error where there is none left.
float* random_floats(cuda::Runtime& runtime, int64_t n, float deviation, uint64_t seed);
float* floats(cuda::Runtime& runtime, int64_t n);

// Median seconds of one `call(i)`, i counting the calls: many are recorded together and played, so that the host's
// part of a launch is not measured.
double time_calls(cuda::Runtime& runtime, const Options& options, int sets, const std::function<void(int)>& call);

void measure_kernels(const Options& options, const Clock& clock, Results& results);
void measure_mixtures(const Options& options, const Clock& clock, Results& results);
void measure_models(const Options& options, const Clock& clock, Results& results);

}  // namespace monolith::bench
