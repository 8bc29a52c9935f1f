#include "formats/hf/vision_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "formats/gguf/parser.h"

namespace monolith::hf {
namespace {

// Upper bounds for these settings. When the vision encoder is loaded, each value is checked against stricter limits.
constexpr int64_t kMaxSize = int64_t{1} << 20, kMaxEncoderLayers = 512;
constexpr int64_t kMaxMerge = 16, kMaxPatch = 256, kMaxKimiPatches = int64_t{1} << 16, kMaxKimiSide = 512;
constexpr int64_t kWindow = 112;  // Qwen2.5-VL: the only window size that a vision file can express.
constexpr int kLanczos = 1, kBilinear = 2, kBicubic = 3;  // Pillow's resampling filter numbers.
constexpr double kHalf[] = {0.5, 0.5, 0.5}, kZero[] = {0, 0, 0}, kOne[] = {1, 1, 1};
// Pairs of height and width.
constexpr int64_t kLlavaGrids[][2] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
constexpr size_t kMaxGrids = 4096;
// The numbers of tokens per image that Gemma 4's image processor accepts.
constexpr int64_t kGemma4Tokens[] = {70, 140, 280, 560, 1120};
constexpr double kClipMean[] = {0.48145466, 0.4578275, 0.40821073},
                 kClipDeviation[] = {0.26862954, 0.26130258, 0.27577711};
constexpr double kImageNetMean[] = {0.485, 0.456, 0.406}, kImageNetDeviation[] = {0.229, 0.224, 0.225};

// The defaults of a transformers class for settings that config.json omits, and the class's resampling filter.
struct Defaults {
  EncoderKind kind;
  const char* projector;  // Value of clip.projector_type.
  int64_t width, inner, layers, heads, image, patch;
  const char* activation;
  double eps;
  int resample;
  std::span<const double> mean, deviation;
};
constexpr Defaults kDefaults[] = {
    {EncoderKind::kIdefics3, "idefics3", 1152, 3072, 12, 16, 224, 32, "gelu_pytorch_tanh", 1e-6, kLanczos, kHalf,
     kHalf},
    {EncoderKind::kGemma3, "gemma3", 768, 3072, 12, 12, 224, 16, "gelu_pytorch_tanh", 1e-6, kBilinear, kHalf, kHalf},
    {EncoderKind::kQwen2Vl, "qwen2vl_merger", 1280, 0, 32, 16, 0, 14, "quick_gelu", 1e-6, kBicubic, kClipMean,
     kClipDeviation},
    {EncoderKind::kQwen25Vl, "qwen2.5vl_merger", 3584, 3420, 32, 16, 0, 14, "silu", 1e-6, kBicubic, kClipMean,
     kClipDeviation},
    {EncoderKind::kQwen3Vl, "qwen3vl_merger", 1152, 4304, 27, 16, 0, 16, "gelu_pytorch_tanh", 1e-6, kBicubic, kHalf,
     kHalf},
    {EncoderKind::kPixtral, "pixtral", 1024, 4096, 24, 16, 1024, 16, "gelu", 1e-5, kBicubic, kClipMean, kClipDeviation},
    {EncoderKind::kInternVl, "internvl", 1024, 4096, 24, 16, 448, 14, "gelu", 1e-6, kBicubic, kImageNetMean,
     kImageNetDeviation},
    {EncoderKind::kLlava, "mlp", 768, 3072, 12, 12, 224, 32, "quick_gelu", 1e-5, kBicubic, kClipMean, kClipDeviation},
    {EncoderKind::kLfm2, "lfm2", 768, 3072, 12, 12, 0, 16, "gelu_pytorch_tanh", 1e-6, kBilinear, kHalf, kHalf},
    {EncoderKind::kKimi, "kimik25", 1152, 4304, 27, 16, 0, 14, "gelu_pytorch_tanh", 1e-5, kBicubic, kHalf, kHalf},
    {EncoderKind::kGemma4, "gemma4v", 768, 3072, 16, 12, 0, 16, "gelu_pytorch_tanh", 1e-6, kBicubic, kZero, kOne},
};

struct Class {
  std::string_view name;     // Name in "architectures" of config.json.
  std::string_view encoder;  // Value of vision_config.model_type; empty = any value.
  EncoderKind kind;
  bool grids = false;  // LLaVA 1.6: images are split according to the best-fitting of several tile grids.
};
constexpr Class kClasses[] = {
    {"Idefics3ForConditionalGeneration", "", EncoderKind::kIdefics3},
    {"SmolVLMForConditionalGeneration", "", EncoderKind::kIdefics3},
    {"Gemma3ForConditionalGeneration", "", EncoderKind::kGemma3},
    {"KimiVLForConditionalGeneration", "", EncoderKind::kKimi},
    {"KimiK25ForConditionalGeneration", "", EncoderKind::kKimi},
    {"Gemma4ForConditionalGeneration", "", EncoderKind::kGemma4},
    {"Qwen2VLForConditionalGeneration", "", EncoderKind::kQwen2Vl},
    {"Qwen2_5_VLForConditionalGeneration", "", EncoderKind::kQwen25Vl},
    {"Qwen3VLForConditionalGeneration", "", EncoderKind::kQwen3Vl},
    {"Qwen3VLMoeForConditionalGeneration", "", EncoderKind::kQwen3Vl},
    {"Qwen3_5ForConditionalGeneration", "", EncoderKind::kQwen3Vl},
    {"Qwen3_5MoeForConditionalGeneration", "", EncoderKind::kQwen3Vl},
    {"Mistral3ForConditionalGeneration", "", EncoderKind::kPixtral},
    {"LlavaForConditionalGeneration", "pixtral", EncoderKind::kPixtral},
    {"LlavaForConditionalGeneration", "clip_vision_model", EncoderKind::kLlava},
    {"LlavaNextForConditionalGeneration", "clip_vision_model", EncoderKind::kLlava, true},
    {"InternVLForConditionalGeneration", "", EncoderKind::kInternVl},
    {"Lfm2VlForConditionalGeneration", "", EncoderKind::kLfm2},
};

class EncoderTranslation {
 public:
  EncoderTranslation(const JsonValue& config, const JsonValue& processor, const Defaults& defaults, bool grids,
                     AssembledFile& out)
      : config_(config),
        vision_(config["vision_config"]),
        processor_(processor["media_proc_cfg"].is_object() ? processor["media_proc_cfg"] : processor),
        defaults_(defaults),
        out_(out) {
    encoder_.ends_rows = grids;
  }

  Result<Encoder> translate() {
    out_.string("general.architecture", "clip");
    out_.string("clip.projector_type", defaults_.projector);
    out_.boolean("clip.has_vision_encoder", true);
    // Records that images are preprocessed as in the reference implementation (see resize_of()).
    out_.boolean("clip.vision.from_folder", true);
    encoder_.kind = defaults_.kind;
    sizes();
    activation();
    switch (encoder_.kind) {
      case EncoderKind::kIdefics3: idefics3(); break;
      case EncoderKind::kGemma3: gemma3(); break;
      case EncoderKind::kQwen2Vl:
      case EncoderKind::kQwen25Vl:
      case EncoderKind::kQwen3Vl: qwen(); break;
      case EncoderKind::kPixtral: pixtral(); break;
      case EncoderKind::kInternVl: intern_vl(); break;
      case EncoderKind::kLlava: llava(); break;
      case EncoderKind::kLfm2: lfm2(); break;
      case EncoderKind::kGemma4: gemma4(); break;
      case EncoderKind::kKimi: kimi(); break;
    }
    put("image_size", image_);
    put("block_count", encoder_.layers);
    colors();
    steps();
    if (!status_) return status_.error();
    return std::move(encoder_);
  }

 private:
  void fail(Error error) {
    if (status_) status_ = std::move(error);
  }
  void put(const char* key, int64_t value) {
    out_.integer(std::string("clip.vision.") + key, static_cast<uint64_t>(value));
  }

  // Returns an integer setting. If it is the side length of a square, it may also be given as a list of equal numbers,
  // or as equal height and width.
  int64_t integer(const JsonValue& value, int64_t fallback, int64_t low = 1, int64_t high = kMaxSize) {
    if (value.is_array() && !value.items().empty()) {
      const int64_t first = integer(value.item(0), fallback, low, high);
      for (size_t i = 1; i < value.items().size(); ++i)
        if (integer(value.item(i), fallback, low, high) != first) fail(value.unsupported("is not square"));
      return first;
    }
    if (value.is_object()) {
      const int64_t height = integer(value["height"], fallback, low, high);
      if (integer(value["width"], fallback, low, high) != height) fail(value.unsupported("is not square"));
      return height;
    }
    const auto found = value.integer(low, high);
    if (found) return found->value_or(fallback);
    fail(found.error());
    return fallback;
  }
  int64_t vision_integer(std::initializer_list<std::string_view> names, int64_t fallback) {
    for (const std::string_view name : names)
      if (const JsonValue value = vision_[name]; value.exists()) return integer(value, fallback);
    return fallback;
  }
  void expect(const JsonValue& value, int64_t expected, int64_t fallback) {
    if (integer(value, fallback, INT32_MIN, INT32_MAX) != expected)
      fail(value.unsupported(value.exists() ? "is not " + std::to_string(expected) + ", the only supported value"
                                            : "is missing, but only " + std::to_string(expected) + " is supported"));
  }
  void expect_boolean(const JsonValue& value, bool expected) {
    const auto found = value.boolean();
    if (!found) return fail(found.error());
    if (found->value_or(expected) != expected)
      fail(value.unsupported(expected ? "is false, which is not supported" : "is true, which is not supported"));
  }
  void expect_text(const JsonValue& value, std::string_view expected, std::string_view or_else = {}) {
    if (value.exists() && value.text() != expected && (or_else.empty() || value.text() != or_else))
      fail(value.unsupported("is " + in_quotes(value.text()) + ", expected " + in_quotes(expected)));
  }

  void sizes() {
    // In Qwen2-VL, "hidden_size" is the width of the text model.
    const bool qwen2 = encoder_.kind == EncoderKind::kQwen2Vl;
    const int64_t width = qwen2 ? vision_integer({"embed_dim"}, defaults_.width)
                                : vision_integer({"vt_hidden_size", "hidden_size"}, defaults_.width);
    encoder_.layers = vision_integer({"depth", "vt_num_hidden_layers", "num_hidden_layers"}, defaults_.layers);
    encoder_.heads = vision_integer({"num_heads", "vt_num_attention_heads", "num_attention_heads"}, defaults_.heads);
    encoder_.patch = vision_integer({"patch_size"}, defaults_.patch);
    image_ = vision_integer({"image_size"}, defaults_.image);
    if (encoder_.layers > kMaxEncoderLayers)
      fail(vision_.invalid("has " + std::to_string(encoder_.layers) + " layers"));
    put("patch_size", encoder_.patch);
    put("embedding_length", width);
    put("feed_forward_length",
        qwen2 ? times_wide(width) : vision_integer({"vt_intermediate_size", "intermediate_size"}, defaults_.inner));
    put("attention.head_count", encoder_.heads);
    for (const char* const name : {"num_channels", "in_channels", "in_chans"}) expect(vision_[name], 3, 3);
    const auto eps = vision_[encoder_.kind == EncoderKind::kGemma4 ? "rms_norm_eps" : "layer_norm_eps"].number();
    if (!eps) fail(eps.error());
    out_.number("clip.vision.attention.layer_norm_epsilon", eps ? eps->value_or(defaults_.eps) : defaults_.eps);
  }

  // Returns the feed-forward width of encoders that specify it as a multiple of the encoder width.
  int64_t times_wide(int64_t width) {
    const JsonValue value = vision_["mlp_ratio"];
    const auto ratio = value.number();
    if (!ratio) return fail(ratio.error()), width;
    const double inner = ratio->value_or(4) * static_cast<double>(width);
    if (!(inner >= 1 && inner <= static_cast<double>(kMaxSize)) || inner != std::floor(inner))
      return fail(value.invalid("times the width " + std::to_string(width) + " is not a whole number in range")), width;
    return static_cast<int64_t>(inner);
  }

  void activation() {
    const JsonValue value = vision_[encoder_.kind == EncoderKind::kGemma4 ? "hidden_activation" : "hidden_act"];
    const std::string_view name = value.exists() ? value.text() : std::string_view(defaults_.activation);
    if (name == "gelu" || name == "gelu_pytorch_tanh")
      out_.boolean("clip.use_gelu", true);
    else if (name == "silu")
      out_.boolean("clip.use_silu", true);
    else if (name != "quick_gelu")
      fail(value.unsupported("is " + in_quotes(name) + ", expected gelu, gelu_pytorch_tanh, quick_gelu or silu"));
    expect_text(config_["projector_hidden_act"], "gelu");
  }

  void colors() {
    // The mean and the standard deviation have no effect if the image processor does not normalize.
    const auto normalizes = processor_["do_normalize"].boolean();
    if (!normalizes) return fail(normalizes.error());
    const bool none = encoder_.kind == EncoderKind::kGemma4 && !normalizes->value_or(false);
    for (const auto& [name, usual] :
         {std::pair{"image_mean", defaults_.mean}, std::pair{"image_std", defaults_.deviation}}) {
      auto stated = processor_[name].numbers();
      if (!stated) return fail(stated.error());
      if (!stated->empty() && stated->size() != 3) return fail(processor_[name].invalid("must have three numbers"));
      out_.numbers(std::string("clip.vision.") + name,
                   stated->empty() || none ? std::vector<float>(usual.begin(), usual.end()) : *stated);
    }
  }

  // Checks the preprocessing steps that all image processors share.
  void steps() {
    for (const char* name : {"do_resize", "do_rescale"}) expect_boolean(processor_[name], true);
    if (encoder_.kind != EncoderKind::kGemma4) expect_boolean(processor_["do_normalize"], true);
    const auto factor = processor_["rescale_factor"].number();
    if (!factor) return fail(factor.error());
    if (*factor && std::abs(**factor * 255 - 1) > 1e-6) fail(processor_["rescale_factor"].unsupported("is not 1/255"));
    expect(processor_["resample"], defaults_.resample, defaults_.resample);
  }

  // Requires that the image features are the output of the encoder's last layer.
  void last_layer_only() { expect(config_["vision_feature_layer"], -1, -1); }

  // Checks that the image processor's tile size equals the encoder's image size.
  void same_side(const JsonValue& side) {
    if (integer(side, image_) != image_)
      fail(side.unsupported("differs from the encoder's image size, " + std::to_string(image_)));
  }

  void idefics3() {
    put("projector.scale_factor", integer(config_["scale_factor"], 2));
    same_side(processor_["max_image_size"]["longest_edge"]);
    const auto cut = processor_["do_image_splitting"].boolean();
    if (!cut) return fail(cut.error());
    put("preproc_image_size", cut->value_or(true) ? integer(processor_["size"]["longest_edge"], 4 * image_) : image_);
  }

  void gemma3() {
    const int64_t tokens = integer(config_["mm_tokens_per_image"], 256);
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(tokens)));
    put("projector.scale_factor", std::max<int64_t>(1, image_ / encoder_.patch / std::max<int64_t>(side, 1)));
    if (processor_["size"].exists()) same_side(processor_["size"]);
    expect_boolean(processor_["do_pan_and_scan"], false);
  }

  // Adds the limits on the number of pixels, for encoders whose input size depends on the image size.
  void pixels(const JsonValue& least, const JsonValue& most) {
    if (least.exists()) put("image_min_pixels", integer(least, 1, 1, int64_t{1} << 40));
    if (most.exists()) put("image_max_pixels", integer(most, 1, 1, int64_t{1} << 40));
  }

  void qwen() {
    const int64_t merge = vision_integer({"spatial_merge_size"}, 2);
    put("spatial_merge_size", merge);
    expect(vision_["temporal_patch_size"], 2, 2);
    same(processor_["patch_size"], encoder_.patch);
    same(processor_["merge_size"], merge);
    image_ = 20 * merge * encoder_.patch;  // Not used: the input size depends on the image size.
    const JsonValue size = processor_["size"];
    pixels(processor_["min_pixels"].exists() ? processor_["min_pixels"] : size["shortest_edge"],
           processor_["max_pixels"].exists() ? processor_["max_pixels"] : size["longest_edge"]);
    if (encoder_.kind == EncoderKind::kQwen2Vl) return;
    if (encoder_.kind == EncoderKind::kQwen25Vl) return windows();
    const JsonValue parts = vision_["deepstack_visual_indexes"];
    for (size_t i = 0; i < parts.items().size(); ++i)
      encoder_.deepstack.push_back(integer(parts.item(i), 0, 0, encoder_.layers - 1));
    if (!std::ranges::is_sorted(encoder_.deepstack, std::less_equal<>()))
      fail(parts.invalid("must be in ascending order"));
  }

  void windows() {
    expect(vision_["window_size"], kWindow, kWindow);
    const JsonValue list = vision_["fullatt_block_indexes"];
    std::vector<int64_t> full;
    for (size_t i = 0; i < list.items().size(); ++i) full.push_back(integer(list.item(i), 0, 0, encoder_.layers - 1));
    if (!list.exists()) full = {7, 15, 23, 31};
    // A GGUF vision file can express full attention only for every n-th layer.
    const int64_t every = full.empty() ? 0 : full.front() + 1;
    for (size_t i = 0; i < full.size(); ++i)
      if (full[i] + 1 != static_cast<int64_t>(i + 1) * every ||
          full.size() != static_cast<size_t>(encoder_.layers / every))
        return fail(list.unsupported("does not list every n-th layer"));
    if (every == 0) return fail(list.unsupported("is empty: window attention in all layers is not supported"));
    put("n_wa_pattern", every);
  }

  void same(const JsonValue& value, int64_t wanted) {
    if (integer(value, wanted) != wanted)
      fail(value.invalid("differs from the " + std::to_string(wanted) + " in config.json"));
  }

  void pixtral() {
    const int64_t merge = integer(config_["spatial_merge_size"], 1);
    put("spatial_merge_size", merge);
    last_layer_only();
    expect_text(config_["vision_feature_select_strategy"], "full");
    same(processor_["patch_size"], encoder_.patch);
    image_ = integer(processor_["size"]["longest_edge"], image_);
    const auto base = vision_["rope_theta"].number();
    if (!base) return fail(base.error());
    if (base->value_or(1e4) != 1e4) fail(vision_["rope_theta"].unsupported("is not 10000"));
    encoder_.breaks_rows = true;
  }

  void intern_vl() {
    const auto ratio = config_["downsample_ratio"].number();
    if (!ratio) return fail(ratio.error());
    const double factor = 1 / std::max(1e-3, ratio->value_or(0.5));
    if (factor != std::floor(factor))
      fail(config_["downsample_ratio"].unsupported("is not the inverse of a whole number"));
    put("projector.scale_factor", static_cast<int64_t>(factor));
    last_layer_only();
    expect_text(config_["vision_feature_select_strategy"], "default");
    expect_text(vision_["norm_type"], "layer_norm");
    expect_boolean(vision_["use_qk_norm"], false);
    expect_boolean(vision_["use_mean_pooling"], true);
    if (processor_["size"].exists()) same_side(processor_["size"]);
    expect(processor_["min_patches"], 1, 1);
    put("preproc_max_tiles", integer(processor_["max_patches"], 12));
  }

  void llava() {
    const int64_t layer = integer(config_["vision_feature_layer"], -2, -encoder_.layers, -1);
    // For this kind of encoder, the engine does not run the last layer that a vision file declares, so one layer more
    // than needed is declared.
    encoder_.layers += layer + 2;
    expect_text(config_["vision_feature_select_strategy"], "default");
    if (processor_["crop_size"].exists()) same_side(processor_["crop_size"]);
    if (encoder_.ends_rows) return grids();
    if (processor_["size"]["shortest_edge"].exists()) same_side(processor_["size"]["shortest_edge"]);
    expect_boolean(processor_["do_center_crop"], true);
    expect_boolean(processor_["do_pad"], false);
  }

  // LLaVA 1.6. Tiles already have the encoder's size before cropping, and padding several images to the same number of
  // tiles does not change the result. The settings for cropping and padding are therefore ignored.
  void grids() {
    if (const JsonValue size = processor_["size"]; size.exists())
      same_side(size["shortest_edge"].exists() ? size["shortest_edge"] : size);
    const std::vector<int32_t> own = pinpoints(config_["image_grid_pinpoints"]);
    if (const JsonValue other = processor_["image_grid_pinpoints"]; other.exists() && pinpoints(other) != own)
      fail(other.invalid("differs from config.json"));
    out_.integers("clip.vision.image_grid_pinpoints", own);
  }

  // Reads pairs of height and width. In the result, the width comes first, as in a vision file.
  std::vector<int32_t> pinpoints(const JsonValue& list) {
    std::vector<int32_t> pairs;
    if (!list.exists()) {
      for (const auto& [height, width] : kLlavaGrids)
        pairs.insert(pairs.end(), {static_cast<int32_t>(width), static_cast<int32_t>(height)});
      return pairs;
    }
    const size_t count = list.items().size();
    if (!list.is_array() || count == 0 || count > kMaxGrids)
      return fail(list.invalid("is not a list of 1 to " + std::to_string(kMaxGrids) + " pairs")), pairs;
    for (size_t i = 0; i < count; ++i) {
      const JsonValue pair = list.item(i);
      if (pair.items().size() != 2) return fail(pair.invalid("is not a pair of height and width")), pairs;
      for (const size_t side : {1, 0}) pairs.push_back(static_cast<int32_t>(integer(pair.item(side), image_)));
    }
    return pairs;
  }

  void lfm2() {
    const int64_t merge = integer(config_["downsample_factor"], 2);
    if (merge > kMaxMerge || encoder_.patch > kMaxPatch)
      return fail(vision_.invalid("has a merge size or patch size that is too large: " + std::to_string(merge) +
                                  " and " + std::to_string(encoder_.patch)));
    const int64_t square = merge * merge * encoder_.patch * encoder_.patch;
    put("projector.scale_factor", merge);
    last_layer_only();
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(vision_integer({"num_patches"}, 256))));
    image_ = side * encoder_.patch;
    put("image_min_pixels", integer(processor_["min_image_tokens"], 64) * square);
    put("image_max_pixels", integer(processor_["max_image_tokens"], 256) * square);
    expect(processor_["tile_size"], 512, 512);
    expect(processor_["min_tiles"], 2, 2);
    expect(processor_["max_tiles"], 10, 10);
    expect_boolean(processor_["do_image_splitting"], true);
    expect_boolean(processor_["use_thumbnail"], true);
  }

  void gemma4() {
    const int64_t merge = vision_integer({"pooling_kernel_size"}, 3),
                  width = vision_integer({"hidden_size"}, defaults_.width);
    put("projector.scale_factor", merge);
    expect(vision_["num_key_value_heads"], encoder_.heads, encoder_.heads);
    if (vision_["head_dim"].exists()) expect(vision_["head_dim"], width / encoder_.heads, width / encoder_.heads);
    expect_boolean(vision_["attention_bias"], false);
    const JsonValue rotation = vision_["rope_parameters"];
    expect_text(rotation["rope_type"], "default");
    const auto base = rotation["rope_theta"].number();
    if (!base) return fail(base.error());
    if (base->value_or(100) != 100) fail(rotation["rope_theta"].unsupported("is not 100"));
    encoder_.clamps = flag(vision_["use_clipped_linears"]);
    encoder_.standardizes = flag(vision_["standardize"]);
    same(processor_["patch_size"], encoder_.patch);
    same(processor_["pooling_kernel_size"], merge);
    const JsonValue most = processor_["max_soft_tokens"];
    const int64_t tokens = integer(most, 280);
    if (std::ranges::find(kGemma4Tokens, tokens) == std::end(kGemma4Tokens))
      fail(most.invalid("is " + std::to_string(tokens) + ", expected 70, 140, 280, 560 or 1120"));
    if (merge > kMaxMerge || encoder_.patch > kMaxPatch)
      return fail(vision_.invalid("has a merge size or patch size that is too large: " + std::to_string(merge) +
                                  " and " + std::to_string(encoder_.patch)));
    image_ = 20 * merge * encoder_.patch;  // Not used: the input size depends on the image size.
    put("image_max_pixels", tokens * merge * merge * encoder_.patch * encoder_.patch);
  }

  // Reads the settings of Kimi K2.5 or Kimi-VL. For still images, both have the same vision encoder.
  void kimi() {
    const int64_t merge = vision_integer({"merge_kernel_size"}, 2);
    if (merge > kMaxMerge || encoder_.patch > kMaxPatch)
      return fail(vision_.invalid("has a merge size or patch size that is too large: " + std::to_string(merge) +
                                  " and " + std::to_string(encoder_.patch)));
    put("projector.scale_factor", merge);
    expect_text(vision_["pos_emb_type"], "divided_fixed");
    expect_text(vision_["merge_type"], "sd2_tpool");
    expect_text(vision_["mm_projector_type"], "patchmerger");
    expect_text(vision_["projector_hidden_act"], "gelu");
    const auto eps = vision_["layer_norm_eps"].number(), behind = vision_["projector_ln_eps"].number();
    if (!eps) return fail(eps.error());
    if (!behind) return fail(behind.error());
    const double own = eps->value_or(defaults_.eps);
    if (behind->value_or(own) != own)
      fail(vision_["projector_ln_eps"].unsupported("differs from 'layer_norm_eps', which is not supported"));
    same(processor_["patch_size"], encoder_.patch);
    same(processor_["merge_kernel_size"], merge);
    expect(processor_["patch_limit_on_one_side"], kMaxKimiSide, kMaxKimiSide);
    if (processor_["fixed_output_tokens"].exists())
      fail(processor_["fixed_output_tokens"].unsupported("is set, which is not supported"));
    const bool vl = processor_["in_token_limit"].exists() || processor_["pad_input"].exists();
    if (vl && !flag(processor_["pad_input"]))
      fail(processor_["pad_input"].unsupported("is not true: cropping images is not supported"));
    const int64_t patches = vl ? integer(processor_["in_token_limit"], 4096, 1, kMaxKimiPatches)
                               : integer(processor_["in_patch_limit"], 16384, 1, kMaxKimiPatches);
    image_ = 20 * merge * encoder_.patch;  // Not used: the input size depends on the image size.
    put("image_max_pixels", std::max(patches, merge * merge) * encoder_.patch * encoder_.patch);
    put("image_min_pixels", std::max(int64_t{8}, merge * merge) * encoder_.patch * encoder_.patch);
  }

  bool flag(const JsonValue& value) {
    const auto found = value.boolean();
    if (!found) return fail(found.error()), false;
    return found->value_or(false);
  }

  const JsonValue config_, vision_, processor_;
  const Defaults& defaults_;
  AssembledFile& out_;
  Encoder encoder_;
  int64_t image_ = 0;  // Side length of the input image, in pixels.
  Status status_;
};

}  // namespace

bool has_encoder(const JsonValue& config) { return config["vision_config"].is_object(); }

Result<Encoder> translate_encoder(const JsonValue& config, const JsonValue& processor, AssembledFile& out) {
  const JsonValue names = config["architectures"];
  const std::string_view name = names.items().empty() ? std::string_view() : names.item(0).text();
  const JsonValue type = config["vision_config"]["model_type"];
  const auto fits = [&](const Class& known) {
    return known.name == name && (known.encoder.empty() || known.encoder == type.text());
  };
  const auto* const found = std::ranges::find_if(kClasses, fits);
  if (found == std::end(kClasses)) {
    if (std::ranges::find(kClasses, name, &Class::name) != std::end(kClasses))
      return type.unsupported("is " + in_quotes(type.text()) +
                              ": this kind of vision encoder is not supported in Hugging Face folders");
    std::string known;
    for (const Class& one : kClasses)
      if (!known.ends_with(one.name)) known += (known.empty() ? "" : ", ") + std::string(one.name);
    return names.unsupported("is " + in_quotes(name) +
                             ", whose vision encoder is not supported in Hugging Face folders (known: " + known + ")");
  }
  const auto* const defaults = std::ranges::find(kDefaults, found->kind, &Defaults::kind);
  return EncoderTranslation(config, processor, *defaults, found->grids, out).translate();
}

}  // namespace monolith::hf
