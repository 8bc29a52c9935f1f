// Compares a model family's Hugging Face directory with the golden GGUF file that has the same weights. The logits must
// be bit-identical, and metadata keys that are in both must have equal values. For tests only.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "engine/debug/debug_logits.h"
#include "formats/hf/model_file.h"
#include "support/family_folder.h"
#include "support/fed_sequence.h"
#include "support/drafting_model.h"

namespace monolith::testing {

inline constexpr int kFamilyTokens = 90;  // More than the sliding window of any golden vector (64).
inline constexpr int kFamilyVocab = 300;  // No golden vector has a smaller vocabulary.

std::vector<float> family_logits(const std::string& path, const std::string& what);

// Compares the architecture's metadata keys that both files have.
void compare_keys(const GgufFile& want, const GgufFile& got, const std::string& what);

std::string config_of(const FamilyFolder& one);

inline constexpr std::string_view kSmallTokenizer = R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                                                    R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})";

// Damages the directory: changes digits in settings, changes shapes or names of tensors, or removes tensors. Each
// damaged directory must either be rejected or be readable to the end.
void damage_folder(const FamilyFolder& one, int rounds);

void check_folder(const FamilyFolder& one);

// A family's directory with MTP layers.
struct DraftFolder {
  FamilyFolder family;
  std::string key = {};  // A member to add to config.json if it is missing.
  // Returns the name of an MTP layer's tensor in the directory, given the layer's level and the tensor's name within
  // the layer. If not set, MTP layers are named like regular layers and continue their numbering.
  std::function<std::string(int level, const std::string& rest)> name = {};
  int levels = 1;
  // Changes the golden file after the MTP layers have been added.
  std::function<void(LooseModel&)> change = [](LooseModel&) {};
};

// Compares the draft logits with the GGUF file's draft logits, and the model's logits with the logits of a directory
// without MTP layers.
void check_mtp_layers(const DraftFolder& one, const GgufFile& golden);

void check_mtp_layers(const DraftFolder& one);

}  // namespace monolith::testing
