// Benchmark of the vision encoder on the CPU: the CPU time of one run and of each operation in it. The encoder has the
// size of SigLIP so400m (896 x 896 pixels in 4096 patches of 14 x 14, width 1152, 16 heads, MLP width 4304), random F16
// weights and Gemma 3's projector. All layers have the same shape, so the time for all 27 can be estimated from a few.
//
//   encoder_bench [threads [layers [isa [image_size]]]]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "../../test/native/formats/gguf/gguf_builder.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/profiled_backend.h"
#include "base/half.h"
#include "vision/vision.h"

using namespace monolith;
using monolith::testing::Bytes;
using monolith::testing::GgufBuilder;

namespace {

constexpr uint64_t kPatch = 14, kWidth = 1152, kInner = 4304, kHeads = 16, kRow = 1152;

Bytes halves(uint64_t count, float scale) {
  Bytes bytes(count * 2);
  uint64_t state = count + 12345;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float unit = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f;
    const uint16_t half = float_to_half(scale * unit);
    std::memcpy(&bytes[2 * i], &half, 2);
  }
  return bytes;
}
Bytes floats(uint64_t count, float value) {
  Bytes bytes(count * 4);
  for (uint64_t i = 0; i < count; ++i) std::memcpy(&bytes[4 * i], &value, 4);
  return bytes;
}

Bytes encoder_file(uint32_t layers, uint32_t image) {
  GgufBuilder file;
  const float half[] = {0.5f, 0.5f, 0.5f};
  file.string("general.architecture", "clip").string("clip.projector_type", "gemma3");
  file.scalar("clip.use_gelu", true);
  const auto key = [&](const char* name, uint32_t value) { file.scalar("clip.vision." + std::string(name), value); };
  key("image_size", image), key("patch_size", kPatch), key("embedding_length", kWidth),
      key("feed_forward_length", kInner);
  key("block_count", layers), key("attention.head_count", kHeads);
  file.scalar("clip.vision.attention.layer_norm_epsilon", 1e-6f);
  file.array<float>("clip.vision.image_mean", std::span<const float>(half));
  file.array<float>("clip.vision.image_std", std::span<const float>(half));
  const auto matrix = [&](const std::string& name, uint64_t rows, uint64_t cols) {
    file.tensor(name + ".weight", TensorType::kF16, {cols, rows},
                halves(rows * cols, 2.0f / std::sqrt(static_cast<float>(cols))));
    file.tensor(name + ".bias", TensorType::kF32, {rows}, floats(rows, 0.01f));
  };
  const auto norm = [&](const std::string& name) {
    file.tensor(name + ".weight", TensorType::kF32, {kWidth}, floats(kWidth, 1.0f));
    file.tensor(name + ".bias", TensorType::kF32, {kWidth}, floats(kWidth, 0.0f));
  };
  const uint64_t side = image / kPatch;
  file.tensor("v.patch_embd.weight", TensorType::kF16, {kPatch, kPatch, 3, kWidth},
              halves(3 * kPatch * kPatch * kWidth, 0.05f));
  file.tensor("v.patch_embd.bias", TensorType::kF32, {kWidth}, floats(kWidth, 0.0f));
  file.tensor("v.position_embd.weight", TensorType::kF32, {kWidth, side * side}, floats(kWidth * side * side, 0.02f));
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string at = "v.blk." + std::to_string(i) + ".";
    norm(at + "ln1"), norm(at + "ln2");
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_out"}) matrix(at + name, kWidth, kWidth);
    matrix(at + "ffn_up", kInner, kWidth), matrix(at + "ffn_down", kWidth, kInner);
  }
  norm("v.post_ln");
  file.tensor("mm.soft_emb_norm.weight", TensorType::kF32, {kWidth}, floats(kWidth, 1.0f));
  file.tensor("mm.input_projection.weight", TensorType::kF16, {kRow, kWidth}, halves(kRow * kWidth, 0.05f));
  return file.build();
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1, layers = argc > 2 ? std::atoi(argv[2]) : 2;
  const std::string isa = argc > 3 ? argv[3] : "auto";
  const int image = argc > 4 ? std::atoi(argv[4]) : 896;
  const Bytes bytes = encoder_file(static_cast<uint32_t>(layers), static_cast<uint32_t>(image));
  const auto file = GgufFile::parse(bytes);
  if (!file) return std::printf("%s\n", file.error().message.c_str()), 1;
  const auto model = VisionModel::load(**file, {});
  if (!model) return std::printf("%s\n", model.error().message.c_str()), 1;
  auto plain = make_cpu_backend({.threads = threads, .isa = isa});
  if (!plain) return std::printf("%s\n", plain.error().message.c_str()), 1;
  const auto profile = std::make_shared<StepProfile>();
  auto backend = make_profiled_backend(std::move(*plain), profile);
  auto encoder = VisionEncoder::load(**file, *model, *backend);
  if (!encoder) return std::printf("%s\n", encoder.error().message.c_str()), 1;
  std::vector<uint8_t> pixels(static_cast<size_t>(1600) * 1200 * 3);
  std::mt19937 random(1);
  for (uint8_t& byte : pixels) byte = static_cast<uint8_t>(random());
  double began = processor_seconds();
  const auto plan = (*model)->plan(1600, 1200);
  const auto pieces = (*model)->prepare(*plan, {1600, 1200, pixels});
  std::printf("%s, %d threads, %d layers, %d pixels; preprocessing of 1600 x 1200 took %.1f ms\n",
              backend->info().isa.c_str(), threads, layers, image, 1e3 * (processor_seconds() - began));
  began = processor_seconds();
  const double clock = seconds();
  const auto run = (*encoder)->begin((*pieces)[0]);
  const auto work = static_cast<double>(run->total());
  while (!run->advance(INT64_MAX)) {
  }
  const double took = processor_seconds() - began;
  std::printf("%.2f s CPU time, %.2f s wall time: %.1f G multiplications per CPU second; 27 layers: %.1f s CPU time\n",
              took, seconds() - clock, work / took * 1e-9, took * 27 / layers);
  double rest = took;
  for (const OpFigures& figures : profile->read()) {
    const double spent = 1e-9 * static_cast<double>(figures.nanoseconds);
    rest -= spent;
    std::printf("  %-28s %8.3f s", figures.name.c_str(), spent);
    if (figures.operations > 0) std::printf("  %6.1f Gflop/s", 1e-9 * static_cast<double>(figures.operations) / spent);
    std::printf("\n");
  }
  std::printf("  %-28s %8.3f s (attention, patches, positions; CPU time, valid only with one thread)\n", "not profiled",
              rest);
  return 0;
}
