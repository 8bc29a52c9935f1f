#include "formats/gguf/few_bits.h"

#include <array>
#include <cstring>

namespace monolith {
namespace {

// A block is an F16 scale d, then the codes of the values, lowest bits first. In Q1_0, bit b of a byte is the code of
// value b; in Q2_0, bits 2 b and 2 b + 1 are the code of value b.
constexpr std::array kTypes = {
    FewBits{41, "Q1_0", 1, 128, 18},  // Values are -d and d.
    FewBits{42, "Q2_0", 2, 64, 18},   // Values are -d, 0, d and 2 d.
};
constexpr int64_t kScaleBytes = 2;

template <int kBits>
class FewBitsRows final : public RowMaker {
 public:
  FewBitsRows(const FewBits& type, std::span<const std::byte> data, int64_t cols)
      : type_(type), data_(data), cols_(cols) {}

  int64_t rows() const override { return static_cast<int64_t>(data_.size()) / row_bytes(); }
  int64_t cols() const override { return cols_; }
  TensorType exact_type() const override { return TensorType::kQ4_0; }
  void make(int64_t first, int64_t count, float* out) const override {
    std::vector<std::byte> blocks(static_cast<size_t>(count * cols_ / kStored.block_values * kStored.block_bytes));
    store(first, count, blocks.data());
    dequantize(TensorType::kQ4_0, blocks.data(), count * cols_, out);
  }
  void store(int64_t first, int64_t count, std::byte* out) const override {
    const std::byte* from = data_.data() + first * row_bytes();
    for (int64_t block = 0; block < count * cols_ / type_.block_values; ++block, from += type_.block_bytes)
      for (int64_t at = 0; at < type_.block_values; at += kStored.block_values) {
        std::memcpy(out, from, kScaleBytes);
        out += kScaleBytes;
        const auto code = [&](int64_t i) { return static_cast<unsigned>(stored_code(from + kScaleBytes, at + i)); };
        for (int64_t i = 0; i < kStored.block_values / 2; ++i)
          *out++ = static_cast<std::byte>(code(i) | code(i + kStored.block_values / 2) << 4);
      }
  }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override { places.push_back(data_); }

 private:
  struct Stored {
    int64_t block_values, block_bytes;
  };
  static constexpr Stored kStored = {32, 18};  // Q4_0: d, then nibbles. A value is d * (nibble - 8).

  int64_t row_bytes() const { return cols_ / type_.block_values * type_.block_bytes; }
  static int stored_code(const std::byte* codes, int64_t i) {
    constexpr int kPerByte = 8 / kBits;
    const int code = std::to_integer<int>(codes[i / kPerByte]) >> (i % kPerByte * kBits) & ((1 << kBits) - 1);
    return 8 + (kBits == 1 ? 2 * code - 1 : code - 1);
  }

  const FewBits& type_;
  std::span<const std::byte> data_;
  int64_t cols_;
};

}  // namespace

const FewBits* few_bits(uint32_t ggml_type) {
  for (const FewBits& known : kTypes)
    if (known.ggml_type == ggml_type) return &known;
  return nullptr;
}

std::shared_ptr<const RowMaker> few_bits_rows(const FewBits& type, std::span<const std::byte> data, int64_t cols) {
  if (type.bits == 1) return std::make_shared<FewBitsRows<1>>(type, data, cols);
  return std::make_shared<FewBitsRows<2>>(type, data, cols);
}

}  // namespace monolith
