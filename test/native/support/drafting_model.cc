#include "support/drafting_model.h"

namespace monolith::testing {

int64_t LooseModel::Tensor::values() const {
  int64_t count = 1;
  for (const uint64_t dim : dims) count *= static_cast<int64_t>(dim);
  return count;
}

LooseModel::LooseModel(const GgufFile& file) {
  architecture = std::string(file.string("general.architecture")->value());
  for (const auto& [key, value] : file.metadata()) {
    Bytes payload;
    if (value.type == GgufValueType::kArray)
      payload = GgufBuilder::array_header(static_cast<uint32_t>(value.element_type), value.count);
    if (value.type == GgufValueType::kString) put(payload, static_cast<uint64_t>(value.payload.size()));
    payload.insert(payload.end(), value.payload.begin(), value.payload.end());
    keys[std::string(key)] = {static_cast<uint32_t>(value.type), std::move(payload)};
  }
  for (const GgufTensor& tensor : file.tensors()) {
    Tensor& copy = tensors[std::string(tensor.name)];
    copy.type = tensor.type;
    for (int i = 0; i < tensor.n_dims; ++i)
      copy.dims.push_back(static_cast<uint64_t>(tensor.shape[static_cast<size_t>(i)]));
    copy.data.assign(tensor.data.begin(), tensor.data.end());
  }
}

void LooseModel::set(const std::string& name, uint32_t value) {
  Bytes payload;
  put(payload, value);
  keys[key(name)] = {static_cast<uint32_t>(GgufValueType::kUint32), payload};
}

uint32_t LooseModel::number(const std::string& name) const {
  uint32_t value = 0;
  std::memcpy(&value, keys.at(key(name)).payload.data(), sizeof value);
  return value;
}

void LooseModel::put_floats(const std::string& name, std::vector<uint64_t> dims, const std::vector<float>& values) {
  Tensor& tensor = tensors[name];
  tensor = {TensorType::kF32, std::move(dims), {}};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.data.assign(bytes.begin(), bytes.end());
}

std::vector<float> LooseModel::floats(const std::string& name) const {
  const Tensor& tensor = tensors.at(name);
  std::vector<float> values(static_cast<size_t>(tensor.values()));
  dequantize(tensor.type, tensor.data.data(), tensor.values(), values.data());
  return values;
}

void LooseModel::zero(const std::string& name) {
  if (const auto at = tensors.find(name); at != tensors.end())
    put_floats(name, at->second.dims, std::vector<float>(static_cast<size_t>(at->second.values())));
}

void LooseModel::change_layer_arrays(uint64_t from,
                                     const std::function<Bytes(const Bytes& items, size_t item_bytes)>& change) {
  for (auto& [name, value] : keys) {
    if (value.type != static_cast<uint32_t>(GgufValueType::kArray) || name.starts_with("tokenizer.")) continue;
    uint32_t type = 0;
    uint64_t count = 0;
    std::memcpy(&type, value.payload.data(), sizeof type);
    std::memcpy(&count, value.payload.data() + sizeof type, sizeof count);
    if (count != from || type == static_cast<uint32_t>(GgufValueType::kString) ||
        name.ends_with("rope.dimension_sections"))
      continue;
    const size_t head = sizeof type + sizeof count, item = (value.payload.size() - head) / count;
    const Bytes items = change(Bytes(value.payload.begin() + static_cast<ptrdiff_t>(head), value.payload.end()), item);
    value.payload = GgufBuilder::array_header(type, items.size() / item);
    value.payload.insert(value.payload.end(), items.begin(), items.end());
  }
}

Bytes LooseModel::build() const {
  GgufBuilder builder;
  for (const auto& [name, value] : keys) builder.raw(name, value.type, value.payload);
  for (const auto& [name, tensor] : tensors) {
    const auto& d = tensor.dims;
    if (d.size() == 1) builder.tensor(name, tensor.type, {d[0]}, tensor.data);
    if (d.size() == 2) builder.tensor(name, tensor.type, {d[0], d[1]}, tensor.data);
    if (d.size() == 3) builder.tensor(name, tensor.type, {d[0], d[1], d[2]}, tensor.data);
    if (d.size() == 4) builder.tensor(name, tensor.type, {d[0], d[1], d[2], d[3]}, tensor.data);
  }
  return builder.build();
}

std::vector<float> made_up(size_t count, uint64_t seed, float scale, float offset) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = offset + scale * (static_cast<float>(seed >> 40) / static_cast<float>(1 << 23) - 1.0f);
  }
  return values;
}

uint32_t add_mtp_layer(LooseModel& model) {
  const uint32_t layers = model.number("block_count"), n_embd = model.number("embedding_length");
  const std::string last = "blk." + std::to_string(layers - 1) + ".", block = "blk." + std::to_string(layers) + ".";
  std::map<std::string, LooseModel::Tensor> copies;
  for (const auto& [name, tensor] : model.tensors)
    if (name.starts_with(last) && name.find("nextn.") == std::string::npos)
      copies[block + name.substr(last.size())] = tensor;
  model.tensors.merge(copies);
  const uint32_t before = model.has("nextn_predict_layers") ? model.number("nextn_predict_layers") : 0,
                 seed = 16 * before;
  model.put_floats(block + "nextn.enorm.weight", {n_embd}, made_up(n_embd, seed + 1, 0.2f, 1.0f));
  model.put_floats(block + "nextn.hnorm.weight", {n_embd}, made_up(n_embd, seed + 2, 0.2f, 1.0f));
  model.put_floats(block + "nextn.eh_proj.weight", {2 * uint64_t{n_embd}, n_embd},
                   made_up(size_t{2} * n_embd * n_embd, seed + 3, 0.15f));
  model.put_floats(block + "nextn.shared_head_norm.weight", {n_embd}, made_up(n_embd, seed + 4, 0.2f, 1.0f));
  model.set("block_count", layers + 1);
  model.set("nextn_predict_layers", before + 1);
  model.change_layer_arrays(layers, [](Bytes items, size_t item) {
    const Bytes tail(items.end() - static_cast<ptrdiff_t>(item), items.end());
    items.insert(items.end(), tail.begin(), tail.end());
    return items;
  });
  return layers;
}

}  // namespace monolith::testing
