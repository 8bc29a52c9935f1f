#include "vision/projectors.h"

#include <algorithm>

namespace monolith {
namespace {

constexpr ProjectorTraits kProjectors[] = {
    {.name = "idefics3", .projector = Projector::kIdefics3, .sizing = Sizing::kLongerSide, .filter = Filter::kBicubic,
     .merge_key = "projector.scale_factor", .merge = 2},
    {.name = "gemma3", .projector = Projector::kGemma3, .sizing = Sizing::kFixed,
     .merge_key = "projector.scale_factor", .merge = 4, .bidirectional = true,
     .before = "<start_of_image>", .after = "<end_of_image>"},
    {.name = "qwen2vl_merger", .projector = Projector::kQwen2Vl, .sizing = Sizing::kSmart,
     .merge_key = "spatial_merge_size", .merge = 2, .positions = PatchPositions::kNone, .rotation = PatchRotation::kQwen,
     .mrope = true, .least = 8, .most = 4096, .before = "<|vision_start|>", .after = "<|vision_end|>"},
    {.name = "qwen2.5vl_merger", .projector = Projector::kQwen25Vl, .sizing = Sizing::kSmart,
     .merge_key = "spatial_merge_size", .merge = 2, .positions = PatchPositions::kNone, .rotation = PatchRotation::kQwen,
     .rms = true, .mrope = true, .least = 8, .most = 4096, .before = "<|vision_start|>", .after = "<|vision_end|>"},
    {.name = "qwen3vl_merger", .projector = Projector::kQwen3Vl, .sizing = Sizing::kSmart,
     .merge_key = "spatial_merge_size", .merge = 2, .positions = PatchPositions::kBilinear, .rotation = PatchRotation::kQwen,
     .mrope = true, .least = 8, .most = 4096, .before = "<|vision_start|>", .after = "<|vision_end|>"},
    {.name = "pixtral", .projector = Projector::kPixtral, .sizing = Sizing::kSmart,
     .merge_key = "spatial_merge_size", .merge = 1, .positions = PatchPositions::kNone, .rotation = PatchRotation::kPixtral,
     .rms = true, .least = 8, .most = 1024, .after = "[IMG_END]"},
    {.name = "internvl", .projector = Projector::kInternVl, .sizing = Sizing::kCandidates, .filter = Filter::kBicubic,
     .merge_key = "projector.scale_factor", .merge = 2, .class_vector = true, .before = "<img>", .after = "</img>"},
    // LLaVA 1.5, and with grids to choose from 1.6. The grey is the mean of what CLIP was trained on.
    {.name = "mlp", .projector = Projector::kMlp, .sizing = Sizing::kFixed, .filter = Filter::kBicubic, .pad = {122, 116, 104},
     .class_vector = true},
    {.name = "lfm2", .projector = Projector::kLfm2, .sizing = Sizing::kLfm2, .merge_key = "projector.scale_factor", .merge = 2,
     .positions = PatchPositions::kTriangle, .least = 64, .most = 256, .before = "<|image_start|>", .after = "<|image_end|>"},
    {.name = "gemma4v", .projector = Projector::kGemma4, .sizing = Sizing::kSmart, .merge_key = "projector.scale_factor",
     .merge = 3, .positions = PatchPositions::kTwoTables, .rotation = PatchRotation::kGemma4, .rope_base = 100,
     .rms = true, .bidirectional = true, .least = 40, .most = 280, .before = "<|image>", .after = "<image|>"},
    {.name = "kimik25", .projector = Projector::kKimi25, .sizing = Sizing::kSmart, .filter = Filter::kBicubic,
     .merge_key = "projector.scale_factor", .merge = 2, .positions = PatchPositions::kBicubic,
     .rotation = PatchRotation::kKimi, .least = 2, .most = 4096, .before = "<|media_begin|>", .after = "<|media_end|>"},
};

}  // namespace

const ProjectorTraits* projector_traits(std::string_view name) {
  const auto* const found = std::ranges::find(kProjectors, name, &ProjectorTraits::name);
  return found == std::end(kProjectors) ? nullptr : found;
}

std::string projector_names() {
  std::string names;
  for (const ProjectorTraits& traits : kProjectors) names += (names.empty() ? "" : ", ") + std::string(traits.name);
  return names;
}

}  // namespace monolith
