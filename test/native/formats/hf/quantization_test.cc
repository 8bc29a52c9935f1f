// Tests quantized checkpoints, which are generated here according to the published formats. Every value must be exact,
// and invalid settings must be rejected with an error that names them. FP8: DeepSeek-V3's inference/kernel.py
// (weight_dequant) and transformers' finegrained_fp8.py. GPTQ: AutoGPTQ's qlinear_cuda.py. AWQ: AutoAWQ's
// packing_utils.py. compressed-tensors: its pack_quantized.py (pack_to_int32).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/float8.h"
#include "base/half.h"
#include "check.h"
#include "formats/gguf/assembled_file.h"
#include "formats/gguf/quantize.h"
#include "formats/hf/folder.h"
#include "support/hf_folder.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

constexpr int64_t kOut = 48, kIn = 128;
constexpr const char* kStem = "model.layers.0.mlp.down_proj";

uint32_t state = 5;
uint32_t next() { return state = state * 1664525 + 1013904223; }
uint32_t below(uint32_t n) { return (next() >> 8) % n; }

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct Folder {
  std::string quantization;  // The quantization_config in config.json.
  std::vector<SafetensorData> tensors = {};
  int64_t out = kOut, in = kIn;
  std::vector<float> want = {};  // Expected values of the matrix, as [out, in].
  float scale = 1;               // Scale of the whole matrix.
};

std::string config_of(const Folder& folder) {
  return R"({"architectures":["LlamaForCausalLM"],"hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"
         R"("num_key_value_heads":1,"intermediate_size":8,"max_position_embeddings":64,"rms_norm_eps":1e-5,"head_dim":4,)"
         R"("quantization_config":)" +
         folder.quantization + "}";
}

Result<std::unique_ptr<GgufFile>> open(const std::string& config, const std::string& safetensors) {
  const ScratchFolder scratch;
  scratch.write("config.json", config);
  scratch.write("tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                                  R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  scratch.write("model.safetensors", safetensors);
  return hf::open_folder(scratch.path());
}

std::vector<SafetensorData> with_table(std::vector<SafetensorData> tensors) {
  tensors.push_back({"model.embed_tokens.weight", "F32", {2, 4}, std::string(32, '\0')});
  return tensors;
}

std::vector<float> values_of(const GgufFile& file, const GgufTensor& tensor, int64_t first, int64_t rows) {
  const size_t row = tensor.bytes() / static_cast<size_t>(tensor.n_values() / tensor.shape[0]);
  std::vector<std::byte> scratch;
  const auto data = file.read(tensor, static_cast<size_t>(first) * row, static_cast<size_t>(rows) * row, scratch);
  std::vector<float> values(static_cast<size_t>(rows * tensor.shape[0]));
  dequantize(tensor.type, data.data(), rows * tensor.shape[0], values.data());
  return values;
}

void expect_values(const Folder& folder, TensorType type, const std::string& what) {
  const auto file = open(config_of(folder), safetensors_of(with_table(folder.tensors)));
  if (!file) return check::fail(__FILE__, __LINE__, what + ": " + file.error().message);
  const GgufTensor* tensor = (*file)->tensor("blk.0.ffn_down.weight");
  if (tensor == nullptr) return check::fail(__FILE__, __LINE__, what + ": no matrix");
  if (tensor->type != type)
    check::fail(__FILE__, __LINE__, what + ": stored as " + std::string(traits_of(tensor->type).name));
  CHECK(tensor->shape[0] == folder.in && tensor->shape[1] == folder.out);
  const GgufTensor* const scale = (*file)->tensor("blk.0.ffn_down.scale");
  // The result must not contain any of the checkpoint's auxiliary tensors.
  CHECK((*file)->tensors().size() == (folder.scale == 1 ? 2 : 3));
  CHECK((scale == nullptr ? 1 : values_of(**file, *scale, 0, 1)[0]) == folder.scale);
  if (values_of(**file, *tensor, 0, folder.out) != folder.want)
    check::fail(__FILE__, __LINE__, what + ": wrong values");
  // Reading only some of the rows must return the same values.
  const auto some = values_of(**file, *tensor, 3, 20);
  CHECK(std::equal(some.begin(), some.end(), folder.want.begin() + 3 * folder.in));
}

enum class Zeros { kMiddle, kAny };
enum class Groups { kInOrder, kShuffled };

struct Integers {
  int bits;
  int64_t group;
  Zeros zeros;
  Groups groups = Groups::kInOrder;
  bool scales_beyond_half = false;  // BF16 scales that F16 cannot represent.
};

// The codes, zero points and scales of a matrix, and the values that they represent.
struct Numbers {
  Integers form;
  // `codes` has [in * out] elements, `zeros` has [groups * out], and `group_of` has [in].
  std::vector<uint32_t> codes, zeros, group_of;
  std::vector<uint16_t> scales;  // [groups * out], as F16 or BF16.
  int64_t groups;
  std::vector<float> want;

  float scale(int64_t group, int64_t output) const {
    const uint16_t bits = scales[static_cast<size_t>(group * kOut + output)];
    return form.scales_beyond_half ? bfloat16_to_float(bits) : half_to_float(bits);
  }
};

Numbers some_numbers(const Integers& form, uint32_t least_zero) {
  Numbers n{form, {}, {}, {}, {}, kIn / form.group, {}};
  const uint32_t range = 1u << form.bits, middle = range / 2;
  for (int64_t i = 0; i < kIn * kOut; ++i) n.codes.push_back(below(range));
  for (int64_t i = 0; i < n.groups * kOut; ++i) {
    n.zeros.push_back(form.zeros == Zeros::kMiddle ? middle : least_zero + below(range));
    const float scale = 0.001f + 0.0001f * static_cast<float>(below(100));
    n.scales.push_back(form.scales_beyond_half ? float_to_bfloat16(scale * 1e-6f) : float_to_half(scale));
  }
  for (int64_t i = 0; i < kIn; ++i)
    n.group_of.push_back(form.groups == Groups::kShuffled ? below(static_cast<uint32_t>(n.groups))
                                                          : static_cast<uint32_t>(i / form.group));
  for (int64_t o = 0; o < kOut; ++o)
    for (int64_t i = 0; i < kIn; ++i) {
      const auto g = static_cast<int64_t>(n.group_of[static_cast<size_t>(i)]);
      const int difference = static_cast<int>(n.codes[static_cast<size_t>(i * kOut + o)]) -
                             static_cast<int>(n.zeros[static_cast<size_t>(g * kOut + o)]);
      n.want.push_back(static_cast<float>(difference) * n.scale(g, o));
    }
  return n;
}

// Packs `rows` x `cols` values into 32-bit words. Each word holds `per` values from consecutive columns, with the first
// value in the lowest bits.
std::string packed(int64_t rows, int64_t cols, int bits, const std::function<uint32_t(int64_t, int64_t)>& value) {
  const int64_t per = 32 / bits;
  std::vector<uint32_t> words;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; col += per) {
      uint32_t word = 0;
      for (int64_t i = 0; i < per && col + i < cols; ++i) word |= value(row, col + i) << (i * bits);
      words.push_back(word);
    }
  return bytes_of(words);
}

std::string transposed_words(const std::string& bytes, int64_t rows, int64_t cols) {
  std::string out(bytes.size(), '\0');
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      bytes.copy(out.data() + (j * rows + i) * 4, 4, static_cast<size_t>((i * cols + j) * 4));
  return out;
}

Folder gptq(const Integers& form, bool second_format) {
  const Numbers n = some_numbers(form, second_format ? 0 : 1);
  const int64_t per = 32 / form.bits;
  const uint32_t less = second_format ? 0 : 1;
  const auto code = [&](int64_t o, int64_t i) { return n.codes[static_cast<size_t>(i * kOut + o)]; };
  const auto zero = [&](int64_t g, int64_t o) { return n.zeros[static_cast<size_t>(g * kOut + o)] - less; };
  const std::string stem = kStem;
  return {R"({"quant_method":"gptq","bits":)" + std::to_string(form.bits) + R"(,"group_size":)" +
              std::to_string(form.group) + R"(,"sym":false,"desc_act":true)" +
              (second_format ? R"(,"checkpoint_format":"gptq_v2"})" : "}"),
          {{stem + ".qweight",
            "I32",
            {kIn / per, kOut},
            transposed_words(packed(kOut, kIn, form.bits, code), kOut, kIn / per)},
           {stem + ".qzeros", "I32", {n.groups, kOut / per}, packed(n.groups, kOut, form.bits, zero)},
           {stem + ".scales", form.scales_beyond_half ? "BF16" : "F16", {n.groups, kOut}, bytes_of(n.scales)},
           {stem + ".g_idx", "I32", {kIn}, bytes_of(n.group_of)}},
          kOut,
          kIn,
          n.want};
}

Folder awq(const Integers& form) {
  constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const Numbers n = some_numbers(form, 0);
  const auto dealt = [&](const std::vector<uint32_t>& values) {
    return [&values, &kOrder](int64_t row, int64_t col) {
      return values[static_cast<size_t>(row * kOut + col / 8 * 8 + kOrder[col % 8])];
    };
  };
  const std::string stem = kStem;
  return {R"({"quant_method":"awq","bits":4,"group_size":)" + std::to_string(form.group) +
              R"(,"zero_point":true,"version":"gemm"})",
          {{stem + ".qweight", "I32", {kIn, kOut / 8}, packed(kIn, kOut, 4, dealt(n.codes))},
           {stem + ".qzeros", "I32", {n.groups, kOut / 8}, packed(n.groups, kOut, 4, dealt(n.zeros))},
           {stem + ".scales", "F16", {n.groups, kOut}, bytes_of(n.scales)}},
          kOut,
          kIn,
          n.want};
}

Folder compressed(const Integers& form) {
  const Numbers n = some_numbers(form, 0);
  const int64_t per = 32 / form.bits;
  std::vector<uint16_t> scales;
  for (int64_t o = 0; o < kOut; ++o)
    for (int64_t g = 0; g < n.groups; ++g) scales.push_back(n.scales[static_cast<size_t>(g * kOut + o)]);
  const std::string stem = kStem;
  Folder folder{
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{)"
      R"("num_bits":)" +
          std::to_string(form.bits) + R"(,"type":"int","strategy":"group"}}}})",
      {{stem + ".weight_packed",
        "I32",
        {kOut, kIn / per},
        packed(kOut, kIn, form.bits, [&](int64_t o, int64_t i) { return n.codes[static_cast<size_t>(i * kOut + o)]; })},
       {stem + ".weight_scale", form.scales_beyond_half ? "BF16" : "F16", {kOut, n.groups}, bytes_of(scales)},
       {stem + ".weight_shape", "I64", {2}, bytes_of(std::vector<int64_t>{kOut, kIn})}},
      kOut,
      kIn,
      n.want};
  if (form.zeros == Zeros::kAny)
    folder.tensors.push_back(
        {stem + ".weight_zero_point",
         "I32",
         {kOut / per, n.groups},
         transposed_words(packed(n.groups, kOut, form.bits,
                                 [&](int64_t g, int64_t o) { return n.zeros[static_cast<size_t>(g * kOut + o)]; }),
                          n.groups, kOut / per)});
  return folder;
}

enum class Scales { kPowers, kAny };

constexpr int64_t kCutCols = 200, kWholeCols = 256;

// FP8 with 128 x 128 blocks. The last block row is partial and, with 200 columns, so is the last block column.
Folder fp8(Scales kind, const char* scale_type, int64_t kCols = kCutCols) {
  constexpr int64_t kRows = 150;
  Folder folder{R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,128]})"};
  folder.out = kRows;
  folder.in = kCols;
  std::vector<float> scales;
  for (int i = 0; i < 4; ++i)
    scales.push_back(kind == Scales::kPowers
                         ? std::ldexp(1.0f, -3 - i)
                         : bfloat16_to_float(float_to_bfloat16(0.0123f * static_cast<float>(i + 1))));
  std::vector<uint8_t> codes;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t col = 0; col < kCols; ++col) {
      codes.push_back(static_cast<uint8_t>(below(2) << 7 | below(127)));  // Any FP8 code except NaN.
      folder.want.push_back(e4m3_to_float(codes.back()) * scales[static_cast<size_t>(row / 128 * 2 + col / 128)]);
    }
  std::string bytes = bytes_of(scales);
  if (std::string_view(scale_type) == "BF16") {
    std::vector<uint16_t> halves;
    for (const float scale : scales) halves.push_back(float_to_bfloat16(scale));
    bytes = bytes_of(halves);
  } else if (std::string_view(scale_type) == "F8_E8M0") {
    std::vector<uint8_t> exponents;
    for (const float scale : scales) exponents.push_back(static_cast<uint8_t>(std::ilogb(scale) + 127));
    bytes = bytes_of(exponents);
  }
  folder.tensors = {{std::string(kStem) + ".weight", "F8_E4M3", {kRows, kCols}, bytes_of(codes)},
                    {std::string(kStem) + ".weight_scale_inv", scale_type, {2, 2}, bytes}};
  return folder;
}

// NVFP4: ModelOpt's nvfp4_tensor.py (dequantize) and compressed-tensors' fp4_quantized.py. The expected values include
// the scale of the whole matrix only if the result is stored as floats.
Folder fp4(bool compressed, bool negative = false) {
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  Folder folder{
      compressed
          ? R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"group_0":{)"
            R"("weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}})"
          : R"({"quant_method":"modelopt","quant_algo":"NVFP4","group_size":16})"};
  const float factor = compressed ? 1234.5f : 0.00071f;
  std::vector<uint8_t> codes, scales;
  for (int64_t i = 0; i < kOut * kIn / 2; ++i) codes.push_back(static_cast<uint8_t>(below(256)));
  for (int64_t i = 0; i < kOut * kIn / 16; ++i) scales.push_back(static_cast<uint8_t>(below(127)));
  if (negative) scales[70] = 0x85;
  for (int64_t i = 0; i < kOut * kIn; ++i) {
    const int code = codes[static_cast<size_t>(i / 2)] >> (i % 2 * 4) & 15;
    const float scale = e4m3_to_float(scales[static_cast<size_t>(i / 16)]);
    const float number = code & 8 ? -kNumbers[code & 7] : kNumbers[code & 7];
    folder.want.push_back(number * (!negative ? scale : compressed ? scale / factor : scale * factor));
  }
  if (!negative) folder.scale = compressed ? 1 / factor : factor;
  const std::string stem = kStem;
  folder.tensors = {
      {stem + (compressed ? ".weight_packed" : ".weight"), "U8", {kOut, kIn / 2}, bytes_of(codes)},
      {stem + ".weight_scale", "F8_E4M3", {kOut, kIn / 16}, bytes_of(scales)},
      {stem + (compressed ? ".weight_global_scale" : ".weight_scale_2"),
       "F32",
       {1},
       bytes_of(std::vector<float>{factor})},
      {stem + (compressed ? ".input_global_scale" : ".input_scale"), "F32", {1}, bytes_of(std::vector<float>{3})}};
  return folder;
}

// compressed-tensors: one scale for each row.
Folder fp8_by_row(int64_t cols) {
  Folder folder = fp8(Scales::kAny, "F32", cols);
  folder.quantization =
      R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{)"
      R"("weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})";
  std::vector<float> scales;
  folder.want.clear();
  for (int64_t row = 0; row < folder.out; ++row) {
    scales.push_back(0.001f * static_cast<float>(row + 1));
    for (int64_t col = 0; col < folder.in; ++col)
      folder.want.push_back(
          e4m3_to_float(static_cast<uint8_t>(folder.tensors[0].bytes[static_cast<size_t>(row * folder.in + col)])) *
          scales.back());
  }
  folder.tensors[1] = {std::string(kStem) + ".weight_scale", "F32", {folder.out, 1}, bytes_of(scales)};
  return folder;
}

void expect_refused(Folder folder, const std::function<void(Folder&)>& change, const std::string& part) {
  change(folder);
  const auto file = open(config_of(folder), safetensors_of(with_table(folder.tensors)));
  if (file) return check::fail(__FILE__, __LINE__, "accepted, expected: " + part);
  if (file.error().message.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "'" + file.error().message + "' does not contain '" + part + "'");
}

}  // namespace

TEST(fp8_checkpoints_are_decoded_by_block) {
  expect_values(fp8(Scales::kPowers, "F32"), TensorType::kBF16, "powers of two");
  expect_values(fp8(Scales::kPowers, "F8_E8M0"), TensorType::kBF16, "exponents");
  expect_values(fp8(Scales::kAny, "F32"), TensorType::kF32, "any scales");
  expect_values(fp8(Scales::kAny, "BF16"), TensorType::kF32, "scales of 16 bits");
  expect_values(fp8_by_row(kCutCols), TensorType::kF32, "a scale for each row");
}

// The codes and the scales are stored unchanged, with one byte per weight.
TEST(fp8_checkpoints_of_whole_blocks_keep_their_codes) {
  for (const char* type : {"F32", "F8_E8M0"})
    expect_values(fp8(Scales::kPowers, type, kWholeCols), TensorType::kF8Scaled, type);
  for (const char* type : {"F32", "BF16"})
    expect_values(fp8(Scales::kAny, type, kWholeCols), TensorType::kF8Scaled, type);
  expect_values(fp8_by_row(kWholeCols), TensorType::kF8Scaled, "a scale for each row");
  Folder huge = fp8(Scales::kPowers, "F32", kWholeCols);
  const float scale = 0x1p110f;
  std::memcpy(huge.tensors[1].bytes.data(), &scale, sizeof scale);
  const auto held = open(config_of(huge), safetensors_of(with_table(huge.tensors)));
  REQUIRE(held.ok());
  CHECK((*held)->tensor("blk.0.ffn_down.weight")->type == TensorType::kF32);
  // A NaN code turns its block into NaN, and therefore the dot products of the row as well.
  Folder damaged = fp8(Scales::kAny, "F32", kWholeCols);
  damaged.tensors[0].bytes[3 * kWholeCols + 130] = static_cast<char>(0xff);
  const auto file = open(config_of(damaged), safetensors_of(with_table(damaged.tensors)));
  REQUIRE(file.ok());
  const auto rows = values_of(**file, *(*file)->tensor("blk.0.ffn_down.weight"), 2, 3);
  for (int64_t i = 0; i < 3 * kWholeCols; ++i)
    CHECK(std::isnan(rows[static_cast<size_t>(i)]) == (i >= kWholeCols + 128 && i < 2 * kWholeCols));
}

// The tensor may be read as floats, or as a smaller type converted from floats. The result is the same as for a
// checkpoint that contains these floats.
TEST(fp8_checkpoints_of_whole_blocks_convert_to_floats_and_smaller_types) {
  for (const Scales kind : {Scales::kPowers, Scales::kAny}) {
    const Folder folder = fp8(kind, "F32", kWholeCols);
    const auto opened = [&](TensorType type) {
      auto file = open(config_of(folder), safetensors_of(with_table(folder.tensors)));
      if (file) AssembledFile::quantize(**file, type, 1);
      return file;
    };
    const auto small = opened(TensorType::kQ8_0), kept = opened(TensorType::kF8E4M3);
    REQUIRE(small.ok() && kept.ok());
    const GgufTensor* const q8 = (*small)->tensor("blk.0.ffn_down.weight");
    REQUIRE(q8->type == TensorType::kQ8_0);
    std::vector<std::byte> want(q8->bytes()), scratch;
    quantize(TensorType::kQ8_0, folder.want.data(), static_cast<int64_t>(folder.want.size()), want.data());
    const auto got = (*small)->read(*q8, 0, q8->bytes(), scratch);
    CHECK(std::ranges::equal(got, want));
    const GgufTensor* const floats = (*kept)->tensor("blk.0.ffn_down.weight");
    CHECK(floats->fp8 && floats->type == (kind == Scales::kPowers ? TensorType::kBF16 : TensorType::kF32));
    CHECK(values_of(**kept, *floats, 0, folder.out) == folder.want);
  }
}

TEST(nvfp4_checkpoints_are_decoded_by_block) {
  for (const bool compressed : {false, true}) {
    const std::string what = compressed ? "compressed-tensors" : "ModelOpt";
    expect_values(fp4(compressed), TensorType::kNVFP4, what);
    expect_values(fp4(compressed, true), TensorType::kF32, what + " with a scale below 0");
  }
}

// DeepSeek V4: FP8 with different names for the scales, and experts in MXFP4 (see its inference/convert.py).
TEST(fp8_checkpoints_of_deepseek4_have_mxfp4_experts) {
  Folder folder = fp8(Scales::kPowers, "F8_E8M0", kWholeCols);
  folder.tensors[1].name = std::string(kStem) + ".scale";
  expect_values(folder, TensorType::kF8Scaled, "FP8");
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<uint8_t> codes, scales;
  folder.want.clear();
  for (int64_t i = 0; i < folder.out * folder.in / 2; ++i) codes.push_back(static_cast<uint8_t>(below(256)));
  for (int64_t i = 0; i < folder.out * folder.in / 32; ++i) scales.push_back(static_cast<uint8_t>(120 + below(14)));
  for (int64_t i = 0; i < folder.out * folder.in; ++i) {
    const int code = codes[static_cast<size_t>(i / 2)] >> (i % 2 * 4) & 15;
    folder.want.push_back((code & 8 ? -1.0f : 1.0f) *
                          std::ldexp(kNumbers[code & 7], scales[static_cast<size_t>(i / 32)] - 127));
  }
  folder.tensors = {{std::string(kStem) + ".weight", "I8", {folder.out, folder.in / 2}, bytes_of(codes)},
                    {std::string(kStem) + ".scale", "F8_E8M0", {folder.out, folder.in / 32}, bytes_of(scales)}};
  expect_values(folder, TensorType::kMXFP4, "MXFP4");
  expect_refused(
      folder, [](Folder& f) { f.tensors.pop_back(); }, "requires the tensor 'model.layers.0.mlp.down_proj.scale'");
  expect_refused(
      folder, [](Folder& f) { f.tensors[1].shape[1] /= 2, f.tensors[1].shape[0] *= 2; }, "expected [150, 8]");
  // MiMo V2.5 uses a different type for the code and scale tensors, and a different name for the scales.
  folder.tensors[0].type = folder.tensors[1].type = "U8";
  folder.tensors[1].name = std::string(kStem) + ".weight_scale";
  expect_values(folder, TensorType::kMXFP4, "MXFP4 of MiMo");
  expect_refused(
      folder, [](Folder& f) { f.tensors[1].shape[1] /= 2, f.tensors[1].shape[0] *= 2; },
      "weight_scale' has the shape [300, 4], expected [150, 8]");
}

TEST(gptq_checkpoints_are_decoded_by_group) {
  for (const bool second : {false, true}) {
    const std::string what = second ? "second format: " : "first format: ";
    expect_values(gptq({4, 32, Zeros::kMiddle}, second), TensorType::kQ4_0, what + "symmetric");
    expect_values(gptq({4, 64, Zeros::kAny}, second), TensorType::kQ5_0, what + "with zeros");
    expect_values(gptq({4, 32, Zeros::kAny, Groups::kShuffled}, second), TensorType::kF32, what + "desc_act");
    expect_values(gptq({4, 16, Zeros::kMiddle}, second), TensorType::kF32, what + "small groups");
    expect_values(gptq({4, 32, Zeros::kMiddle, Groups::kInOrder, true}, second), TensorType::kF32,
                  what + "scales beyond F16");
    expect_values(gptq({8, 128, Zeros::kMiddle}, second), TensorType::kQ8_0, what + "8 bits");
  }
}

TEST(awq_checkpoints_are_decoded_by_group) {
  expect_values(awq({4, 32, Zeros::kAny}), TensorType::kQ5_0, "with zeros");
  expect_values(awq({4, 128, Zeros::kMiddle}), TensorType::kQ4_0, "symmetric");
}

TEST(compressed_tensors_are_decoded_by_group) {
  expect_values(compressed({4, 32, Zeros::kMiddle}), TensorType::kQ4_0, "symmetric");
  expect_values(compressed({4, 32, Zeros::kAny}), TensorType::kQ5_0, "with zeros");
  expect_values(compressed({8, 64, Zeros::kMiddle}), TensorType::kQ8_0, "8 bits");
}

// ModelOpt's FP8 has one scale for a whole matrix.
TEST(fp8_checkpoints_of_modelopt_have_one_scale) {
  Folder folder = fp8(Scales::kAny, "F32");
  folder.quantization = R"({"quant_method":"modelopt","quant_algo":"FP8"})";
  const float scale = 0.037f;
  folder.tensors[1] = {std::string(kStem) + ".weight_scale", "F32", {}, bytes_of(std::vector<float>{scale})};
  folder.tensors.push_back({std::string(kStem) + ".input_scale", "F32", {}, bytes_of(std::vector<float>{2})});
  for (size_t i = 0; i < folder.want.size(); ++i)
    folder.want[i] = e4m3_to_float(static_cast<uint8_t>(folder.tensors[0].bytes[i])) * scale;
  expect_values(folder, TensorType::kF32, "one scale");
  folder.tensors[0].shape = {75, 400};  // The same number of codes in a different shape.
  folder.in = 400, folder.out = 75;
  expect_values(folder, TensorType::kF32, "one scale of other rows");
  Folder whole = fp8(Scales::kAny, "F32", kWholeCols);
  whole.quantization = folder.quantization;
  whole.tensors[1] = folder.tensors[1];
  for (size_t i = 0; i < whole.want.size(); ++i)
    whole.want[i] = e4m3_to_float(static_cast<uint8_t>(whole.tensors[0].bytes[i])) * scale;
  expect_values(whole, TensorType::kF8Scaled, "one scale of whole blocks");
}

// A matrix that is stored as floats can be quantized to a smaller type while it is loaded, as for any other checkpoint.
TEST(fp8_checkpoints_can_be_quantized_while_loading) {
  Folder folder = fp8(Scales::kAny, "F32");
  folder.tensors[0].shape = {100, 300};  // Rows do not consist of whole blocks, so the matrix is not quantized.
  folder.tensors[1].shape = {1, 3};
  folder.tensors[1].bytes.resize(12);
  const auto file = open(config_of(folder), safetensors_of(with_table(folder.tensors)));
  REQUIRE(file.ok());
  CHECK((*file)->tensor("blk.0.ffn_down.weight")->source != nullptr);
  CHECK(!can_store(*(*file)->tensor("blk.0.ffn_down.weight")->source, TensorType::kQ8_0));
  const auto whole = open(config_of(fp8(Scales::kAny, "F32")),
                          safetensors_of(with_table(gptq({4, 32, Zeros::kAny, Groups::kShuffled}, false).tensors)));
  CHECK(!whole.ok());  // The tensors belong to a different quantization method. Another test checks the message.
}

TEST(invalid_quantized_checkpoints_are_rejected_by_name) {
  const auto drop = [](size_t i) {
    return [i](Folder& f) { f.tensors.erase(f.tensors.begin() + static_cast<ptrdiff_t>(i)); };
  };
  const auto setting = [](std::string from, std::string to) {
    return [=](Folder& f) { f.quantization.replace(f.quantization.find(from), from.size(), to); };
  };
  const Folder g = gptq({4, 32, Zeros::kAny}, false), a = awq({4, 32, Zeros::kAny}),
               c = compressed({4, 32, Zeros::kAny});
  const Folder f = fp8(Scales::kAny, "F32");
  const std::string at = std::string("model.safetensors: tensor '") + kStem;
  expect_refused(g, setting("\"bits\":4", "\"bits\":3"), "'quantization_config.bits' is 3 (supported: 4 and 8)");
  expect_refused(g, setting("\"sym\"", "\"checkpoint_format\":\"marlin\",\"sym\""),
                 "'quantization_config.checkpoint_format' is 'marlin'");
  expect_refused(g, setting("\"sym\"", "\"dynamic\":{\"x\":{\"bits\":8}},\"sym\""),
                 "'quantization_config.dynamic' is not empty");
  expect_refused(a, setting("gemm", "gemv"), "'quantization_config.version' is 'gemv'");
  expect_refused(c, setting("pack-quantized", "marlin-24"), "'quantization_config.format' is 'marlin-24'");
  expect_refused(c, setting("\"group_0\"", "\"group_1\":{},\"group_0\""), "must have exactly one member");
  expect_refused(f, setting("e4m3", "e5m2"), "'quantization_config.fmt' is 'e5m2'");
  expect_refused(f, setting("[128,128]", "[128]"),
                 "'quantization_config.weight_block_size' is not a list of two numbers");
  expect_refused(f, setting("[128,128]", "[64,128]"), at + ".weight_scale_inv' has the shape [2, 2], expected [3, 2]");
  expect_refused(f, setting(",\"weight_block_size\":[128,128]", ""), "but 'weight_block_size' is not set");
  const Folder m = fp4(false);
  expect_refused(m, setting("NVFP4", "W4A8"), "'quantization_config.quant_algo' is 'W4A8' (supported: NVFP4, FP8)");
  expect_refused(m, drop(2), at + ".weight' requires the tensor '" + kStem + ".weight_scale_2'");
  expect_refused(m, drop(1), at + ".weight' requires the tensor '" + kStem + ".weight_scale'");
  expect_refused(
      m,
      [](Folder& x) {
        x.tensors[1].shape = {kOut, kIn / 32};
        x.tensors[1].bytes.resize(kOut * kIn / 32);
      },
      at + ".weight_scale' has the shape [48, 4], expected [48, 8]");
  expect_refused(
      m, [](Folder& x) { x.tensors[0].shape = {kOut * kIn / 2}; }, "which is not an NVFP4 matrix");
  expect_refused(f, drop(1), at + ".weight' requires the tensor '" + kStem + ".weight_scale_inv'");
  expect_refused(g, drop(1), at + ".qweight' requires the tensor '" + kStem + ".qzeros'");
  expect_refused(g, drop(2), at + ".qweight' requires the tensor '" + kStem + ".scales'");
  expect_refused(c, drop(2), at + ".weight_packed' requires the tensor '" + kStem + ".weight_shape'");
  expect_refused(
      a,
      [](Folder& x) {
        x.tensors[1].shape = {kOut / 8, kIn / 32};
      },
      at + ".qzeros' has the shape [6, 4], expected [4, 6]");
  expect_refused(
      a,
      [](Folder& x) {
        x.tensors[2].shape = {kOut, kIn / 32};
      },
      at + ".scales' has the shape [48, 4], which does not fit");
  expect_refused(
      a, [](Folder& x) { x.tensors[2].type = "I16"; }, at + ".scales' has type 'I16', expected F32");
  expect_refused(
      g, [](Folder& x) { x.tensors[0].type = "U32"; }, at + ".qweight' has type 'U32', expected I32");
  expect_refused(
      g, [](Folder& x) { x.tensors[3].bytes[8] = 4; }, at + ".g_idx' holds 4 at 2, expected a group below 4");
  expect_refused(
      g, [](Folder& x) { x.tensors[3].bytes[11] = '\xff'; }, at + ".g_idx' holds -");
  expect_refused(
      c, [](Folder& x) { x.tensors[2].bytes[8] = 9; }, at + ".weight_shape' holds 48 and 9");
  expect_refused(
      f, [](Folder& x) { x.tensors[0].shape = {150 * 200}; }, "which is not an FP8 matrix");
}

TEST(damaged_quantized_checkpoints_never_crash) {
  size_t accepted = 0;
  for (const Folder& folder :
       {fp8(Scales::kAny, "F32"), fp4(false), gptq({4, 32, Zeros::kAny, Groups::kShuffled}, false),
        awq({4, 32, Zeros::kAny}), compressed({4, 32, Zeros::kAny})}) {
    const std::string config = config_of(folder), whole = safetensors_of(with_table(folder.tensors));
    uint64_t head = 0;
    std::memcpy(&head, whole.data(), sizeof head);
    for (int round = 0; round < 400; ++round) {
      std::string settings = config, file = whole;
      const auto damage = [](std::string& text, size_t from, size_t size) {
        constexpr std::string_view kBytes = "0123456789,[]{}\"";
        text[from + below(static_cast<uint32_t>(size))] = kBytes[below(kBytes.size())];
      };
      if (below(3) == 0) damage(settings, 0, settings.size());
      damage(file, sizeof head, head);
      const auto opened = open(settings, file);
      if (!opened) continue;
      ++accepted;
      for (const GgufTensor& tensor : (*opened)->tensors())
        CHECK(!values_of(**opened, tensor, 0, tensor.n_values() / tensor.shape[0]).empty());
    }
  }
  CHECK(accepted > 0);
}
