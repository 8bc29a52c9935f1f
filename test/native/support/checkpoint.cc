#include "support/checkpoint.h"

namespace monolith::testing {

Weights weights_of(const GgufFile& file) {
  Weights all;
  for (const GgufTensor& tensor : file.tensors()) {
    FloatTensor& to = all[std::string(tensor.name)];
    for (int i = tensor.n_dims; i-- > 0;) to.shape.push_back(tensor.shape[static_cast<size_t>(i)]);
    to.values.resize(static_cast<size_t>(tensor.n_values()));
    dequantize(tensor.type, tensor.data.data(), tensor.n_values(), to.values.data());
  }
  return all;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

bool is_table_of_numbers(std::string_view name) { return name.ends_with("ffn_gate_tid2eid.weight"); }

Bytes gguf_of(const GgufFile& file, const Weights& weights, const std::vector<std::string>& without,
              const std::function<void(GgufBuilder&)>& more) {
  GgufBuilder builder;
  more(builder);
  for (const auto& [key, value] : file.metadata()) {
    if (std::ranges::find(without, key) != without.end()) continue;
    Bytes payload;
    if (value.type == GgufValueType::kString) put(payload, static_cast<uint64_t>(value.payload.size()));
    if (value.type == GgufValueType::kArray)
      payload = GgufBuilder::array_header(static_cast<uint32_t>(value.element_type), value.count);
    payload.insert(payload.end(), value.payload.begin(), value.payload.end());
    builder.raw(key, static_cast<uint32_t>(value.type), payload);
  }
  for (const auto& [name, tensor] : weights) {
    const auto data = std::as_bytes(std::span(tensor.values));
    const auto dim = [&](size_t i) { return static_cast<uint64_t>(tensor.shape[tensor.shape.size() - 1 - i]); };
    if (is_table_of_numbers(name)) {
      const std::vector<int32_t> numbers = as_numbers<int32_t>(tensor.values);
      builder.tensor(name, TensorType::kI32, {dim(0), dim(1)}, std::as_bytes(std::span(numbers)));
      continue;
    }
    switch (tensor.shape.size()) {
      case 1: builder.tensor(name, TensorType::kF32, {dim(0)}, data); break;
      case 2: builder.tensor(name, TensorType::kF32, {dim(0), dim(1)}, data); break;
      case 3: builder.tensor(name, TensorType::kF32, {dim(0), dim(1), dim(2)}, data); break;
      default: builder.tensor(name, TensorType::kF32, {dim(0), dim(1), dim(2), dim(3)}, data);
    }
  }
  return builder.build();
}

bool is_named(std::string_view name, std::string_view stem) {
  return name == stem || name.ends_with("." + std::string(stem));
}

void each(Weights& weights, std::string_view stem, const std::function<void(FloatTensor&)>& change) {
  for (auto& [name, tensor] : weights)
    if (is_named(name, stem)) change(tensor);
}

void pick_rows(FloatTensor& tensor, const std::function<int64_t(int64_t)>& of) {
  const int64_t rows = tensor.shape[0];
  const size_t row = tensor.values.size() / static_cast<size_t>(rows);
  std::vector<float> out(tensor.values.size());
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(tensor.values.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(of(i)) * row), row,
                out.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * row));
  tensor.values = std::move(out);
}

void transpose(FloatTensor& tensor) {
  const auto rows = static_cast<size_t>(tensor.shape[0]), cols = static_cast<size_t>(tensor.shape[1]);
  std::vector<float> out(tensor.values.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) out[j * rows + i] = tensor.values[i * cols + j];
  tensor.values = std::move(out);
  std::swap(tensor.shape[0], tensor.shape[1]);
}

void as_conv1d(FloatTensor& tensor) { tensor.shape = {tensor.shape[0], 1, tensor.shape.back()}; }

void as_vector(FloatTensor& tensor) { tensor.shape = {static_cast<int64_t>(tensor.values.size())}; }

void as_rounded_decay(FloatTensor& tensor) {
  for (float& value : tensor.values)
    value =
        static_cast<float>(-std::exp(static_cast<double>(static_cast<float>(std::log(-static_cast<double>(value))))));
}

void as_log_of_decay(FloatTensor& tensor) {
  for (float& value : tensor.values) value = static_cast<float>(std::log(-static_cast<double>(value)));
}

void as_rounded_norm(FloatTensor& tensor) {
  for (float& value : tensor.values) value = value - 1 + 1;
}

void as_norm_less_one(FloatTensor& tensor) {
  for (float& value : tensor.values) value -= 1;
}

FloatTensor join_rows(const std::vector<const FloatTensor*>& parts, int64_t groups) {
  FloatTensor out{{0, parts[0]->shape.back()}, {}};
  for (const FloatTensor* part : parts) out.shape[0] += part->shape[0];
  for (int64_t group = 0; group < groups; ++group)
    for (const FloatTensor* part : parts) {
      const auto share = static_cast<ptrdiff_t>(part->values.size()) / groups;
      out.values.insert(out.values.end(), part->values.begin() + group * share,
                        part->values.begin() + (group + 1) * share);
    }
  return out;
}

std::vector<SafetensorData> renamed(const Weights& weights, const std::map<std::string, std::string>& names,
                                    const std::string& layers) {
  std::vector<SafetensorData> out;
  for (const auto& [name, tensor] : weights) {
    std::string prefix, rest = name;
    if (name.starts_with("blk.")) {
      const size_t dot = name.find('.', 4);
      prefix = layers + name.substr(4, dot - 4) + ".";
      rest = name.substr(dot + 1);
    }
    const auto found = names.find(rest);
    if (found == names.end()) {
      check::fail(__FILE__, __LINE__, "no checkpoint name for " + name);
      continue;
    }
    if (found->second.empty()) continue;
    const std::string to = prefix + found->second;
    const size_t place = to.find("{}");
    if (is_table_of_numbers(name)) {
      const std::vector<int64_t> numbers = as_numbers<int64_t>(tensor.values);
      out.push_back(
          {to, "I64", tensor.shape, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)}});
      continue;
    }
    if (place == std::string::npos) {
      out.push_back({to, "F32", tensor.shape, bytes_of(tensor.values)});
      continue;
    }
    const std::string bytes = bytes_of(tensor.values);
    const auto count = static_cast<size_t>(tensor.shape[0]);
    for (size_t i = 0; i < count; ++i)
      out.push_back({std::string(to).replace(place, 2, std::to_string(i)),
                     "F32",
                     {tensor.shape.begin() + 1, tensor.shape.end()},
                     bytes.substr(bytes.size() / count * i, bytes.size() / count)});
  }
  return out;
}

}  // namespace monolith::testing
