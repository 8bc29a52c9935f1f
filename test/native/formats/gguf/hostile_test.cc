// Tests malicious GGUF files. Each attack is one row in a table that specifies how to build the image and what the
// error message must contain. Also tests random damage: truncation at every byte, and bit flips from a fixed seed.
#include <cstdint>
#include <functional>
#include <random>

#include "check.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_builder.h"
#include "formats/gguf/touch.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

constexpr uint64_t kHuge = UINT64_MAX;
constexpr auto kF32 = static_cast<uint32_t>(TensorType::kF32);
constexpr auto kQ8_0 = static_cast<uint32_t>(TensorType::kQ8_0);
constexpr uint32_t kArray = static_cast<uint32_t>(GgufValueType::kArray);
constexpr uint32_t kString = static_cast<uint32_t>(GgufValueType::kString);
constexpr uint32_t kBool = static_cast<uint32_t>(GgufValueType::kBool);

struct Attack {
  const char* name;
  std::function<Bytes()> make;
  ErrorCode code;
  const char* says;
};

Bytes text(std::string_view t) {
  Bytes out;
  put_text(out, t);
  return out;
}
Bytes one(uint8_t value) { return {static_cast<std::byte>(value)}; }
Bytes length_only(uint64_t length) {
  Bytes out;
  put(out, length);
  return out;
}
Bytes with_version(uint32_t version) {
  GgufBuilder builder;
  builder.version = version;
  return builder.build();
}
// A single tensor "w" with 64 bytes of data (usually 16 F32 values) and an invalid entry in the tensor table.
Bytes with_tensor(uint32_t type, std::initializer_list<uint64_t> dims, std::optional<uint64_t> offset = {},
                  size_t bytes = 64) {
  return GgufBuilder().tensor("w", type, dims, Bytes(bytes), offset).build();
}
Bytes with_name(std::string_view name) { return GgufBuilder().tensor(name, TensorType::kF32, {16}, Bytes(64)).build(); }
Bytes with_alignment(uint32_t alignment) {
  return GgufBuilder()
      .scalar<uint32_t>("general.alignment", alignment)
      .tensor("w", TensorType::kF32, {16}, Bytes(64))
      .build();
}
Bytes with_array(uint32_t element_type, uint64_t count, const Bytes& body = {}) {
  Bytes payload = GgufBuilder::array_header(element_type, count);
  payload.insert(payload.end(), body.begin(), body.end());
  return GgufBuilder().raw("list", kArray, payload).build();
}

const Attack kAttacks[] = {
    // Files that are not GGUF files, or that have an unsupported GGUF version.
    {"empty", [] { return Bytes(); }, ErrorCode::kInvalidFile, "the file is empty"},
    {"other_magic", [] { return text("JUNKJUNKJUNKJUNK"); }, ErrorCode::kInvalidFile, "begins with 'JUNK'"},
    {"binary_magic", [] { return Bytes(24); }, ErrorCode::kInvalidFile, "'\\x00\\x00\\x00\\x00'"},
    {"lfs_pointer", [] { return text("version https://git-lfs.github.com/spec/v1\n"); }, ErrorCode::kInvalidFile,
     "Git LFS pointer"},
    {"old_ggml", [] { return text("tjgg\3\0\0\0"); }, ErrorCode::kInvalidFile, "old GGML file"},
    {"web_page", [] { return text("<!DOCTYPE html><html>"); }, ErrorCode::kInvalidFile, "HTML"},
    {"version_0", [] { return with_version(0); }, ErrorCode::kInvalidFile, "version 0"},
    {"version_1", [] { return with_version(1); }, ErrorCode::kUnsupported,
     "format version 1 is not supported; expected 2 or 3"},
    {"version_4", [] { return with_version(4); }, ErrorCode::kUnsupported, "version 4"},
    {"big_endian", [] { return with_version(0x03000000); }, ErrorCode::kUnsupported, "big-endian"},
    // Files with invalid counts.
    {"metadata_count",
     [] {
       GgufBuilder builder;
       builder.n_metadata = kHuge;
       return builder.build();
     },
     ErrorCode::kInvalidFile, "claims 18446744073709551615 metadata entries"},
    {"metadata_count_one_too_many",
     [] {
       GgufBuilder builder;
       builder.n_metadata = 2;
       return builder.scalar<uint64_t>("key", 1).build();
     },
     ErrorCode::kInvalidFile, "claims 2 metadata entries, but only 1"},
    {"tensor_count",
     [] {
       GgufBuilder builder;
       builder.n_tensors = uint64_t{1} << 61;  // This count overflows when multiplied by the size of any entry.
       return builder.build();
     },
     ErrorCode::kInvalidFile, "claims 2305843009213693952 tensors"},
    {"tensor_count_more_than_the_table",
     [] {
       GgufBuilder builder;
       builder.n_tensors = 2;
       return builder.string("long", std::string(200, 'x')).build();
     },
     ErrorCode::kInvalidFile, "tensor table, which claims 2"},
    // Files with invalid keys and values.
    {"key_length", [] { return GgufBuilder().raw("k", 77, length_only(kHuge)).build(); }, ErrorCode::kInvalidFile,
     "'k' has unknown value type 77"},
    {"key_longer_than_file",
     [] {
       Bytes bytes = GgufBuilder().scalar<uint64_t>("key", 1).build();
       std::memset(bytes.data() + 24, 0xff, 8);
       return bytes;
     },
     ErrorCode::kInvalidFile, "the key of metadata entry 0 (at byte 24"},
    {"key_empty", [] { return GgufBuilder().scalar<uint64_t>("", 1).build(); }, ErrorCode::kInvalidFile,
     "invalid key: ''"},
    {"key_with_nul", [] { return GgufBuilder().scalar<uint64_t>(std::string_view("a\0b", 3), 1).build(); },
     ErrorCode::kInvalidFile, "'a\\x00b'"},
    {"key_too_long", [] { return GgufBuilder().scalar<uint64_t>(std::string(65536, 'k'), 1).build(); },
     ErrorCode::kInvalidFile, "invalid key: 'kkk"},
    {"key_twice", [] { return GgufBuilder().scalar<uint8_t>("k.a", 1).string("k.b", "").string("k.a", "").build(); },
     ErrorCode::kInvalidFile, "key 'k.a' occurs twice"},
    {"string_length", [] { return GgufBuilder().raw("text", kString, length_only(kHuge - 7)).build(); },
     ErrorCode::kInvalidFile, "the string of metadata key 'text'"},
    {"boolean_2", [] { return GgufBuilder().raw("flag", kBool, one(2)).build(); }, ErrorCode::kInvalidFile,
     "'flag' holds the boolean 2"},
    {"boolean_in_array", [] { return with_array(kBool, 1, one(255)); }, ErrorCode::kInvalidFile, "boolean 255"},
    // Files with invalid arrays.
    {"array_element_type", [] { return with_array(13, 1, Bytes(8)); }, ErrorCode::kInvalidFile,
     "'list' has unknown element type 13"},
    {"array_element_type_negative", [] { return with_array(0xffffffff, 1, Bytes(8)); }, ErrorCode::kInvalidFile,
     "unknown element type 4294967295"},
    {"array_of_arrays", [] { return with_array(kArray, 1, GgufBuilder::array_header(0, 0)); }, ErrorCode::kUnsupported,
     "'list' is an array of arrays"},
    {"array_count", [] { return with_array(0, kHuge, Bytes(8)); }, ErrorCode::kInvalidFile,
     "claims 18446744073709551615 elements of type uint8"},
    {"array_count_wraps", [] { return with_array(10, (uint64_t{1} << 61) + 1, Bytes(8)); }, ErrorCode::kInvalidFile,
     "elements of type uint64"},
    {"string_array_count", [] { return with_array(kString, 1 << 30, Bytes(80)); }, ErrorCode::kInvalidFile,
     "claims 1073741824 elements of type string"},
    {"string_array_length", [] { return with_array(kString, 1, length_only(1)); }, ErrorCode::kInvalidFile,
     "string 0 of metadata key 'list'"},
    // Files with invalid values of general.alignment or split.count, two keys that control the parser.
    {"alignment_0", [] { return with_alignment(0); }, ErrorCode::kInvalidFile, "general.alignment is 0"},
    {"alignment_3", [] { return with_alignment(3); }, ErrorCode::kInvalidFile, "power of two"},
    {"alignment_4", [] { return with_alignment(4); }, ErrorCode::kInvalidFile, "at least 8"},
    {"alignment_24", [] { return with_alignment(24); }, ErrorCode::kInvalidFile, "power of two"},
    {"alignment_pads_past_the_end", [] { return with_alignment(uint32_t{1} << 31); }, ErrorCode::kInvalidFile,
     "padding before the tensor data"},
    {"alignment_wraps",
     [] {
       return GgufBuilder()
           .scalar<uint64_t>("general.alignment", uint64_t{1} << 63)
           .tensor("w", TensorType::kF32, {16}, Bytes(64))
           .build();
     },
     ErrorCode::kInvalidFile, "general.alignment is 9223372036854775808"},
    {"alignment_type", [] { return GgufBuilder().string("general.alignment", "32").build(); }, ErrorCode::kInvalidFile,
     "'general.alignment' is of type string"},
    {"split", [] { return GgufBuilder().scalar<uint16_t>("split.count", 3).build(); }, ErrorCode::kUnsupported,
     "one of 3 parts of a split model"},
    // Files with invalid tensors.
    {"tensor_name_empty", [] { return with_name(""); }, ErrorCode::kInvalidFile, "tensor 0 has an invalid name"},
    {"tensor_name_nul", [] { return with_name(std::string_view("w\0x", 3)); }, ErrorCode::kInvalidFile, "'w\\x00x'"},
    {"tensor_name_257", [] { return with_name(std::string(257, 'n')); }, ErrorCode::kInvalidFile, "1 to 256 bytes"},
    {"tensor_twice",
     [] {
       return GgufBuilder()
           .tensor("w", TensorType::kF32, {16}, Bytes(64))
           .tensor("w", TensorType::kF32, {16}, Bytes(64))
           .build();
     },
     ErrorCode::kInvalidFile, "tensor 'w' occurs twice"},
    {"dims_none", [] { return with_tensor(kF32, {}); }, ErrorCode::kInvalidFile, "has 0 dimensions"},
    {"dims_five",
     [] {
       return with_tensor(kF32, {1, 1, 1, 1, 16});
     },
     ErrorCode::kInvalidFile, "has 5 dimensions"},
    {"dim_zero",
     [] {
       return with_tensor(kF32, {16, 0});
     },
     ErrorCode::kInvalidFile, "dimension 1 is 0"},
    {"dim_negative", [] { return with_tensor(kF32, {kHuge}); }, ErrorCode::kInvalidFile, "overflows"},
    {"dims_wrap_to_small",
     [] {
       return with_tensor(kF32, {uint64_t{1} << 32, uint64_t{1} << 32});
     },
     ErrorCode::kInvalidFile, "dimension 1 is 4294967296, and the number of values overflows"},
    {"dims_wrap_in_bytes", [] { return with_tensor(kF32, {uint64_t{1} << 62}); }, ErrorCode::kInvalidFile,
     "size in bytes overflows"},
    {"row_not_whole_blocks", [] { return with_tensor(kQ8_0, {33}); }, ErrorCode::kInvalidFile,
     "rows of 33 values do not fill whole blocks of Q8_0 (32 values)"},
    // Together, two rows of 16 values fill a block, but a single row does not.
    {"row_shorter_than_block",
     [] {
       return with_tensor(kQ8_0, {16, 2});
     },
     ErrorCode::kInvalidFile, "rows of 16"},
    {"type_known_but_unsupported", [] { return with_tensor(24, {128}, 0, 128); }, ErrorCode::kUnsupported,
     "tensor 'w' has type I8 (ggml type 24)"},
    {"row_not_whole_blocks_of_bits", [] { return with_tensor(41, {64}, 0, 18); }, ErrorCode::kInvalidFile,
     "rows of 64 values do not fill whole blocks of Q1_0 (128 values)"},
    {"bits_beyond_the_end", [] { return with_tensor(42, {128}, 0, 35); }, ErrorCode::kInvalidFile, "needs 36 bytes"},
    {"type_withdrawn", [] { return with_tensor(4, {32}); }, ErrorCode::kUnsupported, "type Q4_2 (ggml type 4)"},
    {"type_unknown", [] { return with_tensor(99, {32}); }, ErrorCode::kUnsupported, "type unknown (ggml type 99)"},
    {"type_negative", [] { return with_tensor(0xffffffff, {32}); }, ErrorCode::kUnsupported, "ggml type 4294967295"},
    {"offset_unaligned", [] { return with_tensor(kF32, {8}, 4); }, ErrorCode::kInvalidFile,
     "offset 4, not a multiple of the alignment 32"},
    {"offset_past_the_end", [] { return with_tensor(kF32, {16}, 64); }, ErrorCode::kInvalidFile,
     "needs 64 bytes at offset 64 of the tensor data, which has 64 bytes"},
    {"offset_overlaps_the_end", [] { return with_tensor(kF32, {16}, 32); }, ErrorCode::kInvalidFile, "truncated"},
    {"offset_wraps", [] { return with_tensor(kF32, {16}, kHuge - 31); }, ErrorCode::kInvalidFile,
     "offset 18446744073709551584"},
    {"size_past_the_end", [] { return with_tensor(kF32, {17}); }, ErrorCode::kInvalidFile, "needs 68 bytes"},
    {"tensors_overlap",
     [] { return GgufBuilder().tensor("a", kF32, {16}, Bytes(64), 32).tensor("b", kF32, {16}, Bytes(64), 0).build(); },
     ErrorCode::kInvalidFile, "tensors 'b' and 'a' overlap"},
};

// A file that contains a bit of everything, small enough to be truncated and changed thousands of times.
GgufBuilder small_file() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .scalar<uint32_t>("general.alignment", 32)
      .scalar<float>("eps", 1e-5f)
      .scalar<bool>("flag", true)
      .scalar<int64_t>("i64", -5)
      .strings("tokens", {"<s>", "a", "", "ab"})
      .array<float>("scores", {0.0f, -1.0f, -2.0f})
      .array<int32_t>("types", {3, 1, 1, 1})
      .array<bool>("flags", {true, false})
      .tensor("norm.weight", TensorType::kF32, {8}, Bytes(32))
      .tensor("embd.weight", TensorType::kQ8_0, {32, 2}, Bytes(68))
      .tensor("out.weight", TensorType::kQ4_K, {256}, Bytes(144));
  return builder;
}

}  // namespace

TEST(gguf_rejects_each_attack_with_its_reason) {
  for (const Attack& attack : kAttacks) {
    const Bytes bytes = attack.make();
    const auto file = GgufFile::parse(bytes);
    if (file.ok()) {
      check::fail(__FILE__, __LINE__, std::string(attack.name) + ": was accepted");
      continue;
    }
    const Error& error = file.error();
    if (error.code != attack.code || error.message.find(attack.says) == std::string::npos)
      check::fail(__FILE__, __LINE__, std::string(attack.name) + ": says: " + error.message);
  }
}

// Files with unusual but harmless properties, which occur in real files.
TEST(gguf_accepts_unusual_but_harmless_files) {
  Bytes trailing = with_tensor(kF32, {16});
  trailing.resize(trailing.size() + 1000);
  for (const Bytes& bytes : {trailing, GgufBuilder().build(), with_name(std::string(256, 'n')), with_alignment(32),
                             GgufBuilder().scalar<uint16_t>("split.count", 1).build(), with_name("Gewicht \xc3\xa4"),
                             GgufBuilder().string("tokenizer.chat_template", std::string(70000, '{')).build()}) {
    const auto file = GgufFile::parse(bytes);
    if (!file.ok()) check::fail(__FILE__, __LINE__, file.error().message);
    if (file.ok()) touch_everything(**file, bytes);
  }
}

TEST(gguf_rejects_a_file_truncated_at_any_byte) {
  const Bytes whole = small_file().build();
  const auto intact = GgufFile::parse(whole);
  REQUIRE(intact.ok());
  touch_everything(**intact, whole);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(),
                    // A buffer of exactly this size, so that sanitizers detect reads past the buffer's end.
                    whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto file = GgufFile::parse(cut);
    if (file.ok())
      check::fail(__FILE__, __LINE__, "accepted when cut to " + std::to_string(size) + " bytes");
    else
      CHECK(file.error().code == ErrorCode::kInvalidFile);
  }
}

// Flips one to four bits anywhere. The result is either an error or a file that satisfies the invariants in gguf.h.
TEST(gguf_survives_bit_flips) {
  const Bytes whole = small_file().build();
  const size_t head = small_file().head().size();
  std::mt19937_64 random(20240817);
  size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = whole;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      const size_t bit = random() % (8 * head);
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    if (const auto file = GgufFile::parse(damaged)) {
      touch_everything(**file, damaged);
      ++accepted;
    } else {
      CHECK(!file.error().message.empty() && file.error().message.size() < 1000);
    }
  }
  CHECK(accepted > 100 && accepted < 19900);  // Some damaged files were accepted and some rejected.
}
