// Tests that vision encoders of small files produce bit-identical results regardless of how a run is split, the number
// of threads and the instruction set. The results must also equal results that were recorded with a version for which
// all vision vectors passed.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/encoder_operations.h"
#include "base/half.h"
#include "check.h"
#include "formats/gguf/quantize.h"
#include "vision/tiny_vision.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

struct Seen {
  ImagePlan plan;
  std::vector<std::vector<float>> rows;  // Embeddings of each image part.
};

struct Asked {
  int width = 150, height = 100, threads = 1;  // By default, an image with two of Qwen2.5-VL's attention windows.
  std::string_view isa = "auto";
  int64_t budget = INT64_MAX;
  VisionPrecision precision = VisionPrecision::kFast;
  int n_advances = 0;  // Output: number of advance() calls.
};

Seen see(const TinyModel& model, Asked& asked) {
  Seen seen;
  const ParsedModel parsed(model);
  auto vision = VisionModel::load(*parsed.file, {});
  auto backend = make_cpu_backend({.threads = asked.threads, .isa = asked.isa});
  if (!vision || !backend) return check::fail(__FILE__, __LINE__, vision ? "no backend" : vision.error().message), seen;
  auto encoder = VisionEncoder::load(*parsed.file, *vision, **backend, asked.precision);
  if (!encoder) return check::fail(__FILE__, __LINE__, encoder.error().message), seen;
  CHECK(VisionEncoder::weight_bytes(*parsed.file, **vision, **backend, asked.precision) > 0);
  CHECK(VisionEncoder::work_bytes(*parsed.file, **vision, **backend, asked.precision) > 0);
  const auto pixels = striped_picture(asked.width, asked.height);
  seen.plan = *(*vision)->plan(asked.width, asked.height);
  const auto pieces = (*vision)->prepare(seen.plan, {asked.width, asked.height, pixels});
  if (!pieces) return check::fail(__FILE__, __LINE__, pieces.error().message), seen;
  for (const PreparedPiece& piece : *pieces) {
    const auto run = (*encoder)->begin(piece);
    int64_t left = run->total();
    for (++asked.n_advances; !run->advance(asked.budget); ++asked.n_advances) {
      CHECK(run->left() < left && run->left() > 0);
      left = run->left();
    }
    CHECK_EQ(run->left(), 0);
    seen.rows.push_back(run->take_rows());
  }
  return seen;
}
Seen see(const TinyModel& model) {
  Asked asked;
  return see(model, asked);
}

bool same_bits(const Seen& a, const Seen& b) {
  if (a.rows.size() != b.rows.size()) return false;
  for (size_t i = 0; i < a.rows.size(); ++i)
    if (a.rows[i].size() != b.rows[i].size() ||
        std::memcmp(a.rows[i].data(), b.rows[i].data(), a.rows[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

// LLaVA with an encoder that has no class embedding (such as SigLIP).
TinyVision without_class_vector() {
  TinyVision model("mlp");
  model.tensors.erase("v.class_embd");
  --model.tensors["v.position_embd.weight"].dims[1];
  return model;
}

// For each kind of encoder, a few numbers from the embeddings of the last image part: the first number of the first
// row, the second of the middle row, the last of the last row, and the sum of all numbers.
struct Known {
  const char* type;
  double numbers[4];
};
constexpr Known kKnown[] = {
    {"idefics3", {-0.776785, -1.154894, 1.086885, -5.865475}},
    {"gemma3", {1.594043, -1.346998, -0.138275, -0.058840}},
    {"qwen2.5vl_merger", {-0.234579, -0.373673, -0.131630, -4.403050}},
    {"qwen3vl_merger", {-0.437110, -0.798636, -0.154966, 2.500244}},
    {"pixtral", {-0.072372, -0.462683, -0.412313, -5.147239}},
    {"internvl", {-0.770332, 0.079482, 0.830397, 1.440819}},
    {"mlp", {-0.610321, -0.431819, -0.450580, -2.314407}},
    {"mlp of SigLIP", {-0.607079, -0.433058, -0.177196, -2.181497}},
    {"lfm2", {0.338827, -0.366849, -0.686920, -4.963681}},
    {"gemma4v", {-0.275207, 0.285222, 0.201574, 5.186644}},
    {"kimik25", {-1.183543, -0.112560, -0.067255, -8.229033}},
};

}  // namespace

TEST(vision_encoders_do_not_depend_on_the_split) {
  for (const char* type : kProjectorNames) {
    const TinyVision model(type);
    const Seen whole = see(model);
    for (size_t i = 0; i < whole.rows.size(); ++i)
      CHECK_EQ(whole.rows[i].size(), static_cast<size_t>(whole.plan.pieces[i].n_rows * whole.plan.row_width));
    Asked cut{.threads = 3, .budget = 1};
    CHECK(same_bits(see(model, cut), whole));
    CHECK(cut.n_advances > static_cast<int>(whole.rows.size()));
    Asked some{.threads = 2, .budget = 1 << 21};
    CHECK(same_bits(see(model, some), whole));
    for (const CpuIsa isa : available_cpu_isas()) {
      Asked other{.isa = cpu_isa_name(isa)};
      if (!same_bits(see(model, other), whole))
        check::fail(__FILE__, __LINE__, std::string(type) + " on " + std::string(other.isa));
    }
  }
}

TEST(a_norm_without_a_bias_is_a_layer_norm_whose_bias_is_zero) {
  TinyVision zeros("idefics3"), none("idefics3");
  for (const char* name : {"v.blk.0.ln1.bias", "v.blk.1.ln2.bias", "v.post_ln.bias"}) {
    zeros.tensors[name].scale = 0;
    none.tensors.erase(name);
  }
  CHECK(same_bits(see(none), see(zeros)));
  CHECK(!same_bits(see(none), see(TinyVision("idefics3"))));
}

TEST(vision_encoders_match_recorded_results) {
  for (const Known& known : kKnown) {
    const Seen seen =
        see(std::string_view(known.type) == "mlp of SigLIP" ? without_class_vector() : TinyVision(known.type));
    REQUIRE(!seen.rows.empty());
    const std::vector<float>& rows = seen.rows.back();
    const auto width = static_cast<size_t>(seen.plan.row_width), n_rows = rows.size() / width;
    double sum = 0;
    for (const float number : rows) sum += number;
    const double got[] = {rows[0], rows[n_rows / 2 * width + 1], rows.back(),
                          sum / std::sqrt(static_cast<double>(rows.size()))};
    for (size_t i = 0; i < std::size(got); ++i)
      if (!(std::abs(got[i] - known.numbers[i]) <= 1e-4)) {
        char text[200];
        std::snprintf(text, sizeof text, "%s: {%.6f, %.6f, %.6f, %.6f}", known.type, got[0], got[1], got[2], got[3]);
        check::fail(__FILE__, __LINE__, text);
        break;
      }
  }
}

// The vision vectors do not cover Qwen2-VL. Its encoder is like that of Qwen3-VL, but without learned positions,
// deepstack mergers and patch bias, and with a different activation.
TEST(qwen2_vl_is_qwen3_vl_without_positions_and_deepstack) {
  TinyVision third("qwen3vl_merger");
  std::erase_if(third.tensors, [](const auto& one) { return one.first.starts_with("v.deepstack."); });
  third.tensors.erase("v.patch_embd.bias");
  TinyVision second = third;
  third.tensors["v.position_embd.weight"].data.assign(third.floats("v.position_embd.weight").size() * sizeof(float),
                                                      std::byte{0});
  second.tensors.erase("v.position_embd.weight");
  second.keys["clip.projector_type"] = std::string("qwen2vl_merger");
  CHECK(same_bits(see(second), see(third)));
  second.keys.erase("clip.use_gelu");
  CHECK(!same_bits(see(second), see(third)));
}

// Returns the model with every matrix rounded to type `stored`, which is F16 or BF16.
TinyVision in_sixteen_bits(const char* type, TensorType stored) {
  TinyVision model(type);
  for (auto& [name, tensor] : model.tensors) {
    if (tensor.dims.size() < 2 || name.starts_with("v.position")) continue;
    const std::vector<float> numbers = model.floats(name);
    tensor.type = stored;
    tensor.data.clear();
    for (const float x : numbers)
      put(tensor.data, stored == TensorType::kF16 ? float_to_half(x) : float_to_bfloat16(x));
  }
  return model;
}

// Returns the root mean square difference, in standard deviations.
double distance(const Seen& a, const Seen& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < a.rows.size(); ++i)
    for (size_t j = 0; j < a.rows[i].size(); ++j) {
      error += std::pow(a.rows[i][j] - b.rows[i][j], 2);
      size += std::pow(b.rows[i][j], 2);
    }
  return std::sqrt(error / size);
}

TEST(fast_vision_encoders_have_16_bit_precision_with_any_split) {
  const auto backend = make_cpu_backend({});
  REQUIRE(backend.ok());
  const bool has_integers = (*backend)->supports(Fixed16Heads{64}).ok();
  for (const char* type : kProjectorNames)
    for (const TensorType stored : {TensorType::kF16, TensorType::kBF16}) {
      const TinyVision model = in_sixteen_bits(type, stored);
      Asked exactly{.precision = VisionPrecision::kExact}, fast, cut{.threads = 3, .budget = 1}, plain{.isa = "plain"};
      const Seen exact = see(model, exactly), whole = see(model, fast);
      const double error = distance(whole, exact);
      if (!(error < 1e-3) || (has_integers ? error == 0 : error != 0))
        check::fail(__FILE__, __LINE__, std::string(type) + ": " + std::to_string(error));
      CHECK(same_bits(see(model, cut), whole));
      CHECK(same_bits(see(model, plain), exact));  // The portable kernels do not use integer arithmetic.
      if (std::getenv("MONOLITH_TELL"))
        std::printf("%s %s %.2e\n", type, stored == TensorType::kF16 ? "F16" : "BF16", error);
    }
}

TEST(vision_encoders_accept_quantized_weights) {
  for (const char* type : kProjectorNames) {
    const Seen exact = see(TinyVision(type));
    for (const auto& [stored, most] :
         {std::pair{TensorType::kF16, 5e-3}, std::pair{TensorType::kBF16, 4e-2}, std::pair{TensorType::kQ8_0, 8e-2}}) {
      TinyVision model(type);
      for (auto& [name, tensor] : model.tensors) {
        if (tensor.dims.size() < 2 || name.starts_with("v.position")) continue;
        const std::vector<float> numbers = model.floats(name);
        if (stored == TensorType::kQ8_0) {
          if (tensor.dims[0] % 32 != 0) continue;  // Q8_0 needs whole blocks of 32 values.
          tensor.type = stored;
          tensor.data.resize(numbers.size() / 32 * 34);
          quantize(stored, numbers.data(), static_cast<int64_t>(numbers.size()), tensor.data.data());
          continue;
        }
        tensor.type = stored;
        for (const float x : numbers)
          put(tensor.data, stored == TensorType::kF16 ? float_to_half(x) : float_to_bfloat16(x));
      }
      const Seen seen = see(model);
      REQUIRE(seen.rows.size() == exact.rows.size());
      double error = 0, size = 0;
      for (size_t i = 0; i < seen.rows.size(); ++i)
        for (size_t j = 0; j < seen.rows[i].size(); ++j) {
          error += std::pow(seen.rows[i][j] - exact.rows[i][j], 2);
          size += std::pow(exact.rows[i][j], 2);
        }
      CHECK(error > 0 && std::sqrt(error / size) < most);
    }
  }
}
