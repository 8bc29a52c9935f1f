// Tests the upload of weights to the device: regardless of the size of the transfer buffers, matrices contain the same
// bytes as if they had been packed on the host.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/dense/dense.h"
#include "emulator/emulator.h"
#include "backend/cuda/loader.h"
#include "backend/cuda/matmul/matrix.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

std::vector<std::byte> random_bytes(size_t n) {
  static std::mt19937 source(8);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(source());
  return bytes;
}

std::vector<std::byte> bytes_of(Runtime& runtime, const Matrix& matrix) {
  std::vector<std::byte> bytes(matrix.bytes);
  runtime.download(bytes.data(), static_cast<const CudaMatrix&>(matrix).data(), bytes.size());
  runtime.synchronize();
  return bytes;
}

// Packs 16-bit rows one number at a time, in the layout defined in dense.h.
std::vector<std::byte> packed_plainly(const std::byte* rows, int64_t n_rows, int64_t cols) {
  std::vector<uint16_t> packed(dense_bytes(n_rows, cols) / 2);
  const int64_t steps = dense_blocks(cols) * (kDenseBlockK / 16);
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t k = 0; k < cols; ++k) {
      const int64_t lane = row % 8 * 4 + k % 8 / 2, word = row % 16 / 8 + k % 16 / 8 * 2;
      const int64_t at = (((row / 16 * steps + k / 16) * 32 + lane) * 4 + word) * 2 + k % 2;
      std::memcpy(&packed[static_cast<size_t>(at)], rows + (row * cols + k) * 2, 2);
    }
  const auto bytes = std::as_bytes(std::span(packed));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST(loader_packs_dense_matrices_like_the_host) {
  auto runtime = Runtime::open(0);
  REQUIRE(runtime.ok());
  using enum emulator::Order;
  for (const auto& [rows, cols, order] : {std::tuple{1, 1, kAscending}, std::tuple{16, 64, kDescending},
                                          std::tuple{45, 70, kShuffled}, std::tuple{200, 333, kAscending}}) {
    emulator::set_order(order);
    const std::vector<std::byte> data = random_bytes(static_cast<size_t>(rows * cols) * 2 + 1);
    const std::span<const std::byte> odd = std::span(data).subspan(1);  // Tensors in files may be unaligned.
    for (const size_t piece : {size_t{64}, size_t{20'000}, Loader::kPieceBytes}) {
      Loader loader(**runtime, piece);
      REQUIRE(loader.start().ok());
      auto matrix = make_matrix(loader, {TensorType::kBF16, rows, cols, odd}, false);
      REQUIRE(matrix.ok());
      CHECK(bytes_of(**runtime, **matrix) == packed_plainly(odd.data(), rows, cols));
    }
  }
  emulator::set_order(kAscending);
}

TEST(loader_uploads_matrices_with_buffers_of_any_size) {
  auto runtime = Runtime::open(0);
  REQUIRE(runtime.ok());
  Loader whole(**runtime), small(**runtime, 3000);
  REQUIRE(whole.start().ok());
  REQUIRE(small.start().ok());
  constexpr int64_t kRows = 75, kCols = 256;
  for (const auto& [type, exact] :
       {std::pair{TensorType::kQ4_K, false}, std::pair{TensorType::kQ8_0, false}, std::pair{TensorType::kF32, false},
        std::pair{TensorType::kQ6_K, true}, std::pair{TensorType::kF16, true}}) {
    const TensorTypeTraits& traits = traits_of(type);
    const std::vector<std::byte> data =
        random_bytes(static_cast<size_t>(kRows * kCols / traits.block_values * traits.block_bytes));
    auto once = make_matrix(whole, {type, kRows, kCols, data}, exact);
    auto pieces = make_matrix(small, {type, kRows, kCols, data}, exact);
    REQUIRE(once.ok());
    REQUIRE(pieces.ok());
    CHECK(bytes_of(**runtime, **once) == bytes_of(**runtime, **pieces));
    if (!exact) continue;
    std::vector<float> values(kRows * kCols);
    dequantize(type, data.data(), kRows * kCols, values.data());
    const std::vector<std::byte> there = bytes_of(**runtime, **pieces);
    CHECK(std::memcmp(there.data(), values.data(), there.size()) == 0);
  }
  // The memory that rest() has freed can be allocated again.
  REQUIRE(small.rest().ok());
  const std::vector<std::byte> data = random_bytes(40 * 70 * 2);
  auto matrix = make_matrix(small, {TensorType::kF16, 40, 70, data}, false);
  REQUIRE(matrix.ok());
  CHECK(bytes_of(**runtime, **matrix) == packed_plainly(data.data(), 40, 70));
  auto short_data = make_matrix(small, {TensorType::kF16, 40, 71, data}, false);
  CHECK(!short_data.ok());
}

TEST(loader_copies_floats_both_ways) {
  auto runtime = Runtime::open(0);
  REQUIRE(runtime.ok());
  Loader loader(**runtime, 256);
  REQUIRE(loader.start().ok());
  const std::vector<std::byte> data = random_bytes(1500);
  auto there = (*runtime)->allocate(data.size());
  REQUIRE(there.ok());
  std::vector<std::byte> source = data, back(data.size());
  loader.write(*there, source.data(), source.size());
  // The loader has already read the source, which may therefore be overwritten.
  std::fill(source.begin(), source.end(), std::byte{0});
  loader.read(back.data(), *there, back.size());
  CHECK(back == data);
}
