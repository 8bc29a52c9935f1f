#include "vision/hostile_vision.h"

#include <cmath>

namespace monolith::testing {

std::function<void(Bytes&)> tampered(const std::string& name, const std::function<void(std::byte*)>& change) {
  return [name, change](Bytes& image) {
    const auto* const from = reinterpret_cast<const std::byte*>(name.data());
    const auto at = std::search(image.begin(), image.end(), from, from + name.size());
    if (at != image.end()) change(&*at + name.size());
  };
}

std::function<void(Bytes&)> negative(const std::string& key) {
  return tampered(key, [](std::byte* behind) {
    const uint32_t type = 5;
    const int32_t value = -1;
    std::memcpy(behind, &type, sizeof type);
    std::memcpy(behind + sizeof type, &value, sizeof value);
  });
}

std::function<void(Bytes&)> dimension(const std::string& tensor, uint64_t length) {
  return tampered(tensor,
                  [length](std::byte* behind) { std::memcpy(behind + sizeof(uint32_t), &length, sizeof length); });
}

std::vector<HostileVision> hostile_vision() {
  std::vector<HostileVision> all;
  const auto add = [&](const char* name, const char* type, std::string_view refused_by,
                       const std::function<void(TinyVision&)>& change, std::function<void(Bytes&)> tamper = {}) {
    TinyVision model(type);
    change(model);
    all.push_back({std::string("published-") + name, std::move(model), refused_by, std::move(tamper)});
  };
  const auto key = [](const char* name, TinyVision::Value value) {
    return [name, value](TinyVision& model) { model.key(name, value); };
  };
  const auto as_it_is = [](TinyVision&) {};
  const uint32_t kHuge = 0xFFFF'FFFF, kWraps = 0x8000'0001;
  using Numbers = std::vector<uint32_t>;

  add("patch-zero", "qwen3vl_merger", "patch_size", key("patch_size", 0u));
  add("patch-larger-than-image", "gemma3", "image_size", key("patch_size", 255u));
  add("patch-of-one", "qwen3vl_merger", "v.patch_embd", key("patch_size", 1u));
  add("image-zero", "pixtral", "image_size", key("image_size", 0u));
  add("image-huge", "internvl", "image_size", key("image_size", kHuge));
  add("image-negative", "qwen3vl_merger", "image_size", as_it_is, negative("clip.vision.image_size"));
  add("image-of-more-patches-than-memory", "idefics3", "patches", key("image_size", 16384u));
  add("tiles-of-more-pixels-than-memory", "internvl", "pixels", [](TinyVision& model) {
    model.key("image_size", 1024u);
    model.key("preproc_max_tiles", 256u);
  });
  add("merge-zero", "qwen3vl_merger", "spatial_merge_size", key("spatial_merge_size", 0u));
  add("merge-huge", "qwen2.5vl_merger", "spatial_merge_size", key("spatial_merge_size", kWraps));
  add("merge-negative", "qwen2vl_merger", "spatial_merge_size", as_it_is, negative("clip.vision.spatial_merge_size"));
  add("merge-without-merger", "pixtral", "mm.patch_merger",
      [](TinyVision& model) { model.tensors.erase("mm.patch_merger.weight"); });
  add("factor-that-cuts-nothing", "gemma3", "image_size", key("projector.scale_factor", 16u));
  add("width-zero", "lfm2", "embedding_length", key("embedding_length", 0u));
  add("width-wraps", "kimik25", "embedding_length", key("embedding_length", kWraps));
  add("inner-negative", "gemma4v", "feed_forward_length", as_it_is, negative("clip.vision.feed_forward_length"));
  add("heads-zero", "qwen3vl_merger", "head_count", key("attention.head_count", 0u));
  add("heads-more-than-numbers", "pixtral", "head_count", key("attention.head_count", 33u));
  add("heads-that-do-not-turn", "kimik25", "RoPE", key("attention.head_count", 16u));
  add("heads-of-one-number", "idefics3", "", key("attention.head_count", 32u));
  add("layers-zero", "internvl", "block_count", key("block_count", 0u));
  add("layers-huge", "internvl", "block_count", key("block_count", kHuge));
  add("layers-more-than-there-are", "internvl", "v.blk.2", key("block_count", 512u));
  add("layers-fewer-than-there-are", "mlp", "v.blk.1", key("block_count", 1u));
  add("layers-of-which-none-is-run", "mlp", "", [](TinyVision& model) {
    model.key("block_count", 1u);
    std::erase_if(model.tensors, [](const auto& one) {
      return one.first.starts_with("v.blk.1.") || one.first.starts_with("v.blk.2.");
    });
  });
  add("mean-short", "gemma3", "image_mean", key("image_mean", std::vector<float>{0.5f, 0.5f}));
  add("mean-empty", "gemma3", "image_mean", key("image_mean", std::vector<float>{}));
  add("deviation-zero", "gemma3", "image_std", key("image_std", std::vector<float>{0.5f, 0.0f, 0.5f}));
  add("epsilon-none", "pixtral", "epsilon", key("attention.layer_norm_epsilon", std::nanf("")));
  add("activations-both", "qwen3vl_merger", "use_silu", [](TinyVision& model) { model.keys["clip.use_silu"] = true; });
  add("pinpoints-odd", "mlp", "image_grid_pinpoints", key("image_grid_pinpoints", Numbers{24, 48, 24}));
  add("pinpoints-many", "mlp", "image_grid_pinpoints", key("image_grid_pinpoints", Numbers(8194, 48)));
  add("pinpoints-wrap", "mlp", "image_grid_pinpoints", key("image_grid_pinpoints", Numbers{kHuge, kHuge, kWraps, 24}));
  add("pinpoints-zero", "mlp", "image_grid_pinpoints", key("image_grid_pinpoints", Numbers{0, 0}));
  add("pinpoints-none", "mlp", "", key("image_grid_pinpoints", Numbers{}));
  add("tiles-huge", "internvl", "preproc_max_tiles", key("preproc_max_tiles", kHuge));
  add("longer-side-huge", "idefics3", "preproc_image_size", key("preproc_image_size", kHuge));
  add("longer-side-zero", "idefics3", "preproc_image_size", key("preproc_image_size", 0u));
  add("least-pixels-huge", "kimik25", "image_min_pixels", key("image_min_pixels", kHuge));
  add("least-pixels-more-than-most", "kimik25", "", [](TinyVision& model) {
    model.key("image_min_pixels", 1u << 20);
    model.key("image_max_pixels", 64u);
  });
  add("most-pixels-zero", "kimik25", "image_max_pixels", key("image_max_pixels", 0u));
  add("most-pixels-of-a-folder-zero", "qwen3vl_merger", "", [kHuge](TinyVision& model) {
    model.key("from_folder", true);
    model.key("image_max_pixels", 0u);
    model.key("image_min_pixels", kHuge);
  });
  add("windows-smaller-than-a-patch", "qwen2.5vl_merger", "window", key("patch_size", 113u));
  add("windows-of-no-layer", "qwen2.5vl_merger", "", key("n_wa_pattern", 0u));
  add("windows-of-a-layer-that-is-none", "qwen2.5vl_merger", "", key("n_wa_pattern", 512u));
  add("windows-negative", "qwen2.5vl_merger", "n_wa_pattern", as_it_is, negative("clip.vision.n_wa_pattern"));
  const auto deepstack = [](const char* index) {
    return [at = std::string("v.deepstack.") + index + "."](TinyVision& model) {
      for (const char* part : {"norm.weight", "norm.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"})
        model.tensors[at + part] = model.tensors[std::string("v.deepstack.0.") + part];
    };
  };
  add("deepstack-past-the-layers", "qwen3vl_merger", "v.deepstack.7", deepstack("7"));
  add("deepstack-negative", "qwen3vl_merger", "v.deepstack.-1", deepstack("-1"));
  add("deepstack-wraps", "qwen3vl_merger", "v.deepstack.4294967296", deepstack("4294967296"));
  add("deepstack-of-every-layer", "qwen3vl_merger", "", deepstack("1"));
  add("deepstack-in-part", "qwen3vl_merger", "v.deepstack.0",
      [](TinyVision& model) { model.tensors.erase("v.deepstack.0.fc2.weight"); });
  add("deepstack-wider-than-all", "qwen3vl_merger", "", [](TinyVision& model) {
    model.matrix("v.deepstack.0.fc1.weight", 700, 128);
    model.bias("v.deepstack.0.fc1.bias", 700);
    model.matrix("v.deepstack.0.fc2.weight", TinyVision::kRow, 700);
  });
  add("positions-few", "idefics3", "v.position_embd",
      [](TinyVision& model) { model.matrix("v.position_embd.weight", 1, TinyVision::kWidth); });
  add("positions-no-square", "qwen3vl_merger", "square",
      [](TinyVision& model) { model.matrix("v.position_embd.weight", 35, TinyVision::kWidth); });
  add("positions-one", "lfm2", "",
      [](TinyVision& model) { model.matrix("v.position_embd.weight", 1, TinyVision::kWidth); });
  add("positions-fewer-than-patches", "gemma4v", "", [](TinyVision& model) {
    model.tensors["v.position_embd.weight"] = {{TinyVision::kWidth, 3, 2}};
  });
  add("positions-of-one-table", "gemma4v", "v.position_embd", [](TinyVision& model) {
    model.tensors["v.position_embd.weight"] = {{TinyVision::kWidth, 64}};
  });
  add("kernel-flat", "gemma3", "v.patch_embd",
      [](TinyVision& model) { model.tensors["v.patch_embd.weight"] = {{4 * 4 * 3 * TinyVision::kWidth}}; });
  add("kernel-of-another-second-frame", "qwen3vl_merger", "v.patch_embd.weight.1", [](TinyVision& model) {
    model.tensors["v.patch_embd.weight.1"] = {{4, 4, 1, TinyVision::kWidth}};
  });
  // The encoder copies inputs before it clamps them. Rows of patches or of a projector can be longer than the rows of a
  // layer.
  const auto clamps = [](TinyVision& model, const std::string& at, float low, float high) {
    model.tensors[at + ".input_min"] = {{1}, TensorType::kF32, 0, low};
    model.tensors[at + ".input_max"] = {{1}, TensorType::kF32, 0, high};
  };
  add("clamps-of-patches", "qwen2.5vl_merger", "", [&](TinyVision& model) { clamps(model, "v.patch_embd", -1, 1); });
  add("clamps-of-a-wide-projector", "pixtral", "", [&](TinyVision& model) {
    model.matrix("mm.1.weight", 900, TinyVision::kWidth);
    model.bias("mm.1.bias", 900);
    model.matrix("mm.2.weight", TinyVision::kRow, 900);
    clamps(model, "mm.2", -1, 1);
  });
  add("clamps-of-deepstack", "qwen3vl_merger", "", [&](TinyVision& model) {
    model.matrix("v.deepstack.0.fc1.weight", 700, 128);
    model.bias("v.deepstack.0.fc1.bias", 700);
    model.matrix("v.deepstack.0.fc2.weight", TinyVision::kRow, 700);
    clamps(model, "v.deepstack.0.fc2", -1, 1);
  });
  add("clamps-the-wrong-way-about", "gemma4v", "greater than its maximum",
      [&](TinyVision& model) { clamps(model, "v.blk.0.attn_q", 1, -1); });
  add("clamps-that-are-no-numbers", "gemma4v", "not a number",
      [&](TinyVision& model) { clamps(model, "v.blk.0.attn_q", std::nanf(""), 1); });
  add("clamps-of-many", "gemma4v", "input_min",
      [](TinyVision& model) { model.bias("v.blk.0.attn_q.input_min", 0x100); });
  add("row-wider-than-the-file", "qwen2vl_merger", "mm.2.weight", as_it_is,
      dimension("mm.2.weight", uint64_t{1} << 40));
  add("row-negative", "qwen2vl_merger", "mm.2.weight", as_it_is, dimension("mm.2.weight", ~uint64_t{0}));
  add("row-zero", "qwen2vl_merger", "mm.2.weight", as_it_is, dimension("mm.2.weight", 0));
  add("row-wraps-to-little", "qwen2vl_merger", "mm.2.weight", as_it_is,
      dimension("mm.2.weight", (uint64_t{1} << 62) + 1));
  add("projector-of-another", "internvl", "mm.0.weight", [](TinyVision& model) {
    model.keys["clip.projector_type"] = std::string("mlp");
    model.key("block_count", 3u);
    for (const auto& [name, tensor] : TinyVision("mlp").tensors)
      if (name.starts_with("v.blk.")) model.tensors[name] = tensor;
  });
  add("projector-with-a-nul", "internvl", "projector_type",
      [](TinyVision& model) { model.keys["clip.projector_type"] = std::string("mlp\0", 4); });
  return all;
}

}  // namespace monolith::testing
