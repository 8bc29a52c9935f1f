// Computes llama.cpp's results for variants.py: logits in F32 with all pure speed optimizations turned off.
//
//   reference text MODEL 1,2,3 N              logits after the ids; logits after N - 1 greedily decoded tokens; these N tokens
//   reference vision MODEL MMPROJ RGB W H OUT the tokens and chunks around one image; writes the rows of all chunks to OUT
//
// Linked with a separately built llama.cpp; no code of it is part of this project.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "llama.h"
#include "mtmd.h"

namespace {

void errors_only(ggml_log_level level, const char* text, void*) {
  if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

llama_model* load(const char* path) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.use_extra_bufts = false;   // no repacked weights
  return llama_model_load_from_file(path, params);
}

int text(const char* path, const char* ids_text, int n_tokens) {
  llama_model* const model = load(path);
  if (model == nullptr) return 3;
  std::vector<llama_token> ids;
  std::stringstream stream(ids_text);
  for (std::string id; std::getline(stream, id, ',');) ids.push_back(std::atoi(id.c_str()));

  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = 1024;
  params.n_threads = params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.swa_full = true;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) return 4;

  const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const auto print = [&] {
    const float* const logits = llama_get_logits_ith(context, -1);
    for (int i = 0; i < n_vocab; ++i) std::printf("%.9g%c", static_cast<double>(logits[i]), i + 1 < n_vocab ? ' ' : '\n');
  };
  if (llama_decode(context, llama_batch_get_one(ids.data(), static_cast<int32_t>(ids.size()))) != 0) return 5;
  print();
  std::string chosen;
  for (int i = 0; i < n_tokens; ++i) {
    const float* const logits = llama_get_logits_ith(context, -1);
    llama_token best = static_cast<llama_token>(std::max_element(logits, logits + n_vocab) - logits);
    chosen += std::to_string(best) + " ";
    if (i + 1 < n_tokens && llama_decode(context, llama_batch_get_one(&best, 1)) != 0) return 5;
  }
  print();
  std::printf("%s\n", chosen.c_str());
  return 0;
}

int vision(const char* path, const char* tower, const char* rgb, int width, int height, const char* out) {
  llama_model* const model = load(path);
  if (model == nullptr) return 3;
  mtmd_context_params params = mtmd_context_params_default();
  params.use_gpu = params.warmup = params.print_timings = false;
  params.n_threads = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  mtmd_context* const context = mtmd_init_from_file(tower, model, params);
  if (context == nullptr) return 4;

  std::vector<unsigned char> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  std::ifstream(rgb, std::ios::binary).read(reinterpret_cast<char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  const mtmd_bitmap* const bitmap = mtmd_bitmap_init(static_cast<uint32_t>(width), static_cast<uint32_t>(height), pixels.data());
  const std::string prompt = std::string("See ") + mtmd_get_marker(context) + " there";
  const mtmd_input_text input{prompt.c_str(), prompt.size(), true, true};
  mtmd_input_chunks* const chunks = mtmd_input_chunks_init();
  const mtmd_bitmap* bitmaps[] = {bitmap};
  if (mtmd_tokenize(context, chunks, &input, bitmaps, 1) != 0) return 5;

  std::ofstream rows(out, std::ios::binary);
  std::string sequence;
  for (size_t i = 0; i < mtmd_input_chunks_size(chunks); ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks, i);
    if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
      size_t n = 0;
      const llama_token* const ids = mtmd_input_chunk_get_tokens_text(chunk, &n);
      for (size_t j = 0; j < n; ++j) sequence += std::to_string(ids[j]) + " ";
      continue;
    }
    const size_t n = mtmd_input_chunk_get_n_tokens(chunk);
    if (mtmd_encode_chunk(context, chunk) != 0) return 6;
    rows.write(reinterpret_cast<const char*>(mtmd_get_output_embd(context)),
               static_cast<std::streamsize>(n * static_cast<size_t>(llama_model_n_embd_inp(model)) * sizeof(float)));
    sequence += "[" + std::to_string(n) + "/" + std::to_string(mtmd_input_chunk_get_n_pos(chunk)) + "] ";
  }
  std::printf("%s\n", sequence.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  llama_log_set(errors_only, nullptr);
  mtmd_log_set(errors_only, nullptr);
  llama_backend_init();
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "text" && argc == 5) return text(argv[2], argv[3], std::atoi(argv[4]));
  if (what == "vision" && argc == 8) return vision(argv[2], argv[3], argv[4], std::atoi(argv[5]), std::atoi(argv[6]), argv[7]);
  std::fputs("usage: reference text MODEL IDS N | reference vision MODEL MMPROJ RGB W H OUT\n", stderr);
  return 2;
}
