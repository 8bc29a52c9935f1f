// Tests drafters on the CUDA backend. The draft logits of MTP layers and EAGLE-3 heads are the same as on the CPU,
// where mtp_layer_test.cc and eagle_head_test.cc compare them with float64. The model's own logits do not change.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "check.h"
#include "support/eagle_file.h"
#include "support/fed_sequence.h"
#include "support/drafting_model.h"
#include "support/network_run.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

using Floats = std::vector<float>;

// A model file and, if the test uses an EAGLE-3 head, the file of the head.
struct Files {
  Bytes image, head_image;
  std::unique_ptr<const GgufFile> file, head;
};

struct Drafter {
  const char* model;
  int n_layers = 0;  // Number of MTP layers; 0 = the model has an EAGLE-3 head.
};

std::optional<Files> files_of(const Drafter& drafter) {
  const std::string path = check::vectors_path(std::string("models/") + drafter.model + ".gguf");
  if (path.empty()) return std::nullopt;
  auto plain = GgufFile::open(path);
  if (!plain) return std::nullopt;
  LooseModel loose(**plain);
  Files files;
  for (int i = 0; i < drafter.n_layers; ++i) {
    const uint32_t layer = add_mtp_layer(loose);
    // Each MTP layer has different weights, so that the outputs differ.
    const uint64_t n_embd = loose.number("embedding_length");
    loose.put_floats("blk." + std::to_string(layer) + ".nextn.eh_proj.weight", {2 * n_embd, n_embd},
                     made_up(2 * n_embd * n_embd, 30 + static_cast<uint64_t>(i), 0.15f));
  }
  if (drafter.n_layers == 0) {
    files.head_image = EagleFile(loose, {120, 50, 7, 200, 8}).build();
    auto head = GgufFile::parse(files.head_image);
    if (!head) return std::nullopt;
    files.head = std::move(*head);
  }
  files.image = loose.build();
  auto file = GgufFile::parse(files.image);
  if (!file) return std::nullopt;
  files.file = std::move(*file);
  return files;
}

// Returns the results for a sequence whose pages are interleaved with other sequences' pages: the logits, followed by
// the logits of consecutive draft tokens.
struct Said {
  Floats logits;
  std::vector<Floats> drafts;
};
constexpr int kTokens = 12, kDepth = 4;

Result<Said> said_by(const Files& files, Result<std::unique_ptr<Backend>> backend, int piece, bool drafts = true) {
  if (!backend) return backend.error();
  ModelLimits limits = draft_limits(drafts && !files.head);
  auto model = Transformer::load(*files.file, **backend, limits, {}, drafts ? files.head.get() : nullptr);
  if (!model) return model.error();
  CHECK_EQ((*model)->drafts(), drafts);
  CHECK_EQ((*model)->allocated().total(), (*model)->memory().total());
  std::vector<int32_t> tokens = some_tokens(kTokens);
  Fed sequence(**model, 16, drafts ? 1 : 0);
  Said said{sequence.feed({tokens.begin(), tokens.end() - 1}, piece), {}};
  for (int depth = 0; drafts && depth < kDepth; ++depth)
    said.drafts.push_back(sequence.draft(some_tokens(kTokens + depth).back(), depth));
  // The step after the drafts continues as if nothing had been drafted.
  const Floats next = sequence.feed({tokens.back()}, 1);
  said.logits.insert(said.logits.end(), next.begin(), next.end());
  return said;
}

double furthest(const Floats& a, const Floats& b) {
  double most = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    scale = std::max(scale, std::abs(double{b[i]}));
  }
  return a.size() == b.size() && std::isfinite(most) ? most / scale : INFINITY;
}

// Covers layers with recurrent state, latents, sliding windows and experts. Also covers hidden states before and after
// the final norm, several MTP levels, and EAGLE-3 heads with one and with several page tables.
constexpr Drafter kDrafters[] = {
    {"qwen35.f16", 1},  {"deepseek2-v3.q8_0", 1}, {"exaone-moe.q8_0", 1}, {"mimo2.q8_0", 3},
    {"step35.q8_0", 2}, {"llama.q8_0"},           {"qwen35.f16"},         {"mimo2.q8_0"}};

}  // namespace

TEST(cuda_drafts_match_the_cpu) {
  bool any = false;
  for (const Drafter& drafter : kDrafters) {
    const auto files = files_of(drafter);
    if (!files) continue;
    any = true;
    const std::string what = std::string(drafter.model) +
                             (drafter.n_layers > 0 ? ", " + std::to_string(drafter.n_layers) + " layers" : ", a head");
    const auto expected = said_by(*files, make_cpu_backend({.threads = 1, .arithmetic = Arithmetic::kExact}), kTokens);
    const auto without = said_by(*files, make_cuda_backend({.exact = true}), 7, false);
    if (!expected || !without)
      return check::fail(__FILE__, __LINE__, what + ": " + (expected ? without : expected).error().message);
    double worst = 0;
    for (const int piece : {1, 7}) {
      const auto found = said_by(*files, make_cuda_backend({.exact = true}), piece);
      if (!found) return check::fail(__FILE__, __LINE__, what + ": " + found.error().message);
      CHECK(found->logits == without->logits);
      REQUIRE(found->drafts.size() == expected->drafts.size());
      for (size_t i = 0; i < expected->drafts.size(); ++i)
        worst = std::max(worst, furthest(found->drafts[i], expected->drafts[i]));
    }
    check::note(what + ": " + std::to_string(worst));
    if (!(worst < 1e-4)) check::fail(__FILE__, __LINE__, what + " gives different draft logits");
  }
  if (!any) check::skip("golden vectors not found");
}

// In production arithmetic, all steps run without errors, and the results are bit-identical for any division of the
// prompt into chunks.
TEST(cuda_drafts_in_production_arithmetic_do_not_depend_on_chunks) {
  for (const Drafter& drafter : {kDrafters[0], kDrafters[3], kDrafters[5]}) {
    const auto files = files_of(drafter);
    if (!files) return check::skip("golden vectors not found");
    const auto whole = said_by(*files, make_cuda_backend({}), kTokens), cut = said_by(*files, make_cuda_backend({}), 3);
    REQUIRE(whole.ok() && cut.ok());
    CHECK(whole->logits == cut->logits);
    CHECK(whole->drafts == cut->drafts);
  }
}

// Two sequences take turns, one token per step. A device could mistake each step for a replay of the same captured
// step.
TEST(cuda_drafts_of_alternating_sequences_are_independent) {
  for (const Drafter& drafter : {kDrafters[0], kDrafters[5]}) {
    const auto files = files_of(drafter);
    if (!files) return check::skip("golden vectors not found");
    const std::vector<int32_t> tokens = some_tokens(2 * kTokens);
    const auto drafts = [&](const std::vector<int>& turns) {
      auto backend = make_cuda_backend({});
      if (!backend) return std::vector<Floats>();
      auto model = Transformer::load(*files->file, **backend, draft_limits(!files->head), {}, files->head.get());
      if (!model) return std::vector<Floats>();
      Fed sequences[] = {Fed(**model, 16, 1), Fed(**model, 32, 0)};
      for (int i = 0; i < kTokens; ++i)
        for (const int turn : turns) sequences[turn].feed({tokens[static_cast<size_t>(turn * kTokens + i)]}, 1);
      std::vector<Floats> found;
      for (const int turn : turns) found.push_back(sequences[turn].draft(5, 0));
      return found;
    };
    const std::vector<Floats> together = drafts({0, 1}), first = drafts({0}), second = drafts({1});
    REQUIRE(together.size() == 2 && first.size() == 1 && second.size() == 1);
    CHECK(together[0] == first[0]);
    CHECK(together[1] == second[0]);
    CHECK(together[0] != together[1]);
  }
}
