#include "vision/encoder_weights.h"

#include <string>

#include "vision/tensor_reader.h"
#include "vision/vision_params.h"

namespace monolith {
namespace {

constexpr std::string_view kNewline = "model.image_newline";  // The newline embedding in LLaVA 1.6.

std::string block(int layer) { return "v.blk." + std::to_string(layer) + "."; }

EncoderLayer read_layer(TensorReader& read, const VisionParams& params, int index) {
  const std::string at = block(index);
  const int64_t width = params.width, head = params.head_dim();
  const bool rms = params.traits->rms;
  EncoderLayer layer;
  layer.norm1 = read.norm(at + "ln1", width, rms);
  layer.norm2 = read.norm(at + "ln2", width, rms);
  if (read.has(at + "attn_qkv.weight")) {
    layer.q = read.linear_part(at + "attn_qkv", 0, width, 3 * width, width);
    layer.k = read.linear_part(at + "attn_qkv", width, width, 3 * width, width);
    layer.v = read.linear_part(at + "attn_qkv", 2 * width, width, 3 * width, width);
  } else {
    layer.q = read.linear(at + "attn_q", width, width);
    layer.k = read.linear(at + "attn_k", width, width);
    layer.v = read.linear(at + "attn_v", width, width);
  }
  layer.out = read.linear(at + "attn_out", width, width);
  if (params.traits->projector == Projector::kGemma4) {
    layer.q_norm = read.vector(at + "attn_q_norm.weight", head);
    layer.k_norm = read.vector(at + "attn_k_norm.weight", head);
    layer.attn_post = read.vector(at + "attn_post_norm.weight", width);
    layer.ffn_post = read.vector(at + "ffn_post_norm.weight", width);
  }
  // In older files, these two tensor names are swapped, which can be detected from the shapes.
  const GgufTensor* const up = read.find(at + "ffn_up.weight");
  const bool swapped =
      up != nullptr && params.n_ff != params.width && up->shape[0] == params.n_ff && up->shape[1] == width;
  layer.up = read.linear(at + (swapped ? "ffn_down" : "ffn_up"), params.n_ff, width);
  layer.down = read.linear(at + (swapped ? "ffn_up" : "ffn_down"), width, params.n_ff);
  if (read.has(at + "ffn_gate.weight")) layer.gate = read.linear(at + "ffn_gate", params.n_ff, width);
  layer.scale1 = read.vector_if(at + "ls1.weight", width);
  layer.scale2 = read.vector_if(at + "ls2.weight", width);
  return layer;
}

// Looks up the table of position embeddings and determines its size.
void read_positions(TensorReader& read, VisionParams& params, EncoderWeights& weights) {
  const int64_t width = params.width, side = params.side_patches();
  const std::string name = "v.position_embd.weight";
  const auto fail = [&](const std::string& what) {
    read.fail({ErrorCode::kInvalidFile, "tensor " + name + " " + what});
  };
  const GgufTensor* table = nullptr;
  switch (params.traits->positions) {
    case PatchPositions::kNone: return;
    case PatchPositions::kLearned:
      table = read.tensor(name, {width, side * side + (params.class_vector ? 1 : 0)});
      params.n_positions = static_cast<int>(side * side);
      break;
    case PatchPositions::kBilinear:
    case PatchPositions::kTriangle: {
      table = read.tensor(name, {width, 0});
      if (table == nullptr) return;
      int64_t rows = 1;
      while (rows < 1 << 12 && rows * rows < table->shape[1]) ++rows;
      if (rows * rows != table->shape[1])
        return fail("has " + std::to_string(table->shape[1]) + " rows, which is not a square number");
      params.position_rows = params.position_columns = static_cast<int>(rows);
      break;
    }
    case PatchPositions::kBicubic:
    case PatchPositions::kTwoTables: {
      table = read.tensor(name, {width, 0, params.traits->positions == PatchPositions::kTwoTables ? 2 : 0});
      if (table == nullptr) return;
      if (table->shape[1] > 1 << 16 || table->shape[2] > 1 << 16)
        return fail("has more than 65536 positions per dimension");
      params.n_positions = params.position_columns = static_cast<int>(table->shape[1]);
      params.position_rows = static_cast<int>(table->shape[2]);
      break;
    }
  }
  if (table != nullptr) weights.positions = read.all(*table);
}

int64_t rows_of(TensorReader& read, const std::string& name, size_t dimension) {
  const GgufTensor* const found = read.tensor(name, {0, 0});
  if (found == nullptr) return 1;
  const int64_t rows = found->shape[dimension];
  if (rows > 1 << 20)
    read.fail({ErrorCode::kInvalidFile,
               "tensor " + name + " has too many rows for an embedding size: " + std::to_string(rows)});
  return rows;
}

void read_projector(TensorReader& read, VisionParams& params, EncoderWeights& weights) {
  const int64_t width = params.width, merged = width * params.merge * params.merge;
  const auto two_layers = [&](const std::string& one, const std::string& two, int64_t from) {
    const int64_t inner = rows_of(read, one + ".weight", 1);
    params.n_embd = rows_of(read, two + ".weight", 1);
    weights.first = read.linear(one, inner, from);
    weights.last = read.linear(two, params.n_embd, inner);
  };
  switch (params.traits->projector) {
    case Projector::kIdefics3:
      params.n_embd = rows_of(read, "mm.model.fc.weight", 1);
      weights.last = read.linear("mm.model.fc", params.n_embd, merged);
      break;
    case Projector::kGemma3:
      params.n_embd = rows_of(read, "mm.input_projection.weight", 0);
      weights.merged_norm.weight = read.vector("mm.soft_emb_norm.weight", width);
      weights.last = read.linear_transposed("mm.input_projection", params.n_embd, width);
      break;
    case Projector::kQwen2Vl:
    case Projector::kQwen25Vl:
    case Projector::kQwen3Vl: two_layers("mm.0", "mm.2", merged); break;
    case Projector::kMlp:
      two_layers("mm.0", "mm.2", merged);
      if (!params.ends_rows) break;
      if (!read.has(kNewline))
        read.fail({ErrorCode::kInvalidFile,
                   "tensor " + std::string(kNewline) + " is missing; it is needed after each row of tiles"});
      weights.row_break = read.vector(std::string(kNewline), params.n_embd);
      break;
    case Projector::kPixtral:
      if (read.has("mm.patch_merger.weight")) {
        weights.patch_norm.weight = read.vector("mm.input_norm.weight", width);
        weights.merger = read.linear_by_place("mm.patch_merger", width, width, int64_t{params.merge} * params.merge);
      } else if (params.merge > 1) {
        read.fail({ErrorCode::kInvalidFile,
                   "tensor mm.patch_merger.weight is missing, but clip.vision.spatial_merge_size is " +
                       std::to_string(params.merge)});
      }
      two_layers("mm.1", "mm.2", width);
      weights.row_break = read.vector_if("v.token_embd.img_break", params.n_embd);
      params.breaks_rows = weights.row_break != nullptr;
      break;
    case Projector::kInternVl:
      weights.merged_norm = read.norm("mm.model.mlp.0", merged);
      two_layers("mm.model.mlp.1", "mm.model.mlp.3", merged);
      break;
    case Projector::kLfm2:
      weights.merged_norm = read.norm_if("mm.input_norm", merged);
      two_layers("mm.1", "mm.2", merged);
      break;
    case Projector::kGemma4:
      params.n_embd = rows_of(read, "mm.input_projection.weight", 1);
      if (read.has("v.std_bias")) weights.minus_bias = read.vector("v.std_bias", width, -1);
      weights.column_scale = read.vector_if("v.std_scale", width);
      weights.last = read.linear("mm.input_projection", params.n_embd, width);
      break;
    case Projector::kKimi25:
      weights.patch_norm = read.norm("mm.input_norm", width);
      two_layers("mm.1", "mm.2", merged);
      break;
  }
}

void read_deepstack(TensorReader& read, VisionParams& params, EncoderWeights& weights) {
  if (params.traits->projector != Projector::kQwen3Vl) return;
  const int64_t merged = int64_t{params.width} * params.merge * params.merge;
  params.deepstack.clear();
  for (int layer = 0; layer < params.n_layers; ++layer) {
    const std::string at = "v.deepstack." + std::to_string(layer) + ".";
    if (!read.has(at + "fc1.weight")) continue;
    DeepstackPart part;
    part.layer = layer;
    part.norm = read.norm(at + "norm", merged);
    const int64_t inner = rows_of(read, at + "fc1.weight", 1);
    part.first = read.linear(at + "fc1", inner, merged);
    part.last = read.linear(at + "fc2", params.n_embd, inner);
    params.deepstack.push_back(layer);
    weights.deepstack.push_back(std::move(part));
  }
}

EncoderWeights read_all(TensorReader& read, VisionParams& params) {
  EncoderWeights weights;
  const int64_t width = params.width;
  weights.patches = read.patch_kernel("v.patch_embd", width, params.patch_size);
  if (params.class_vector) weights.class_vector = read.vector("v.class_embd", width);
  read_positions(read, params, weights);
  weights.pre = read.norm_if("v.pre_ln", width, params.traits->rms);
  const Projector projector = params.traits->projector;
  // In LLaVA and InternVL, the final norm is not applied, even if the file has one.
  if (projector == Projector::kMlp || projector == Projector::kInternVl)
    read.ignore("v.post_ln.");
  else if (projector != Projector::kGemma4 && projector != Projector::kPixtral)
    weights.post = read.norm_if("v.post_ln", width, params.traits->rms);
  for (int layer = 0; layer < params.n_layers && read.ok(); ++layer)
    weights.layers.push_back(read_layer(read, params, layer));
  for (int layer = params.n_layers; layer < params.n_file_layers; ++layer) read.ignore(block(layer));
  // llama.cpp does not use this embedding.
  if (projector == Projector::kMlp && !params.ends_rows) read.ignore(kNewline);
  read_projector(read, params, weights);
  read_deepstack(read, params, weights);
  read.check_surplus({"v.", "mm.", "model."});
  return weights;
}

}  // namespace

Status check_encoder_tensors(const GgufFile& file, VisionParams& params) {
  TensorReader read(file, nullptr, nullptr, {});
  read_all(read, params);
  return read.status();
}

EncoderWeights encoder_shapes(const GgufFile& file, VisionParams& params, SixteenBits halves) {
  TensorReader read(file, nullptr, nullptr, halves);
  return read_all(read, params);
}

size_t encoder_weight_bytes(const GgufFile& file, VisionParams params, const BackendMemory& backend,
                            SixteenBits halves) {
  TensorReader read(file, &backend, nullptr, halves);
  read_all(read, params);
  return read.bytes();
}

Result<EncoderWeights> load_encoder_weights(const GgufFile& file, VisionParams params, BackendMemory& backend,
                                            SixteenBits halves) {
  TensorReader read(file, &backend, &backend, halves);
  EncoderWeights weights = read_all(read, params);
  if (!read.ok()) return read.status().error();
  return weights;
}

}  // namespace monolith
