#include "formats/hf/quantization.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "formats/gguf/parser.h"
#include "formats/hf/quantized_rows.h"
#include "formats/hf/translator.h"

namespace monolith::hf {
namespace {

using Method = Quantization::Method;

constexpr int64_t kMaxBlock = 1 << 20;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t length : shape) text += (text.empty() ? "" : ", ") + std::to_string(length);
  return "[" + text + "]";
}

Error misfit(const Safetensor& tensor, const std::vector<int64_t>& expected) {
  return invalid(tensor, "has the shape " + shape_text(tensor.shape) + ", expected " + shape_text(expected));
}

// Joins the tensors of each quantized matrix into one. Indexes the checkpoint's tensors by name and records which of
// them have been merged into another tensor.
class Joiner {
 public:
  Joiner(const Quantization& quantization, std::vector<Safetensor>& tensors)
      : settings_(quantization), tensors_(tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].name, i);
  }

  Status join() {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (Status status = join(i); !status) return status;
    std::vector<Safetensor> left;
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (!taken_.contains(i)) left.push_back(std::move(tensors_[i]));
    tensors_ = std::move(left);
    return {};
  }

 private:
  Status join(size_t i) {
    if (settings_.method == Method::kFp8) return join_fp8(i);
    return settings_.method == Method::kFp4 ? join_fp4(i) : join_integers(i);
  }

  const Safetensor* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  void take(const Safetensor* tensor) {
    if (tensor != nullptr) taken_.insert(by_name_.at(tensor->name));
  }
  // Like find(), but if the tensor is missing, returns an error that mentions both `name` and `of`.
  Result<const Safetensor*> need(const std::string& name, const Safetensor& of) const {
    if (const Safetensor* found = find(name)) return found;
    return invalid(of, "requires the tensor " + in_quotes(name));
  }

  static Result<ScaleGrid> grid(const Safetensor& tensor) {
    ScaleGrid grid{.data = tensor.data};
    if (tensor.type == "F32")
      grid.type = ScaleGrid::Type::kF32;
    else if (tensor.type == "F16")
      grid.type = ScaleGrid::Type::kF16;
    else if (tensor.type == "BF16")
      grid.type = ScaleGrid::Type::kBF16;
    else if (tensor.type == "F8_E8M0")
      grid.type = ScaleGrid::Type::kE8M0;
    else
      return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                                in_quotes(tensor.type) +
                                                ", expected F32, F16, BF16 or F8_E8M0 for scales"};
    return grid;
  }
  static Status expect_type(const Safetensor& tensor, std::string_view type) {
    if (tensor.type == type) return {};
    return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                              in_quotes(tensor.type) + ", expected " + std::string(type)};
  }

  Status join_fp8(size_t at) {
    Safetensor& weight = tensors_[at];
    for (const std::string_view unused : {"input_scale", "activation_scale", "k_scale", "v_scale"})
      if (weight.name.ends_with(unused) && weight.name.find('.') != std::string::npos) {
        take(&weight);
        return {};
      }
    const std::string stem = weight.name.substr(0, weight.name.rfind('.'));
    if ((weight.type == "I8" || weight.type == "U8") && weight.name.ends_with(".weight"))
      return join_mxfp4(weight, stem);
    if (weight.type != "F8_E4M3") return {};
    const Safetensor* scale = find(weight.name + "_scale_inv");
    if (scale == nullptr) scale = find(weight.name + "_scale");
    if (scale == nullptr) scale = find(stem + ".scale");  // The name in DeepSeek V4.
    if (scale == nullptr) return invalid(weight, "requires the tensor " + in_quotes(weight.name + "_scale_inv"));
    const size_t n = weight.shape.size();
    if (n < 2 || n > 3 || std::ranges::any_of(weight.shape, [](int64_t length) { return length < 1; }))
      return invalid(weight, "has the shape " + shape_text(weight.shape) + ", which is not an FP8 matrix");
    auto scales = grid(*scale);
    if (!scales) return scales.error();
    // With shards, each shard has its own scale blocks and is treated as a separate matrix.
    const bool sharded = n == 2 && settings_.qkv_shards > 1 && stem.ends_with(".qkv_proj") &&
                         weight.shape[0] % settings_.qkv_shards == 0;
    const int64_t matrices = n == 3 ? weight.shape[0] : sharded ? settings_.qkv_shards : 1;
    const int64_t rows = weight.shape[n - 2] / (sharded ? matrices : 1), cols = weight.shape[n - 1];
    const auto blocks = [](int64_t length, int64_t block) { return (length + block - 1) / block; };
    // Either the whole matrix has one scale, or each row or each block has its own.
    int64_t block_rows = rows, block_cols = cols;
    int64_t count = 1;
    // The product cannot overflow, because it is at most the number of bytes in the file.
    for (const int64_t length : scale->shape) count *= length;
    if (count != 1) {
      const bool by_row = scale->shape.back() == 1 && n == 2 && !sharded;
      block_rows = by_row ? 1 : settings_.block_rows;
      block_cols = by_row ? cols : settings_.block_cols;
      if (block_rows < 1 || block_cols < 1)
        return invalid(*scale, "has the shape " + shape_text(scale->shape) + ", but 'weight_block_size' is not set");
      std::vector<int64_t> expected = {blocks(rows, block_rows) * (sharded ? matrices : 1), blocks(cols, block_cols)};
      if (n == 3) expected.insert(expected.begin(), matrices);
      if (scale->shape != expected) return misfit(*scale, expected);
    } else if (matrices > 1) {
      return invalid(*scale, "is a single scale for " + std::to_string(matrices) + " matrices, which is not supported");
    }
    scales->rows = blocks(rows, block_rows);
    scales->cols = blocks(cols, block_cols);
    std::vector<Run> runs;
    const size_t codes = weight.data.size() / static_cast<size_t>(matrices),
                 cells = scales->data.size() / static_cast<size_t>(matrices);
    for (int64_t i = 0; i < matrices; ++i) {
      ScaleGrid own = *scales;
      own.data = scales->data.subspan(static_cast<size_t>(i) * cells, cells);
      runs.push_back(
          {fp8_rows(weight.data.subspan(static_cast<size_t>(i) * codes, codes), cols, own, block_rows, block_cols), 0,
           rows});
    }
    if (matrices > 1 &&
        std::ranges::any_of(runs, [&](const Run& run) { return run.of->exact_type() != runs[0].of->exact_type(); }))
      for (Run& run : runs) run.of = float_rows(run.of);
    weight.rows = matrices == 1 ? runs[0].of : joined_rows(std::move(runs));
    weight.data = {};
    take(scale);
    return {};
  }

  // DeepSeek V4 experts: two E2M1 codes per byte, low nibble first, and a power-of-two scale per 32 codes.
  Status join_mxfp4(Safetensor& codes, const std::string& stem) {
    // In MiMo V2.5, the scales are named "weight_scale".
    const auto scales = need(stem + (find(stem + ".weight_scale") != nullptr ? ".weight_scale" : ".scale"), codes);
    if (!scales) return scales.error();
    if ((*scales)->type != "U8")
      if (Status status = expect_type(**scales, "F8_E8M0"); !status) return status;
    if (codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1 || codes.shape[1] % 16 != 0)
      return invalid(codes, "has the shape " + shape_text(codes.shape) + ", which is not an MXFP4 matrix");
    const std::vector<int64_t> expected = {codes.shape[0], codes.shape[1] / 16};
    if ((*scales)->shape != expected) return misfit(**scales, expected);
    codes.rows = mxfp4_rows(codes.data, codes.shape[1] * 2, (*scales)->data);
    codes.shape[1] *= 2;
    codes.data = {};
    take(*scales);
    return {};
  }

  // NVFP4 tensor names. ModelOpt: weight, weight_scale, weight_scale_2. compressed-tensors: weight_packed,
  // weight_scale, weight_global_scale; the scales must be divided by the global scale.
  Status join_fp4(size_t at) {
    Safetensor& codes = tensors_[at];
    for (const std::string_view unused : {".input_scale", ".input_global_scale", ".k_scale", ".v_scale"})
      if (codes.name.ends_with(unused)) {
        take(&codes);
        return {};
      }
    const bool packed = codes.name.ends_with(".weight_packed");
    if (codes.type != "U8" || !(packed || codes.name.ends_with(".weight"))) return {};
    const std::string stem = codes.name.substr(0, codes.name.rfind('.'));
    const auto scales = need(stem + ".weight_scale", codes),
               factor = need(stem + (packed ? ".weight_global_scale" : ".weight_scale_2"), codes);
    if (!scales) return scales.error();
    if (!factor) return factor.error();
    if (Status status = expect_type(**scales, "F8_E4M3"); !status) return status;
    if (Status status = expect_type(**factor, "F32"); !status) return status;
    if (codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1 || codes.shape[1] % 8 != 0)
      return invalid(codes, "has the shape " + shape_text(codes.shape) + ", which is not an NVFP4 matrix");
    const std::vector<int64_t> expected = {codes.shape[0], codes.shape[1] / 8};
    if ((*scales)->shape != expected) return misfit(**scales, expected);
    if ((*factor)->data.size() != sizeof(float)) return invalid(**factor, "is not a single number");
    Fp4Matrix matrix{.cols = codes.shape[1] * 2, .codes = codes.data, .scales = (*scales)->data, .divides = packed};
    std::memcpy(&matrix.factor, (*factor)->data.data(), sizeof matrix.factor);
    codes.rows = fp4_rows(matrix);
    codes.name = stem + ".weight";
    codes.shape[1] *= 2;
    codes.data = {};
    take(*scales);
    take(*factor);
    return {};
  }

  Status join_integers(size_t at) {
    const bool packed_rows = settings_.method == Method::kPacked;
    const std::string_view suffix = packed_rows ? ".weight_packed" : ".qweight";
    if (!tensors_[at].name.ends_with(suffix)) return {};
    Safetensor& words = tensors_[at];
    const std::string stem = words.name.substr(0, words.name.size() - suffix.size());
    if (Status status = expect_type(words, "I32"); !status) return status;
    if (words.shape.size() != 2 || words.shape[0] < 1 || words.shape[1] < 1)
      return invalid(words, "has the shape " + shape_text(words.shape) + ", which is not a matrix");
    const auto scale = need(stem + (packed_rows ? ".weight_scale" : ".scales"), words);
    if (!scale) return scale.error();
    IntegerMatrix matrix{
        .bits = settings_.bits, .words = words.data, .added_to_zeros = settings_.zeros_less_one ? 1 : 0};
    const int64_t n = 32 / settings_.bits;
    const Safetensor* zeros = nullptr;
    const Safetensor* groups = nullptr;
    if (packed_rows) {
      zeros = find(stem + ".weight_zero_point");
      groups = find(stem + ".weight_g_idx");
      auto shape = packed_shape(stem, words);
      if (!shape) return shape.error();
      matrix.layout = IntegerMatrix::Layout::kRowsPacked;
      matrix.out = words.shape[0];
      matrix.in = *shape;
    } else {
      const auto stored = need(stem + ".qzeros", words);
      if (!stored) return stored.error();
      zeros = *stored;
      groups = find(stem + ".g_idx");
      const bool awq = settings_.method == Method::kAwq;
      matrix.layout = awq ? IntegerMatrix::Layout::kOutputsPacked : IntegerMatrix::Layout::kInputsPacked;
      matrix.in = awq ? words.shape[0] : words.shape[0] * n;
      matrix.out = awq ? words.shape[1] * n : words.shape[1];
    }
    if (Status status = add_scales(**scale, words, matrix); !status) return status;
    if (Status status = add_zeros(zeros, n, matrix); !status) return status;
    if (Status status = add_groups(groups, words, matrix); !status) return status;
    for (const Safetensor* used : {*scale, zeros, groups, packed_rows ? find(stem + ".weight_shape") : nullptr})
      take(used);
    words.rows = integer_rows(matrix);
    words.name = stem + ".weight";
    words.shape = {matrix.out, matrix.in};
    words.data = {};
    return {};
  }

  // Returns the row length from "weight_shape". The packed words do not determine it, because the last word of a row
  // may be only partly used.
  Result<int64_t> packed_shape(const std::string& stem, const Safetensor& words) {
    const int64_t n = 32 / settings_.bits, most = words.shape[1] * n;
    const auto stated = need(stem + ".weight_shape", words);
    if (!stated) return stated.error();
    const Safetensor& shape = **stated;
    int64_t lengths[2] = {0, 0};
    if (shape.type == "I64" && shape.data.size() == 16) {
      std::memcpy(lengths, shape.data.data(), sizeof lengths);
    } else if (shape.type == "I32" && shape.data.size() == 8) {
      int32_t narrow[2];
      std::memcpy(narrow, shape.data.data(), sizeof narrow);
      std::copy(narrow, narrow + 2, lengths);
    } else {
      return invalid(shape, "must hold two integers");
    }
    if (lengths[0] != words.shape[0] || lengths[1] > most || lengths[1] <= most - n)
      return invalid(shape, "holds " + std::to_string(lengths[0]) + " and " + std::to_string(lengths[1]) +
                                ", which does not fit " + in_quotes(words.name) + " of " + shape_text(words.shape) +
                                " words");
    return lengths[1];
  }

  static Status add_scales(const Safetensor& scale, const Safetensor& words, IntegerMatrix& matrix) {
    auto scales = grid(scale);
    if (!scales) return scales.error();
    const bool by_row = matrix.layout == IntegerMatrix::Layout::kRowsPacked;
    if (scale.shape.size() != 2 || scale.shape[by_row ? 0 : 1] != matrix.out || scale.shape[by_row ? 1 : 0] < 1)
      return invalid(scale, "has the shape " + shape_text(scale.shape) + ", which does not fit " +
                                in_quotes(words.name) + " of " + std::to_string(matrix.out) + " outputs");
    matrix.groups = scale.shape[by_row ? 1 : 0];
    scales->rows = scale.shape[0];
    scales->cols = scale.shape[1];
    matrix.scales = *scales;
    return {};
  }

  static Status add_zeros(const Safetensor* zeros, int64_t n, IntegerMatrix& matrix) {
    if (zeros == nullptr) return {};
    if (Status status = expect_type(*zeros, "I32"); !status) return status;
    const int64_t words = (matrix.out + n - 1) / n;
    const std::vector<int64_t> expected = matrix.layout == IntegerMatrix::Layout::kRowsPacked
                                              ? std::vector<int64_t>{words, matrix.groups}
                                              : std::vector<int64_t>{matrix.groups, words};
    if (zeros->shape != expected) return misfit(*zeros, expected);
    matrix.zeros = zeros->data;
    return {};
  }

  // The table of group indices is dropped if every group is a range of consecutive inputs.
  static Status add_groups(const Safetensor* groups, const Safetensor& words, IntegerMatrix& matrix) {
    if (groups == nullptr) {
      if (matrix.in % matrix.groups == 0) return {};
      return invalid(words, "has " + std::to_string(matrix.in) + " inputs, which do not divide into " +
                                std::to_string(matrix.groups) + " equal groups");
    }
    if (Status status = expect_type(*groups, "I32"); !status) return status;
    if (groups->shape != std::vector<int64_t>{matrix.in}) return misfit(*groups, {matrix.in});
    bool in_order = matrix.in % matrix.groups == 0;
    for (int64_t i = 0; i < matrix.in; ++i) {
      int32_t group;
      std::memcpy(&group, groups->data.data() + static_cast<size_t>(i) * sizeof group, sizeof group);
      if (group < 0 || group >= matrix.groups)
        return invalid(*groups, "holds " + std::to_string(group) + " at " + std::to_string(i) +
                                    ", expected a group below " + std::to_string(matrix.groups));
      in_order = in_order && group == i / (matrix.in / matrix.groups);
    }
    if (!in_order) matrix.group_of = groups->data;
    return {};
  }

  const Quantization& settings_;
  std::vector<Safetensor>& tensors_;
  std::map<std::string, size_t> by_name_;
  std::set<size_t> taken_;
};

Result<int> read_bits(const JsonValue& value) {
  const auto bits = value.integer(1, 32);
  if (!bits) return bits.error();
  const int64_t stated = bits->value_or(4);
  if (stated != 4 && stated != 8) return value.unsupported("is " + std::to_string(stated) + " (supported: 4 and 8)");
  return static_cast<int>(stated);
}

Status read_blocks(const JsonValue& sizes, Quantization& to) {
  if (!sizes.exists()) return {};
  if (sizes.items().size() != 2) return sizes.invalid("is not a list of two numbers");
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto length = sizes.item(i).integer(1, kMaxBlock);
    if (!length) return length.error();
    (i == 0 ? to.block_rows : to.block_cols) = length->value_or(0);
  }
  return {};
}

// Reads the settings of compressed-tensors. All quantized matrices must have the same format.
Result<Quantization> read_compressed(const JsonValue& settings) {
  Quantization result;
  const JsonValue groups = settings["config_groups"];
  if (groups.members().size() != 1)
    return groups.unsupported("must have exactly one member: mixed formats are not supported");
  const auto& [name, id] = groups.members()[0];
  const JsonValue weights = groups.at(id, name)["weights"];
  auto bits = read_bits(weights["num_bits"]);
  if (!bits) return bits.error();
  result.bits = *bits;
  const std::string_view type = weights["type"].text();
  const JsonValue format = settings["format"];
  if (type == "float" && result.bits == 8) {
    result.method = Method::kFp8;
    if (Status status = read_blocks(weights["block_structure"], result); !status) return status.error();
    return result;
  }
  if (type == "float" && result.bits == 4 && format.text() == "nvfp4-pack-quantized") {
    result.method = Method::kFp4;
    return result;
  }
  if (type != "int" || format.text() != "pack-quantized")
    return format.unsupported(
        "is " + in_quotes(format.text()) + " of " + in_quotes(type) +
        " numbers (supported: pack-quantized int, float-quantized with 8 bits, nvfp4-pack-quantized)");
  result.method = Method::kPacked;
  return result;
}

}  // namespace

Result<Quantization> read_quantization(const JsonValue& settings) {
  Quantization result;
  if (!settings.exists()) return result;
  const std::string_view method = settings["quant_method"].text();
  if (method == "mxfp4") return result;  // The MXFP4 experts of gpt-oss are handled in packed_experts.cc.
  if (method == "compressed-tensors") return read_compressed(settings);
  if (method == "fp8") {
    result.method = Method::kFp8;
    if (const JsonValue form = settings["fmt"];
        form.exists() && form.text() != "e4m3" && form.text() != "float8_e4m3fn")
      return form.unsupported("is " + in_quotes(form.text()) + " (read: e4m3)");
    if (Status status = read_blocks(settings["weight_block_size"], result); !status) return status.error();
    return result;
  }
  if (method == "modelopt" || method == "modelopt_fp4") {
    const JsonValue algorithm = settings["quant_algo"];
    if (algorithm.text() != "NVFP4" && algorithm.text() != "FP8")
      return algorithm.unsupported("is " + in_quotes(algorithm.text()) + " (supported: NVFP4, FP8)");
    result.method = algorithm.text() == "FP8" ? Method::kFp8 : Method::kFp4;
    return result;
  }
  if (method != "gptq" && method != "awq")
    return settings.unsupported("(method " + in_quotes(method) +
                                ") is not supported (known: fp8, gptq, awq, compressed-tensors, modelopt); use "
                                "a checkpoint in BF16, F16 or F32 and set 'quantize' for the model");
  result.method = method == "gptq" ? Method::kGptq : Method::kAwq;
  auto bits = read_bits(settings["bits"]);
  if (!bits) return bits.error();
  result.bits = *bits;
  if (result.method == Method::kGptq) {
    const JsonValue format = settings["checkpoint_format"];
    if (format.exists() && format.text() != "gptq" && format.text() != "gptq_v2")
      return format.unsupported("is " + in_quotes(format.text()) + " (supported: gptq, gptq_v2)");
    result.zeros_less_one = format.text() != "gptq_v2";
    if (const JsonValue other = settings["dynamic"]; !other.members().empty())
      return other.unsupported("is not empty: mixed formats are not supported");
    return result;
  }
  if (result.bits != 4) return settings["bits"].unsupported("is not 4, the only width supported for AWQ");
  if (const JsonValue version = settings["version"];
      version.exists() && version.text() != "gemm" && version.text() != "GEMM")
    return version.unsupported("is " + in_quotes(version.text()) + " (supported: gemm)");
  return result;
}

Status join_quantized(const Quantization& quantization, std::vector<Safetensor>& tensors) {
  if (quantization.method == Method::kNone) return {};
  return Joiner(quantization, tensors).join();
}

}  // namespace monolith::hf
