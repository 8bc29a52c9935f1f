// Tests well-formed files: every value type, conversion of values in lookups, tensors, and the golden model files.
#include "formats/gguf/gguf.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "check.h"
#include "formats/gguf/gguf_builder.h"
#include "formats/gguf/touch.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

bool mentions(const Error& error, std::string_view text) { return error.message.find(text) != std::string::npos; }

// A file in a new temporary directory. Both are deleted together with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const Bytes& bytes) {
    std::string pattern = (std::filesystem::temp_directory_path() / "monolith-gguf-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : "";
    std::ofstream(path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_ + "/model.gguf"; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace

TEST(gguf_version_2_reads_like_version_3) {
  const auto built = [](uint32_t version) {
    GgufBuilder builder;
    builder.version = version;
    return builder.string("text", "value").tensor("w", TensorType::kF32, {16}, Bytes(64)).build();
  };
  const Bytes old_bytes = built(2), bytes = built(3);
  const auto old_file = GgufFile::parse(old_bytes), file = GgufFile::parse(bytes);
  REQUIRE(old_file.ok() && file.ok());
  CHECK_EQ((*old_file)->string("text")->value(), "value");
  CHECK_EQ((*old_file)->metadata().size(), (*file)->metadata().size());
  REQUIRE((*old_file)->tensors().size() == 1);
  CHECK_EQ((*old_file)->tensors()[0].name, (*file)->tensors()[0].name);
}

TEST(gguf_reads_every_value_type) {
  const Bytes bytes = GgufBuilder()
                          .scalar<uint8_t>("u8", 200)
                          .scalar<int8_t>("i8", -100)
                          .scalar<uint16_t>("u16", 60000)
                          .scalar<int16_t>("i16", -30000)
                          .scalar<uint32_t>("u32", 4000000000u)
                          .scalar<int32_t>("i32", -2000000000)
                          .scalar<uint64_t>("u64", std::numeric_limits<uint64_t>::max())
                          .scalar<int64_t>("i64", std::numeric_limits<int64_t>::min())
                          .scalar<float>("f32", 1.5f)
                          .scalar<double>("f64", -2.25)
                          .scalar<bool>("yes", true)
                          .scalar<bool>("no", false)
                          .string("text", std::string_view("a\0b", 3))
                          .string("empty", "")
                          .strings("texts", {"one", "", "three"})
                          .array<float>("floats", {0.5f, -1.0f})
                          .array<int16_t>("shorts", {-1, 2, 3})
                          .array<uint64_t>("longs", {1, std::numeric_limits<uint64_t>::max()})
                          .array<bool>("flags", {true, false})
                          .array<uint8_t>("nothing", {})
                          .build();
  const auto parsed = GgufFile::parse(bytes);
  REQUIRE(parsed.ok());
  const GgufFile& file = **parsed;
  CHECK_EQ(file.metadata().size(), size_t{20});
  CHECK_EQ(file.alignment(), size_t{32});
  CHECK_EQ(file.file_bytes(), bytes.size());

  CHECK_EQ(file.unsigned_integer("u8")->value(), uint64_t{200});
  CHECK_EQ(file.unsigned_integer("u16")->value(), uint64_t{60000});
  CHECK_EQ(file.unsigned_integer("u32")->value(), uint64_t{4000000000u});
  CHECK_EQ(file.unsigned_integer("u64")->value(), std::numeric_limits<uint64_t>::max());
  CHECK_EQ(file.number("i8")->value(), -100.0);
  CHECK_EQ(file.number("i16")->value(), -30000.0);
  CHECK_EQ(file.number("i32")->value(), -2e9);
  CHECK_EQ(file.number("i64")->value(), -0x1p63);
  CHECK_EQ(file.number("f32")->value(), 1.5);
  CHECK_EQ(file.number("f64")->value(), -2.25);
  CHECK_EQ(file.boolean("yes")->value(), true);
  CHECK_EQ(file.boolean("no")->value(), false);
  CHECK_EQ(file.string("text")->value(), std::string_view("a\0b", 3));
  CHECK_EQ(file.string("empty")->value(), std::string_view());
  const auto texts = file.strings("texts");
  REQUIRE(texts.ok() && (*texts)->size() == 3);
  CHECK_EQ((**texts)[0], "one");
  CHECK_EQ((**texts)[1], "");
  CHECK_EQ((**texts)[2], "three");
  CHECK(file.numbers("floats")->value() == std::vector<float>({0.5f, -1.0f}));
  CHECK(file.numbers("shorts")->value() == std::vector<float>({-1, 2, 3}));
  CHECK(file.integers("shorts")->value() == std::vector<int64_t>({-1, 2, 3}));
  CHECK(file.integers("nothing")->value().empty());
  CHECK_EQ(file.find("flags")->count, uint64_t{2});
  CHECK(file.find("flags")->element_type == GgufValueType::kBool);

  CHECK(file.find("absent") == nullptr);
  CHECK(file.unsigned_integer("absent").ok() && !file.unsigned_integer("absent")->has_value());
  CHECK(file.strings("absent").ok() && !file.strings("absent")->has_value());
  CHECK(file.tensor("absent") == nullptr);

  for (const Error& error :
       {file.unsigned_integer("i8").error(), file.unsigned_integer("f32").error(), file.string("u8").error(),
        file.boolean("u8").error(), file.number("text").error(), file.strings("floats").error(),
        file.integers("floats").error(), file.integers("longs").error(), file.numbers("texts").error()})
    CHECK(error.code == ErrorCode::kInvalidFile);
  CHECK(mentions(file.unsigned_integer("i8").error(), "'i8' is -100"));
  CHECK(mentions(file.string("u8").error(), "'u8' is of type uint8, expected a string"));
  CHECK(mentions(file.numbers("texts").error(), "array of string"));
  touch_everything(file, bytes);
}

TEST(gguf_rejects_nonfinite_numbers) {
  for (float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Bytes bytes = GgufBuilder().scalar<float>("rope", value).build();
    const auto file = GgufFile::parse(bytes);
    REQUIRE(file.ok());
    CHECK(!(*file)->number("rope").ok());
  }
}

TEST(gguf_places_tensors) {
  Bytes first(3 * 2 * 4), second(2 * 34);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<std::byte>(i + 1);
  for (size_t i = 0; i < second.size(); ++i) second[i] = static_cast<std::byte>(i + 101);
  for (uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    const Bytes bytes = builder.scalar<uint32_t>("general.alignment", alignment)
                            .tensor("b.weight", TensorType::kF32, {3, 2}, first)
                            .tensor("a.weight", TensorType::kQ8_0, {32, 1, 2}, second)
                            .build();
    const auto parsed = GgufFile::parse(bytes);
    REQUIRE(parsed.ok());
    const GgufFile& file = **parsed;
    CHECK_EQ(file.alignment(), size_t{alignment});
    const GgufTensor* b = file.tensor("b.weight");
    const GgufTensor* a = file.tensor("a.weight");
    REQUIRE(a != nullptr && b != nullptr);
    CHECK(b->type == TensorType::kF32 && b->n_dims == 2);
    CHECK(b->shape == (std::array<int64_t, 4>{3, 2, 1, 1}));
    CHECK(a->type == TensorType::kQ8_0 && a->n_dims == 3);
    CHECK_EQ(a->n_values(), int64_t{64});
    CHECK(std::equal(b->data.begin(), b->data.end(), first.begin(), first.end()));
    CHECK(std::equal(a->data.begin(), a->data.end(), second.begin(), second.end()));
    CHECK_EQ(static_cast<size_t>(b->data.data() - bytes.data()) % alignment, size_t{0});
    CHECK_EQ(static_cast<size_t>(a->data.data() - bytes.data()) % alignment, size_t{0});
    touch_everything(file, bytes);
  }
}

TEST(gguf_opens_a_file_and_its_views_outlive_the_call) {
  const TemporaryFile source(GgufBuilder().string("general.name", "tiny").build());
  Result<std::unique_ptr<const GgufFile>> file = GgufFile::open(source.path());
  REQUIRE(file.ok());
  std::unique_ptr<const GgufFile> moved = std::move(file).value();
  CHECK_EQ(moved->string("general.name")->value(), "tiny");
}

TEST(gguf_open_names_the_path_and_the_reason) {
  const TemporaryFile empty({});
  const auto missing = GgufFile::open(empty.folder() + "/absent.gguf");
  REQUIRE(!missing.ok());
  CHECK(missing.error().code == ErrorCode::kIo);
  CHECK(mentions(missing.error(), "absent.gguf: cannot open: No such file"));

  const auto folder = GgufFile::open(empty.folder());
  REQUIRE(!folder.ok());
  CHECK(mentions(folder.error(), empty.folder() + ": is a directory"));

  const auto nothing = GgufFile::open(empty.path());
  REQUIRE(!nothing.ok());
  CHECK(nothing.error().code == ErrorCode::kInvalidFile && mentions(nothing.error(), "model.gguf: the file is empty"));

  const auto device = GgufFile::open("/dev/zero");
  REQUIRE(!device.ok());
  CHECK(mentions(device.error(), "not a regular file"));

  const auto nul = GgufFile::open(empty.path() + std::string(1, '\0') + ".gguf");
  REQUIRE(!nul.ok());
  CHECK(nul.error().code == ErrorCode::kInvalidArgument);
}

TEST(gguf_mapped_file_is_movable) {
  const TemporaryFile source({std::byte{1}, std::byte{2}});
  Result<MappedFile> first = MappedFile::open(source.path());
  Result<MappedFile> second = MappedFile::open(source.path());
  REQUIRE(first.ok() && second.ok());
  MappedFile moved = std::move(first).value();
  CHECK_EQ(moved.bytes().size(), size_t{2});
  moved = std::move(second).value();
  CHECK(moved.bytes()[1] == std::byte{2});
}

TEST(gguf_reads_the_golden_models) {
  struct Expected {
    const char* file;
    const char* architecture;
    size_t n_metadata, n_tensors;
    TensorType matrices;
  };
  const Expected table[] = {
      {"llama.f32", "llama", 25, 21, TensorType::kF32},   {"llama.f16", "llama", 25, 21, TensorType::kF16},
      {"llama.bf16", "llama", 25, 21, TensorType::kBF16}, {"llama.q8_0", "llama", 25, 21, TensorType::kQ8_0},
      {"llama.q4_0", "llama", 25, 21, TensorType::kQ4_0}, {"llama.q4_k", "llama", 25, 21, TensorType::kQ4_K},
      {"llama.q6_k", "llama", 25, 21, TensorType::kQ6_K}, {"llama-rope3.f16", "llama", 22, 22, TensorType::kF16},
      {"qwen2.f16", "qwen2", 22, 26, TensorType::kF16},   {"qwen3.f16", "qwen3", 24, 25, TensorType::kF16},
  };
  for (const Expected& expected : table) {
    const std::string path = check::vectors_path(std::string("models/") + expected.file + ".gguf");
    if (path.empty()) return check::skip("golden vectors not found");
    const auto parsed = GgufFile::open(path);
    if (!parsed.ok()) check::fail(__FILE__, __LINE__, parsed.error().message);
    REQUIRE(parsed.ok());
    const GgufFile& file = **parsed;
    CHECK_EQ(file.string("general.architecture")->value(), expected.architecture);
    CHECK_EQ(file.metadata().size(), expected.n_metadata);
    CHECK_EQ(file.tensors().size(), expected.n_tensors);
    const std::string prefix = std::string(expected.architecture) + ".";
    CHECK_EQ(file.unsigned_integer(prefix + "block_count")->value(), uint64_t{2});
    CHECK_EQ(file.unsigned_integer(prefix + "embedding_length")->value(), uint64_t{256});
    CHECK(std::abs(file.number(prefix + "attention.layer_norm_rms_epsilon")->value_or(0) - 1e-5) < 1e-5);
    const auto tokens = file.strings("tokenizer.ggml.tokens");
    REQUIRE(tokens.ok() && tokens->has_value());
    const GgufTensor* embeddings = file.tensor("token_embd.weight");
    REQUIRE(embeddings != nullptr);
    CHECK(embeddings->type == expected.matrices);
    CHECK_EQ(embeddings->shape[0], int64_t{256});
    CHECK_EQ(embeddings->shape[1], static_cast<int64_t>((*tokens)->size()));
    CHECK(file.tensor("blk.1.ffn_down.weight") != nullptr);
    CHECK(file.tensor("blk.2.ffn_down.weight") == nullptr);
  }
}

TEST(gguf_reads_the_golden_vocabularies) {
  struct Expected {
    const char* file;
    const char* model;
    size_t n_tokens, n_merges;
  };
  const Expected table[] = {{"gpt-2", "gpt2", 50257, 50000},
                            {"starcoder", "gpt2", 49152, 48872},
                            {"deepseek-coder", "gpt2", 32256, 31757},
                            {"llama-spm", "llama", 32000, 0}};
  for (const Expected& expected : table) {
    const std::string path = check::vectors_path(std::string("tokenizers/") + expected.file + ".gguf");
    if (path.empty()) return check::skip("golden vectors not found");
    const auto file = GgufFile::open(path);
    REQUIRE(file.ok());
    CHECK_EQ((*file)->string("tokenizer.ggml.model")->value(), expected.model);
    CHECK_EQ((*file)->strings("tokenizer.ggml.tokens")->value().size(), expected.n_tokens);
    const auto merges = (*file)->strings("tokenizer.ggml.merges");
    REQUIRE(merges.ok());
    CHECK_EQ(merges->has_value() ? (*merges)->size() : 0, expected.n_merges);
    CHECK_EQ((*file)->integers("tokenizer.ggml.token_type")->value().size(), expected.n_tokens);
    CHECK((*file)->tensors().empty());
  }
}

namespace {

// A model in several files, as written by gguf-split. It has tensors t0, t1, ... of 8 floats, with at least one in each
// part.
struct SplitModel {
  uint16_t count = 3;
  int n_tensors = 3;           // Value of the split.tensors.count metadata key.
  const char* twin = nullptr;  // Name of the tensor in the last part; null = unique.

  static std::string name(int number, int count) {
    char text[64];
    std::snprintf(text, sizeof text, "/big-%05d-of-%05d.gguf", number, count);
    return text;
  }
  void write(const std::string& folder) const {
    for (uint16_t i = 0; i < count; ++i) {
      GgufBuilder part;
      if (i == 0) part.string("general.architecture", "llama");
      part.scalar<uint16_t>("split.no", i)
          .scalar<uint16_t>("split.count", count)
          .scalar<int32_t>("split.tensors.count", n_tensors);
      const std::vector<float> values(8, static_cast<float>(i));
      part.tensor(i + 1 == count && twin ? twin : "t" + std::to_string(i), TensorType::kF32, {8},
                  std::as_bytes(std::span(values)));
      const Bytes bytes = part.build();
      std::ofstream(folder + name(i + 1, count), std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
  }
};

void check_split_refused(const std::string& path, ErrorCode code, std::string_view part) {
  const auto file = GgufFile::open(path);
  if (file) return check::fail(__FILE__, __LINE__, "opened " + path);
  CHECK_EQ(static_cast<int>(file.error().code), static_cast<int>(code));
  if (!mentions(file.error(), part))
    check::fail(__FILE__, __LINE__, "expected '" + std::string(part) + "' in: " + file.error().message);
}

}  // namespace

TEST(gguf_opens_a_split_model_by_its_first_part) {
  const TemporaryFile folder({});
  SplitModel().write(folder.folder());
  const auto file = GgufFile::open(folder.folder() + SplitModel::name(1, 3));
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  CHECK_EQ((*file)->string("general.architecture")->value(), std::string_view("llama"));
  REQUIRE((*file)->tensors().size() == 3);
  size_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const GgufTensor* tensor = (*file)->tensor("t" + std::to_string(i));
    REQUIRE(tensor != nullptr && tensor->data.size() == 32);
    float value;
    std::memcpy(&value, tensor->data.data() + 28, sizeof value);
    CHECK_EQ(value, static_cast<float>(i));
    bytes += std::filesystem::file_size(folder.folder() + SplitModel::name(i + 1, 3));
  }
  CHECK_EQ((*file)->file_bytes(), bytes);
}

// Tests Q1_0 and Q2_0, whose values are stored as Q4_0, in single files and in split files.
TEST(gguf_reads_values_of_one_and_two_bits) {
  const TemporaryFile folder({});
  std::vector<std::vector<float>> expected(2);
  for (uint16_t i = 0; i < 2; ++i) {
    const int bits = i + 1, of_block = bits == 1 ? 128 : 64;
    std::vector<uint8_t> blocks;
    for (int block = 0; block < 6; ++block) {
      // The scales are 1, -0.5, the smallest subnormal number and 3.140625, as binary16.
      constexpr uint16_t kScales[] = {0x3c00, 0xb800, 0x0001, 0x4248};
      constexpr float kValues[] = {1, -0.5f, 0x1p-24f, 3.140625f};
      blocks.push_back(static_cast<uint8_t>(kScales[block % 4]));
      blocks.push_back(static_cast<uint8_t>(kScales[block % 4] >> 8));
      for (int byte = 0; byte < 16; ++byte) blocks.push_back(static_cast<uint8_t>(block * 151 + byte * 77 + 5));
      for (int value = 0; value < of_block; ++value) {
        const int code = blocks[blocks.size() - 16 + static_cast<size_t>(value * bits / 8)] >> (value * bits % 8) &
                         ((1 << bits) - 1);
        expected[i].push_back(kValues[block % 4] * static_cast<float>(bits == 1 ? 2 * code - 1 : code - 1));
      }
    }
    GgufBuilder part;
    if (i == 0) part.string("general.architecture", "llama");
    part.scalar<uint16_t>("split.no", i).scalar<uint16_t>("split.count", 2).scalar<int32_t>("split.tensors.count", 2);
    part.tensor("t" + std::to_string(i), 41u + i, {static_cast<uint64_t>(2 * of_block), 3},
                std::as_bytes(std::span(blocks)));
    const Bytes bytes = part.build();
    std::ofstream(folder.folder() + SplitModel::name(i + 1, 2), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const auto file = GgufFile::open(folder.folder() + SplitModel::name(1, 2));
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  std::vector<std::byte> scratch;
  for (size_t i = 0; i < 2; ++i) {
    const GgufTensor* tensor = (*file)->tensor("t" + std::to_string(i));
    REQUIRE(tensor != nullptr);
    CHECK(tensor->type == TensorType::kQ4_0);
    const size_t row = tensor->bytes() / 3;
    const auto values = static_cast<size_t>(tensor->shape[0]);
    for (size_t at = 0; at < 3; ++at) {  // Reads each row separately, too.
      std::vector<float> floats(values);
      dequantize(tensor->type, (*file)->read(*tensor, at * row, row, scratch).data(), tensor->shape[0], floats.data());
      for (size_t value = 0; value < values; ++value) CHECK_EQ(floats[value], expected[i][at * values + value]);
    }
    (*file)->give_back(*tensor, 0, tensor->bytes());
  }
}

TEST(gguf_rejects_incomplete_split_models_and_names_the_part) {
  const TemporaryFile folder({});
  const std::string at = folder.folder();
  SplitModel().write(at);
  check_split_refused(at + SplitModel::name(2, 3), ErrorCode::kInvalidArgument,
                      "open the first file instead: " + at + SplitModel::name(1, 3));
  std::filesystem::copy(at + SplitModel::name(1, 3), at + "/renamed.gguf");
  check_split_refused(at + "/renamed.gguf", ErrorCode::kInvalidArgument, "must keep their names");
  std::filesystem::copy(at + SplitModel::name(2, 3), at + SplitModel::name(3, 3),
                        std::filesystem::copy_options::overwrite_existing);
  check_split_refused(at + SplitModel::name(1, 3), ErrorCode::kInvalidFile,
                      SplitModel::name(3, 3) + ": this is not part 3 of 3");
  std::filesystem::remove(at + SplitModel::name(2, 3));
  check_split_refused(at + SplitModel::name(1, 3), ErrorCode::kIo,
                      at + SplitModel::name(1, 3) + ": part 2 of 3 cannot be read: " + at + SplitModel::name(2, 3));
  SplitModel{.n_tensors = 4}.write(at);
  check_split_refused(at + SplitModel::name(1, 3), ErrorCode::kInvalidFile,
                      "have 3 tensors, but split.tensors.count is 4");
  SplitModel{.twin = "t0"}.write(at);
  check_split_refused(at + SplitModel::name(1, 3), ErrorCode::kInvalidFile, "tensor 't0' occurs in two parts");
  std::ofstream(at + SplitModel::name(2, 3), std::ios::binary) << "GGUF";
  check_split_refused(at + SplitModel::name(1, 3), ErrorCode::kInvalidFile, SplitModel::name(2, 3));
}
