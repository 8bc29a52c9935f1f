#include "gpu/measure.h"

#include <cstring>
#include <memory>
#include <stdexcept>

namespace monolith::bench {
namespace {

constexpr double kRunSeconds = 5e-3;  // Approximate duration of the calls that are captured in one CUDA graph.
constexpr int kMaxCalls = 400;

void put_half(std::byte* at, uint64_t bits) {
  // A positive value in [2^-9, 2^-5).
  const auto half = static_cast<uint16_t>((bits & 0x03ff) | (6 + ((bits >> 10) & 3)) << 10);
  std::memcpy(at, &half, sizeof half);
}

// Returns the byte offsets of the binary16 scales in a block.
std::vector<size_t> scales_of(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
    case TensorType::kQ4_0: return {0};
    case TensorType::kQ4_K:
    case TensorType::kQ5_K: return {0, 2};
    case TensorType::kQ6_K: return {208};
    default: return {};
  }
}

}  // namespace

std::vector<std::byte> random_blocks(TensorType type, size_t n, uint64_t seed) {
  const auto block = static_cast<size_t>(traits_of(type).block_bytes);
  std::vector<std::byte> bytes(n * block);
  Random random(seed);
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t bits = random.next();
    // 16-bit types: mantissa and sign are random, and magnitudes are in [2^-7, 2^-3).
    if (type == TensorType::kBF16) bits = (bits & 0x81ff81ff81ff81ffu) | 0x3c003c003c003c00u;
    if (type == TensorType::kF16) bits = (bits & 0x8fff8fff8fff8fffu) | 0x2000200020002000u;
    std::memcpy(&bytes[at], &bits, sizeof bits);
  }
  for (; at < bytes.size(); ++at) bytes[at] = std::byte{0x21};
  if (type == TensorType::kF32)
    for (size_t i = 0; i < n; ++i) {
      const float value = 1 + random.number(0.1f);
      std::memcpy(&bytes[i * block], &value, sizeof value);
    }
  if (type == TensorType::kMXFP4)  // Scales are powers of two from 2^-9 to 2^-6.
    for (size_t i = 0; i < n; ++i) bytes[i * block] = static_cast<std::byte>(118 + random.next() % 4);
  for (const size_t place : scales_of(type))
    for (size_t i = 0; i < n; ++i) put_half(&bytes[i * block + place], random.next() >> 20);
  return bytes;
}

float* floats(cuda::Runtime& runtime, int64_t n) {
  auto memory = runtime.allocate(static_cast<size_t>(n) * sizeof(float));
  if (!memory) throw std::runtime_error(memory.error().message);
  return static_cast<float*>(*memory);
}

float* random_floats(cuda::Runtime& runtime, int64_t n, float deviation, uint64_t seed) {
  float* const to = floats(runtime, n);
  // Repeats one sequence of random numbers. Its length is not a multiple of any row length, so rows differ.
  std::vector<float> run(static_cast<size_t>(std::min<int64_t>(n, 4194301)));
  Random random(seed);
  for (float& value : run) value = random.number(deviation);
  const auto length = static_cast<int64_t>(run.size());
  for (int64_t at = 0; at < n; at += length)
    runtime.upload(to + at, run.data(), static_cast<size_t>(std::min(length, n - at)) * sizeof(float));
  runtime.synchronize();
  return to;
}

double time_calls(cuda::Runtime& runtime, const Options& options, int sets, const std::function<void(int)>& call) {
  for (int i = 0; i < sets; ++i) call(i);  // Warm-up: one-time setup and cold caches.
  runtime.synchronize();
  const double before = now();
  for (int i = 0; i < sets; ++i) call(i);
  runtime.synchronize();
  const double one = std::max((now() - before) / sets, 1e-7);
  int calls = options.tiny ? sets : std::clamp(static_cast<int>(kRunSeconds / one), sets, std::max(sets, kMaxCalls));
  calls = (calls + sets - 1) / sets * sets;
  runtime.begin_recording(true);
  for (int i = 0; i < calls; ++i) call(i);
  const auto recording = runtime.end_recording();
  const auto run = [&] {
    if (recording) return runtime.play(**recording);
    for (int i = 0; i < calls; ++i) call(i);
  };
  run();
  runtime.synchronize();
  std::vector<double> times;
  for (int i = 0; i < (options.tiny ? 1 : 7); ++i) {
    const double start = now();
    run();
    runtime.synchronize();
    times.push_back((now() - start) / calls);
  }
  return median(times);
}

}  // namespace monolith::bench
