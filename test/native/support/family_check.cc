#include "support/family_check.h"

namespace monolith::testing {

std::vector<float> family_logits(const std::string& path, const std::string& what) {
  std::vector<int32_t> ids;
  uint32_t state = 11;
  for (int i = 0; i < kFamilyTokens; ++i) {
    state = state * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>((state >> 16) % kFamilyVocab));
  }
  const std::vector<int32_t> positions = {0, 3, 40, kFamilyTokens - 1};
  const auto result = debug_logits(path, {{.threads = 1}, KvType::kF32, 64}, ids, positions, 0);
  std::vector<float> all;
  if (!result) {
    check::fail(__FILE__, __LINE__, what + ": " + result.error().message);
    return all;
  }
  for (const PositionLogits& at : result->positions) all.insert(all.end(), at.logits.begin(), at.logits.end());
  return all;
}

void compare_keys(const GgufFile& want, const GgufFile& got, const std::string& what) {
  const std::string prefix = std::string(want.string("general.architecture")->value_or("")) + ".";
  for (const auto& [key, value] : want.metadata()) {
    if (!key.starts_with(prefix) || got.find(key) == nullptr) continue;
    const auto differs = [&] {
      if (value.type == GgufValueType::kArray || got.find(key)->type == GgufValueType::kArray) {
        if (const auto a = want.integers(key), b = got.integers(key); a && b) return **a != **b;
        // One file may have an array with one number per layer, and the other a single number for all layers.
        return false;
      }
      if (const auto a = want.number(key), b = got.number(key); a && b)
        return static_cast<float>(**a) != static_cast<float>(**b);
      if (const auto a = want.boolean(key), b = got.boolean(key); a && b) return **a != **b;
      const auto a = want.string(key), b = got.string(key);
      return !a || !b || **a != **b;
    };
    if (differs()) check::fail(__FILE__, __LINE__, what + ": the folder has a different value for " + std::string(key));
  }
}

std::string config_of(const FamilyFolder& one) {
  return R"({"architectures":[)" + json_text(one.name) + "]," + one.config + "}";
}

void damage_folder(const FamilyFolder& one, int rounds) {
  const std::string path = check::vectors_path(std::string("models/") + one.file + ".gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  Weights weights = weights_of(**file);
  one.publish(weights);
  const std::vector<SafetensorData> whole = renamed(weights, one.names, one.layers);
  const ScratchFolder folder;
  folder.write("tokenizer.json", kSmallTokenizer);
  uint32_t state = 3;
  const auto below = [&state](size_t n) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % n;
  };
  for (int round = 0; round < rounds; ++round) {
    std::string config = config_of(one);
    std::vector<SafetensorData> tensors = whole;
    for (size_t i = 0; i <= below(3); ++i) {
      SafetensorData& tensor = tensors[below(tensors.size())];
      int64_t count = 1;
      for (const int64_t length : tensor.shape) count *= length;
      switch (below(5)) {
        case 0:
          if (const size_t at = config.find_first_of("0123456789", below(config.size())); at != std::string::npos)
            config[at] = "0123456789"[below(10)];
          break;
        case 1: std::ranges::reverse(tensor.shape); break;
        case 2: tensor.shape = {count}; break;
        case 3: tensor.name = tensors[below(tensors.size())].name; break;
        default: tensor.shape = {1, count};
      }
    }
    folder.write("config.json", config);
    folder.write("model.safetensors", safetensors_of(tensors));
    const auto opened = open_model_file(folder.path());
    if (!opened) continue;
    std::vector<std::byte> scratch;
    for (const GgufTensor& tensor : (*opened)->tensors())
      CHECK_EQ((*opened)->read(tensor, 0, tensor.bytes(), scratch).size(), tensor.bytes());
  }
}

void check_folder(const FamilyFolder& one) {
  const std::string path = check::vectors_path(std::string("models/") + one.file + ".gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  const std::string what = std::string(one.name) + " of " + one.file;
  Weights weights = weights_of(**file);
  one.round(weights);
  const ScratchFolder folder;
  const Bytes gguf = gguf_of(**file, weights);
  folder.write("want.gguf", {reinterpret_cast<const char*>(gguf.data()), gguf.size()});
  one.publish(weights);
  folder.write("config.json", config_of(one));
  folder.write("tokenizer.json", kSmallTokenizer);
  folder.write("model.safetensors", safetensors_of(renamed(weights, one.names, one.layers)));
  const auto opened = open_model_file(folder.path());
  if (!opened) return check::fail(__FILE__, __LINE__, what + ": " + opened.error().message);
  compare_keys(**file, **opened, what);
  const auto want = family_logits(folder.path() + "/want.gguf", what + " as GGUF"),
             got = family_logits(folder.path(), what);
  if (want != got) check::fail(__FILE__, __LINE__, what + ": the folder gives different logits");
}

void check_mtp_layers(const DraftFolder& one, const GgufFile& golden) {
  const FamilyFolder& family = one.family;
  const std::string what = family.name;
  LooseModel loose(golden);
  const uint32_t first = loose.number("block_count");
  for (int level = 0; level < one.levels; ++level) add_mtp_layer(loose);
  one.change(loose);
  const Bytes image = loose.build();
  const auto file = GgufFile::parse(image);
  REQUIRE(file.ok());
  Weights weights = weights_of(**file);
  family.round(weights);
  const Bytes want_image = gguf_of(**file, weights);
  family.publish(weights);
  const TensorNames names = family.names + TensorNames{{"nextn.eh_proj.weight", "eh_proj.weight"},
                                                       {"nextn.enorm.weight", "enorm.weight"},
                                                       {"nextn.hnorm.weight", "hnorm.weight"},
                                                       {"nextn.shared_head_norm.weight", "shared_head.norm.weight"},
                                                       {"nextn.shared_head_head.weight", "shared_head.head.weight"}};
  // The tensors are in a map, so that a tensor that several layers share occurs only once.
  std::map<std::string, SafetensorData> tensors, without;
  for (SafetensorData& tensor : renamed(weights, names, family.layers)) {
    bool drafts = false;
    for (int level = 0; level < one.levels; ++level) {
      const std::string layer = family.layers + std::to_string(first + static_cast<uint32_t>(level)) + ".";
      if (!tensor.name.starts_with(layer)) continue;
      drafts = true;
      if (one.name) tensor.name = one.name(level, tensor.name.substr(layer.size()));
    }
    if (!drafts) without.emplace(tensor.name, tensor);
    tensors.emplace(tensor.name, std::move(tensor));
  }
  std::string config = config_of(family);
  if (!one.key.empty() && config.find(one.key) == std::string::npos) config.insert(config.size() - 1, "," + one.key);
  const auto write = [&](const ScratchFolder& folder, const std::map<std::string, SafetensorData>& from) {
    std::vector<SafetensorData> list;
    for (const auto& [name, tensor] : from) list.push_back(tensor);
    folder.write("config.json", config);
    folder.write("tokenizer.json", kSmallTokenizer);
    folder.write("model.safetensors", safetensors_of(list));
  };
  const ScratchFolder folder, bare;
  write(folder, tensors);
  write(bare, without);
  const auto opened = open_model_file(folder.path()), plain = open_model_file(bare.path());
  const auto want = GgufFile::parse(want_image);
  REQUIRE(want.ok());
  if (!opened || !plain)
    return check::fail(__FILE__, __LINE__, what + ": " + (!opened ? opened : plain).error().message);
  std::vector<float> logits;  // The model's logits from the last call.
  const auto drafts_of = [&](const GgufFile& from, bool drafts) {
    auto backend = make_cpu_backend({.threads = 1});
    auto model = Model::load(from, **backend, draft_limits(true), {});
    std::vector<float> all;
    if (!model || (*model)->drafts() != drafts || (drafts && (*model)->draft_levels() != one.levels)) {
      check::fail(__FILE__, __LINE__, what + (model ? ": wrong number of MTP layers" : ": " + model.error().message));
      return all;
    }
    Fed sequence(**model, 0, 0);
    logits = sequence.feed({5, 17, 20, 31, 8, 9, 4}, 3);
    for (int depth = 0; drafts && depth <= one.levels; ++depth) {
      const std::vector<float> next = sequence.draft(33 + depth, depth);
      all.insert(all.end(), next.begin(), next.end());
    }
    return all;
  };
  const std::vector<float> expected = drafts_of(**want, true);
  const std::vector<float> network = logits;
  if (expected.empty() || expected != drafts_of(**opened, true))
    check::fail(__FILE__, __LINE__, what + ": the folder's MTP layers give different draft logits");
  if (network != logits) check::fail(__FILE__, __LINE__, what + ": a folder with MTP layers gives different logits");
  drafts_of(**plain, false);
  if (network != logits)
    check::fail(__FILE__, __LINE__, what + ": a folder without its MTP layers gives different logits");
}

void check_mtp_layers(const DraftFolder& one) {
  const std::string path = check::vectors_path(std::string("models/") + one.family.file + ".gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto golden = GgufFile::open(path);
  REQUIRE(golden.ok());
  check_mtp_layers(one, **golden);
}

}  // namespace monolith::testing
