// Tests that vision files of every kind load, and that missing, unknown or damaged tensors and keys, and tensors with
// wrong shapes, are rejected with an error that names them.
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "vision/tiny_vision.h"
#include "vision/vision_params.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// Returns the error message if the model is rejected, or an empty string if it loads.
std::string refusal(const TinyModel& model, const VisionBounds& bounds = {}) {
  const ParsedModel parsed(model);
  if (parsed.file == nullptr) return parsed.error;
  const auto loaded = VisionModel::load(*parsed.file, bounds);
  return loaded ? "" : loaded.error().message;
}

bool mentions(const std::string& message, const std::string& name) { return message.find(name) != std::string::npos; }

std::shared_ptr<const VisionModel> loaded(const TinyModel& model, const VisionBounds& bounds = {}) {
  const ParsedModel parsed(model);
  auto result = VisionModel::load(*parsed.file, bounds);
  if (!result) check::fail(__FILE__, __LINE__, result.error().message);
  return result ? *result : nullptr;
}

}  // namespace

TEST(vision_files_of_every_kind_load_and_missing_tensors_are_named) {
  for (const char* type : kProjectorNames) {
    const TinyVision whole(type);
    CHECK_EQ(refusal(whole), "");
    for (const auto& [name, tensor] : whole.tensors) {
      if (name.ends_with(".bias") || name.ends_with("_min") || name.ends_with("_max") ||
          name.starts_with("v.post_ln") || name.starts_with("v.pre_ln") || name.starts_with("v.std_") ||
          name.ends_with(".weight.1") || name.starts_with("v.blk.2.") || name.find(".ls") != std::string::npos ||
          name.find("ffn_gate") != std::string::npos || name.find("img_break") != std::string::npos ||
          name.find("deepstack") != std::string::npos || name.starts_with("mm.input_norm") ||
          name.find("_qkv") != std::string::npos || (type == std::string("mlp") && name == "v.class_embd"))
        continue;  // This tensor is optional, or the error names a different tensor.
      TinyVision without(type);
      without.tensors.erase(name);
      if (!mentions(refusal(without), name))
        check::fail(__FILE__, __LINE__, std::string(type) + " without " + name + ": " + refusal(without));
    }
    for (const auto& [name, tensor] : whole.tensors) {
      // The tensor is skipped, because it belongs to a layer that is not used or because only the text model determines
      // its length.
      if (name.starts_with("v.blk.2.") || (type == std::string("gemma3") && name == "mm.input_projection.weight"))
        continue;
      TinyVision misshapen(type);
      misshapen.tensors[name].dims[0] += 1;
      if (!mentions(refusal(misshapen), name.substr(0, name.rfind('.'))))
        check::fail(__FILE__, __LINE__, std::string(type) + " " + name + ": " + refusal(misshapen));
    }
    for (const char* key : {"image_size", "patch_size", "embedding_length", "block_count", "attention.head_count",
                            "image_mean", "image_std"}) {
      TinyVision without(type);
      without.keys.erase(std::string("clip.vision.") + key);
      CHECK(mentions(refusal(without), key));
      TinyVision odd(type);
      odd.key(key, std::string("many"));
      CHECK(mentions(refusal(odd), key));
    }
    TinyVision surplus(type);
    surplus.bias("v.blk.0.mystery", 3);
    CHECK(mentions(refusal(surplus), "v.blk.0.mystery"));
  }
  TinyVision unknown("gemma3");
  unknown.keys["clip.projector_type"] = std::string("crystal");
  CHECK(mentions(refusal(unknown), "crystal") && mentions(refusal(unknown), "idefics3"));
  CHECK(mentions(refusal(TinyModel("llama")), "not a vision file"));
}

TEST(invalid_vision_sizes_are_rejected) {
  const std::pair<const char*, uint32_t> kBad[] = {
      {"image_size", 0},           {"image_size", 4000000000u}, {"patch_size", 0},      {"patch_size", 100000},
      {"attention.head_count", 7}, {"block_count", 0},          {"embedding_length", 0}};
  for (const auto& [key, value] : kBad) {
    TinyVision model("internvl");
    model.key(key, value);
    CHECK(!refusal(model).empty());
  }
  TinyVision flat("gemma3");
  flat.key("image_std", std::vector<float>{0.5f, 0.0f, 0.5f});
  CHECK(mentions(refusal(flat), "image_std"));
  TinyVision grids("mlp");
  grids.key("image_grid_pinpoints", std::vector<uint32_t>{24, 47});
  CHECK(mentions(refusal(grids), "image_grid_pinpoints"));
}

TEST(damaged_vision_files_never_crash) {
  std::mt19937 random(7);
  int n_loaded = 0;
  for (const char* type : kProjectorNames) {
    const Bytes whole = TinyVision(type).build();
    for (int i = 0; i < 150; ++i) {
      Bytes bytes = whole;
      if (i % 5 == 0) bytes.resize(random() % bytes.size());
      for (int change = 0; change < 1 + i % 3 && !bytes.empty(); ++change)
        bytes[random() % (i % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 3000))] =
            static_cast<std::byte>(random());
      const auto file = GgufFile::parse(bytes);
      if (!file) continue;
      const auto model = VisionModel::load(**file, {});
      if (!model) continue;
      ++n_loaded;
      const auto pixels = striped_picture(30, 20);
      if (const auto plan = (*model)->plan(30, 20); plan && (*model)->most_piece_pixels() < 1 << 22)
        CHECK(static_cast<bool>((*model)->prepare(*plan, {30, 20, pixels})));
      for (const auto& [width, height] :
           {std::pair{1, 1}, std::pair{65536, 1}, std::pair{1, 65536}, std::pair{10000, 13000}, std::pair{-1, 5}})
        static_cast<void>((*model)->plan(width, height));
    }
  }
  CHECK(n_loaded > 50);  // Some damaged files load, which shows that the loader does not reject everything.
}

TEST(images_are_planned_within_the_operators_limits) {
  for (const char* type : kProjectorNames) {
    const auto model = loaded(TinyVision(type));
    REQUIRE(model != nullptr);
    for (const auto& [width, height] : {std::pair{1, 1}, std::pair{30, 20}, std::pair{3000, 10}, std::pair{7, 900},
                                        std::pair{2000, 1500}, std::pair{60000, 1}, std::pair{1, 60000}}) {
      const auto plan = model->plan(width, height);
      if (!plan) {
        CHECK(mentions(plan.error().message, "narrow"));
        continue;
      }
      CHECK(plan->n_tokens() <= model->most_tokens());
      for (const ImagePiece& piece : plan->pieces) {
        CHECK(piece.n_rows >= 1 && piece.n_rows <= model->most_rows());
        CHECK(int64_t{piece.width} * piece.height <= model->most_piece_pixels());
      }
    }
    CHECK(!model->plan(0, 5) && !model->plan(5, -3) && !model->plan(INT32_MAX, INT32_MAX));
    CHECK(!loaded(TinyVision(type), {.max_source_pixels = 100})->plan(11, 10));
    const auto low = model->plan(2000, 1500, {.overview_only = true});
    CHECK(low && low->pieces.size() == 1 && low->n_rows() <= model->plan(2000, 1500)->n_rows());
  }
  CHECK_EQ(loaded(TinyVision("idefics3"))->plan(500, 400)->pieces.size(), size_t{10});
  CHECK_EQ(loaded(TinyVision("idefics3"), {.max_tiles = 4})->plan(500, 400)->pieces.size(), size_t{5});
  CHECK_EQ(loaded(TinyVision("internvl"))->plan(500, 400)->columns, 4);
  CHECK(loaded(TinyVision("internvl"), {.max_tiles = 3})->plan(500, 400)->pieces.size() <= 4);
  TinyVision tiled("internvl");
  // In llama.cpp, the setting is the minimum number of columns and of rows; in the original program, it is the minimum
  // number of tiles.
  tiled.key("preproc_min_tiles", 2u);
  CHECK_EQ(loaded(tiled)->plan(60, 20)->pieces.size(), size_t{3 * 2 + 1});
  CHECK_EQ(loaded(tiled, {.resize = VisionResize::kOriginal})->plan(60, 20)->pieces.size(), size_t{3 + 1});
  CHECK_EQ(loaded(TinyVision("internvl"))->plan(60, 20)->pieces.size(), size_t{3 + 1});
  tiled.key("preproc_min_tiles", 13u);
  CHECK(mentions(refusal(tiled), "preproc_min_tiles"));
  const auto small = loaded(TinyVision("pixtral"), {.max_pixels = 4096})->plan(500, 400);
  CHECK(small && int64_t{small->pieces[0].width} * small->pieces[0].height <= 4096);
}

TEST(content_hashes_depend_on_image_and_model) {
  const auto model = loaded(TinyVision("pixtral"));
  auto pixels = striped_picture(60, 40);
  const auto plan = model->plan(60, 40);
  const auto hash = [&](const VisionModel& of) { return (*of.prepare(*plan, {60, 40, pixels}))[0].hash; };
  const ContentHash first = hash(*model);
  CHECK(hash(*model) == first);
  TinyVision other("pixtral");
  other.tensors["mm.1.bias"].scale = 0.3f;  // The content hash depends on the weights.
  CHECK(!(hash(*loaded(other)) == first));
  pixels[600] ^= 1;
  CHECK(!(hash(*model) == first));
  CHECK(!model->prepare(*plan, {40, 60, pixels}));
}

TEST(a_mismatched_pair_is_rejected_with_the_difference) {
  const auto qwen = loaded(TinyVision("qwen3vl_merger")), pixtral = loaded(TinyVision("pixtral"));
  TextModelFacts facts{.architecture = "qwen3vl", .n_embd = 24, .mrope = true, .n_deepstack = 1, .tokenizer = nullptr};
  const auto message = [&](const VisionModel& model) { return model.fit(facts).error().message; };
  facts.n_embd = 25;
  CHECK(mentions(message(*qwen), "24") && mentions(message(*qwen), "25"));
  facts.n_embd = 24, facts.mrope = false;
  CHECK(mentions(message(*qwen), "M-RoPE"));
  facts.mrope = true, facts.n_deepstack = 2;
  CHECK(mentions(message(*qwen), "deepstack"));
  CHECK(mentions(message(*pixtral), "M-RoPE"));
}
