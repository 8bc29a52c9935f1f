// Tests CpuBackend as the model uses it: construction, forced instruction sets, memory, embedding and errors.
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matmul/matmul.h"
#include "check.h"
#include "matrix_data.h"

using namespace monolith;

TEST(cpu_backend_names_what_it_does_not_support) {
  const auto backend = make_cpu_backend({.threads = 1, .arithmetic = Arithmetic::kExact});
  REQUIRE(backend.ok());
  const auto problem = [&](const Requirement& requirement) {
    const Status status = (*backend)->supports(requirement);
    return status.ok() ? "" : status.error().message;
  };
  CHECK_EQ(problem(OperationKind::kWriteStreams), std::string());
  CHECK_EQ(problem(MemoryFeature::kRowFactors), std::string());
  CHECK_EQ(problem(TensorType::kIQ2_XS), std::string());
  for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0})
    CHECK_EQ(problem(type), std::string());
  CHECK_EQ(problem(MemoryFeature::kFp8Weights), "this backend does not support weights that are converted to FP8");
  CHECK(problem(KvType::kFp8).starts_with("kv_type fp8 is supported only on GPUs"));
  CHECK_EQ(problem(Fixed16Heads{64}), "this backend does not support 16-bit integers with heads of 64 dimensions");
  const KvShape shape{{{StateKind::kSlot, 1, 64, 64, 0}}, 4, KvType::kF16};
  CHECK(problem(shape).starts_with("layer 0 keeps recurrent state"));
  CHECK_EQ(unsupported(OperationKind::kDeltaRule).message, "this backend does not support the operation delta_rule");
}

TEST(backend_forced_isa_is_the_one_that_runs) {
  for (CpuIsa isa : available_cpu_isas()) {
    auto backend = make_cpu_backend({.threads = 2, .isa = cpu_isa_name(isa)});
    REQUIRE(backend.ok());
    CHECK_EQ((*backend)->info().name, "cpu");
    CHECK_EQ((*backend)->info().isa, cpu_isa_name(isa));
    CHECK_EQ((*backend)->info().threads, 2);
    REQUIRE((*backend)->reserve(4, 64, 16, 16).ok());
    const auto data = matrix_data(TensorType::kQ8_0, 20, 64, 1);
    auto matrix = (*backend)->matrix({TensorType::kQ8_0, 20, 64, data});
    REQUIRE(matrix.ok());
    const std::vector<float> x(64, 0.5f);
    std::vector<float> out(20);
    std::vector<uint64_t> before;
    for (CpuIsa other : available_cpu_isas()) before.push_back(matmul_kernels(other).calls->load());
    const MatmulTarget target{.weight = matrix->get(), .out = out.data(), .out_stride = 20};
    (*backend)->matmul({&target, 1}, x.data(), RowCount::fixed(1));
    size_t i = 0;
    for (CpuIsa other : available_cpu_isas())
      CHECK_EQ(matmul_kernels(other).calls->load() - before[i++], other == isa ? 1u : 0u);
  }
}

// Each instruction set has its own kernels, so the name of the kernel table identifies the code that ran.
TEST(backend_instruction_sets_have_separate_kernels) {
  const auto isas = available_cpu_isas();
  for (size_t a = 0; a < isas.size(); ++a) {
    const MatmulKernels& first = matmul_kernels(isas[a]);
    CHECK_EQ(std::string_view(first.name), cpu_isa_name(isas[a]));
    for (size_t b = a + 1; b < isas.size(); ++b) {
      const MatmulKernels& second = matmul_kernels(isas[b]);
      CHECK(first.calls != second.calls);
      if (isas[b] == CpuIsa::kAmx) CHECK(first.tiles == nullptr && second.tiles != nullptr);
      if (isas[a] == CpuIsa::kAvx512 && isas[b] == CpuIsa::kAmx) continue;  // AMX adds kernels to the AVX-512 kernels.
      // With AVX-VNNI, only the kernels for quantized weights differ from those for AVX2.
      const bool is_vnni = isas[a] == CpuIsa::kAvx2 && isas[b] == CpuIsa::kAvxVnni;
      for (int type = 0; type < kPanelTypes; ++type)
        CHECK_EQ(first.panel[type] == second.panel[type], is_vnni && kAvxVnniPanels[type] == nullptr);
      if (is_vnni) continue;
      CHECK(first.pack[0] != second.pack[0] && first.pack[1] != second.pack[1]);
    }
  }
}

TEST(backend_rejects_bad_options) {
  const auto isa = make_cpu_backend({.threads = 1, .isa = "neon9"});
  REQUIRE(!isa.ok());
  CHECK(isa.error().code == ErrorCode::kInvalidArgument);
  for (int threads : {-1, 1000000}) {
    const auto backend = make_cpu_backend({.threads = threads});
    REQUIRE(!backend.ok());
    CHECK(backend.error().code == ErrorCode::kInvalidArgument);
    CHECK(backend.error().message.find(std::to_string(threads)) != std::string::npos);
  }
  const auto automatic = make_cpu_backend({});
  REQUIRE(automatic.ok());
  CHECK_EQ((*automatic)->info().threads, usable_cores());
}

TEST(backend_rejects_bad_matrices) {
  auto backend = make_cpu_backend({.threads = 1, .isa = "plain"});
  REQUIRE(backend.ok());
  const std::vector<std::byte> data(34 * 4);
  const auto reject = [&](TensorType type, int64_t rows, int64_t cols, ErrorCode code) {
    const auto matrix = (*backend)->matrix({type, rows, cols, data});
    CHECK(!matrix.ok());
    if (!matrix.ok()) CHECK(matrix.error().code == code);
  };
  // Rejected: there is data for only four of the five rows.
  reject(TensorType::kQ8_0, 5, 32, ErrorCode::kInvalidArgument);
  reject(TensorType::kQ8_0, 4, 33, ErrorCode::kUnsupported);  // Rejected: the rows do not consist of whole blocks.
  reject(TensorType::kQ4_K, 1, 128, ErrorCode::kUnsupported);
  reject(TensorType::kQ8_0, 0, 32, ErrorCode::kUnsupported);
  reject(TensorType::kQ8_0, -1, 32, ErrorCode::kUnsupported);
  reject(TensorType::kQ8_0, int64_t{1} << 40, int64_t{1} << 40, ErrorCode::kUnsupported);
  reject(static_cast<TensorType>(15), 1, 256, ErrorCode::kUnsupported);
  CHECK_EQ((*backend)->matrix_bytes(TensorType::kQ8_0, 4, 33), size_t{0});
  CHECK(!(*backend)->allocate(-1).ok());
  CHECK(!(*backend)->allocate(INT64_MAX).ok());
  CHECK(!(*backend)->reserve(0, 1, 1, 1).ok());
  CHECK(!(*backend)->reserve(INT32_MAX, INT64_MAX, 1, 1).ok());
}

// The memory that weights of each type take, relative to their size in the file. The memory plan relies on these
// ratios.
TEST(backend_matrix_bytes_stay_close_to_the_file) {
  auto backend = make_cpu_backend({.threads = 1, .isa = "plain"});
  REQUIRE(backend.ok());
  for (TensorType type : kAllTypes) {
    const TensorTypeTraits& traits = traits_of(type);
    const double file =
        4096.0 * 2048 / static_cast<double>(traits.block_values) * static_cast<double>(traits.block_bytes);
    const double held = static_cast<double>((*backend)->matrix_bytes(type, 4096, 2048));
    // Each 6-bit scale takes one byte in memory.
    const bool six_bit_scales = type == TensorType::kQ3_K || type == TensorType::kQ4_K || type == TensorType::kQ5_K ||
                                type == TensorType::kIQ4_XS;
    if (is_expanded_type(type) && type != TensorType::kTQ2_0) {
      // Each value is expanded to one code in memory; panels.h states the number of bits.
      const double bits = 8 * held / (4096.0 * 2048);
      const bool two = type == TensorType::kTQ1_0 || type == TensorType::kIQ1_S;
      const bool four = type == TensorType::kIQ3_XXS || type == TensorType::kIQ3_S;
      const double codes = two ? 2 : four ? 4 : 3, numbers = type == TensorType::kTQ1_0 ? 0 : 8.0 / 32;
      CHECK_EQ(bits, codes + numbers + 16.0 / 256);
    } else if (six_bit_scales)
      CHECK(held > file && held / file <= 1.04);
    else
      CHECK_EQ(held, file);
    const auto data = matrix_data(type, 17, 256, 1);
    auto matrix = (*backend)->matrix({type, 17, 256, data});
    REQUIRE(matrix.ok());
    CHECK_EQ((*matrix)->bytes, (*backend)->matrix_bytes(type, 17, 256));
    CHECK((*matrix)->type == type);
    CHECK_EQ((*matrix)->rows, 17);
    CHECK_EQ((*matrix)->cols, 256);
  }
}

TEST(backend_memory_is_aligned_and_zero) {
  auto backend = make_cpu_backend({.threads = 1, .isa = "plain"});
  REQUIRE(backend.ok());
  for (int64_t count : {0, 1, 1000, 1 << 20}) {
    auto floats = (*backend)->allocate(count);
    REQUIRE(floats.ok());
    CHECK(reinterpret_cast<uintptr_t>(*floats) % 64 == 0);
    for (int64_t i = 0; i < count; ++i) REQUIRE((*floats)[i] == 0.0f);
    std::vector<float> values(static_cast<size_t>(count), 3.5f), back(static_cast<size_t>(count));
    (*backend)->write_floats(*floats, values.data(), count);
    (*backend)->read_floats(back.data(), *floats, count);
    CHECK(back == values);
  }
}

// An embedding row is bit-identical to the result of dequantize(), even in exact arithmetic.
TEST(backend_embed_equals_dequantize) {
  constexpr int64_t kRows = 21, kCols = 512;
  for (Arithmetic arithmetic : {Arithmetic::kProduction, Arithmetic::kExact}) {
    auto backend = make_cpu_backend({.threads = 2, .isa = "auto", .arithmetic = arithmetic});
    REQUIRE(backend.ok());
    for (TensorType type : kAllTypes) {
      const auto data = matrix_data(type, kRows, kCols, 7);
      std::vector<float> expected(kRows * kCols);
      dequantize(type, data.data(), kRows * kCols, expected.data());
      auto table = (*backend)->matrix({type, kRows, kCols, data});
      REQUIRE(table.ok());
      const std::vector<int32_t> tokens = {20, 0, 15, 16, 3, 3, 19, 1, 8};
      std::vector<float> out(tokens.size() * kCols);
      (*backend)->embed(**table, tokens.data(), RowCount::fixed(static_cast<int>(tokens.size())), out.data());
      for (size_t i = 0; i < tokens.size(); ++i)
        CHECK(std::memcmp(&out[i * kCols], &expected[static_cast<size_t>(tokens[i]) * kCols], kCols * 4) == 0);
    }
  }
}
