// From a GGUF pair (text model and vision file), builds the Hugging Face directory that the model's authors would
// publish. This reverses the conversion under test, but was written independently of it, based on the layouts of
// transformers' classes. For tests only.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/family_folder.h"
#include "support/vision_golden.h"
#include "formats/gguf/tokenizer.h"

namespace monolith::testing {

struct VisionFolder {
  const char* pair;  // Name of the pair in the vision vectors.
  const char* name;  // Class name in config.json.
  const char* text;  // Prefix of the text model's tensor names, in place of "model.".
  // Additional members of text_config. The next two fields hold additional members of config.json and of the
  // processor's settings.
  std::string text_config;
  std::string config, processor;
  // Name prefixes of the encoder, the projector and the encoder's layers. The last one comes after the encoder prefix
  // in a name.
  std::string encoder, projector, layers;
  TensorNames names;  // Checkpoint names by GGUF stem, for the encoder, a layer and the projector ("mm.").
  // Converts weights from the vision file's layout to the checkpoint's layout.
  std::function<void(Weights&)> publish = [](Weights&) {};
  // Changes the encoder of a pair to a kind of encoder that occurs in no pair. Both the directory and the GGUF file are
  // changed before the comparison.
  std::function<void(Weights&)> derive = [](Weights&) {};
  // False if the text model of the published model differs from the one in the pair.
  bool whole = true;
  std::vector<std::string> without = {};  // Metadata keys to remove from the vision file.
  // Adds the metadata keys to the vision file that replace the removed ones.
  std::function<void(GgufBuilder&)> more = [](GgufBuilder&) {};
};

inline const TensorNames kSiglip = {{"v.patch_embd", "embeddings.patch_embedding"},
                                    {"v.position_embd", "embeddings.position_embedding"},
                                    {"v.post_ln", "post_layernorm"},
                                    {"ln1", "layer_norm1"},
                                    {"ln2", "layer_norm2"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_out", "self_attn.out_proj"},
                                    {"ffn_up", "mlp.fc1"},
                                    {"ffn_down", "mlp.fc2"}};
inline const TensorNames kPixtralEncoder = {{"v.patch_embd", "patch_conv"},
                                            {"v.pre_ln", "ln_pre"},
                                            {"ln1", "attention_norm"},
                                            {"ln2", "ffn_norm"},
                                            {"attn_q", "attention.q_proj"},
                                            {"attn_k", "attention.k_proj"},
                                            {"attn_v", "attention.v_proj"},
                                            {"attn_out", "attention.o_proj"},
                                            {"ffn_gate", "feed_forward.gate_proj"},
                                            {"ffn_up", "feed_forward.up_proj"},
                                            {"ffn_down", "feed_forward.down_proj"},
                                            {"mm.input_norm", "norm"},
                                            {"mm.patch_merger", "patch_merger.merging_layer"},
                                            {"mm.1", "linear_1"},
                                            {"mm.2", "linear_2"}};
inline const TensorNames kQwenEncoder = {{"v.patch_embd", "patch_embed.proj"},
                                         {"v.position_embd", "pos_embed"},
                                         {"ln1", "norm1"},
                                         {"ln2", "norm2"},
                                         {"attn_qkv", "attn.qkv"},
                                         {"attn_out", "attn.proj"}};

// Joins the patch kernels for two frames. Within each color channel, the kernel of the second frame follows that of the
// first.
void join_frames(Weights& weights);

void join_qkv(Weights& weights);

// Reorders patch kernels to rows by pixel position, then by color channel.
void colors_last(Weights& weights);

void turn_halves(Weights& weights, int64_t heads);

// Reorders the rows of queries and keys, so that the RoPE pairs for the column and those for the row alternate, whereas
// in GGUF all column pairs come first.
void axes_in_turn(Weights& weights, int64_t heads);

// Prepends dimensions of size 1.
void as_parameter(FloatTensor& tensor, size_t ones);

std::vector<VisionFolder> vision_folders();

// Returns the checkpoint name of a tensor in the vision file. If the directory has no such tensor name, the test fails
// and the result is empty.
std::string encoder_name(const VisionFolder& folder, const std::string& name);

// A pair of GGUF files whose values the directory can represent exactly, and the directory with the same values.
struct VisionPairFiles {
  ScratchFolder folder, files;
  std::string text() const { return files.path() + "/text.gguf"; }
  std::string encoder() const { return files.path() + "/mmproj.gguf"; }
};

void write_vision_folder(const VisionFolder& one, const GgufFile& text, const GgufFile& encoder,
                         const VisionPairFiles& to);

}  // namespace monolith::testing
