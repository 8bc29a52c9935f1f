#include "formats/gguf/touch.h"

namespace monolith::testing {

void insist(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "a parsed file violates an invariant: %s\n", what);
  std::abort();
}

uint64_t touch_everything(const GgufFile& file, std::span<const std::byte> bytes) {
  uint64_t sum = file.alignment();
  const auto inside = [&](const void* data, size_t size) {
    const auto* at = static_cast<const std::byte*>(data);
    return size == 0 || (at >= bytes.data() && size <= bytes.size() && at <= bytes.data() + bytes.size() - size);
  };
  const auto add = [&](std::span<const std::byte> range) {
    insist(inside(range.data(), range.size()), "a view leaves the file");
    for (std::byte b : range) sum = sum * 31 + static_cast<uint8_t>(b);
  };
  for (const auto& [key, value] : file.metadata()) {
    add(std::as_bytes(std::span(key)));
    add(value.payload);
    insist(file.find(key) == &value, "find() finds each key");
    if (const auto n = file.unsigned_integer(key)) sum += n->value();
    if (const auto n = file.number(key)) sum += n->value() < 0;
    if (const auto b = file.boolean(key)) sum += b->value();
    if (const auto text = file.string(key)) add(std::as_bytes(std::span(text->value())));
    if (const auto strings = file.strings(key)) {
      insist(strings->value().size() == value.count, "strings() has `count` elements");
      for (std::string_view text : strings->value()) add(std::as_bytes(std::span(text)));
    }
    if (const auto numbers = file.numbers(key)) {
      insist(numbers->value().size() == value.count, "numbers() has `count` elements");
      for (float n : numbers->value()) sum += n < 0;
    }
    if (const auto integers = file.integers(key)) {
      insist(integers->value().size() == value.count, "integers() has `count` elements");
      for (int64_t n : integers->value()) sum += static_cast<uint64_t>(n);
    }
  }
  std::vector<float> values;
  for (const GgufTensor& tensor : file.tensors()) {
    insist(file.tensor(tensor.name) == &tensor, "tensor() finds each name");
    const TensorTypeTraits& traits = traits_of(tensor.type);
    insist(tensor.shape[0] % traits.block_values == 0, "rows are whole blocks");
    add(std::as_bytes(std::span(tensor.name)));
    const int64_t n_values = std::min<int64_t>(tensor.n_values(), 16 * 256);
    // The rows of such a tensor are converted to the tensor's type when they are read.
    if (tensor.source != nullptr) {
      insist(tensor.data.empty(), "tensors that are converted on reading have no data");
      for (const auto place : tensor.source->places()) add(place);
      const int64_t cols = tensor.shape[0], rows = tensor.source->rows();
      insist(tensor.source->cols == cols && rows * cols == tensor.n_values(), "rows that are made are the tensor's");
      const int64_t count = std::max<int64_t>(1, n_values / cols);
      for (const int64_t first : {int64_t{0}, rows - std::min(count, rows)}) {
        values.resize(static_cast<size_t>(std::min(count, rows) * cols));
        tensor.source->maker->make(first, std::min(count, rows), values.data());
        for (float value : values) sum += value < 0;
      }
      continue;
    }
    insist(static_cast<uint64_t>(tensor.n_values() / traits.block_values * traits.block_bytes) == tensor.data.size(),
           "data is exactly the tensor's bytes");
    add(tensor.data);
    values.resize(static_cast<size_t>(n_values));
    dequantize(tensor.type, tensor.data.data(), n_values / traits.block_values * traits.block_values, values.data());
    for (float value : values) sum += value < 0;
  }
  return sum;
}

}  // namespace monolith::testing
