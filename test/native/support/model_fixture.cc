#include "support/model_fixture.h"

namespace monolith::testing {

ModelLimits golden_limits(KvType kv_type) {
  ModelLimits limits;
  limits.max_batch_tokens = 1024;
  limits.max_logit_rows = 64;
  limits.max_context = 1024;
  limits.n_pages = 7 * 128;
  limits.pages_by_window = true;
  limits.kv_type = kv_type;
  return limits;
}

Result<LoadedModel> load_model(const std::string& path, Result<std::unique_ptr<Backend>> backend,
                               const ModelLimits& limits) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  if (!backend) return backend.error();
  ModelLimits own = limits;
  const auto params = HyperParams::read(**file);
  if (params && params->n_positions > 0) own.max_context = std::min(own.max_context, params->n_positions);
  auto model = Transformer::load(**file, **backend, own, {});
  if (!model) return model.error();
  return LoadedModel{std::move(*backend), std::move(*model)};
}

Result<LoadedModel> load_model(const std::string& path, const CpuBackendOptions& options, const ModelLimits& limits) {
  return load_model(path, make_cpu_backend(options), limits);
}

std::vector<PromptRun> GoldenRunner::run(const std::vector<GoldenPrompt>& prompts, int piece, bool together) {
  std::vector<PromptRun> runs(prompts.size());
  std::vector<Sequence> sequences;
  // Assigns page numbers in an order that is neither ascending nor consecutive.
  next_page_ = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!together) next_page_ = 0;
    sequences.push_back(start(prompts[i], runs[i]));
    if (!adapters_.empty()) sequences.back().adapter = adapters_[i % adapters_.size()];
    if (!together) finish({&sequences.back(), 1}, piece);
  }
  if (together) finish(sequences, piece);
  return runs;
}

GoldenRunner::Sequence GoldenRunner::start(const GoldenPrompt& prompt, PromptRun& run) {
  Sequence sequence{&prompt, &run, prompt.tokens, {}};
  sequence.tokens.insert(sequence.tokens.end(), prompt.greedy.begin(), prompt.greedy.end() - 1);
  const auto n_pages = sequence.table_size() * static_cast<size_t>(model_.memory().layout.tables());
  for (size_t i = 0; i < n_pages; ++i)
    sequence.pages.push_back(static_cast<int32_t>(next_page_++ * 37 % model_.limits().n_pages));
  return sequence;
}

void GoldenRunner::finish(std::span<Sequence> sequences, int piece) {
  while (step(sequences, piece)) {
  }
  for (Sequence& s : sequences) {
    s.run->positions.resize(s.golden->positions.size());
    if (s.golden->positions.back().position == static_cast<int>(s.prompt_size()) - 1) {
      s.run->positions.back() = s.run->greedy.front();
    }
  }
}

bool GoldenRunner::step(std::span<Sequence> sequences, int piece) {
  std::vector<int32_t> tokens, rows;
  std::vector<Segment> segments;
  std::vector<AdapterRows> adapters;
  std::vector<std::vector<float>*> places;  // Destination of each row of logits.
  std::vector<const Sequence*> advanced;    // The sequence of each segment.
  for (Sequence& s : sequences) {
    if (s.ended()) continue;
    const int prompt_left = static_cast<int>(s.prompt_size()) - s.position;
    const int n = prompt_left > 0 ? std::min(piece, prompt_left) : 1;
    const int first_row = static_cast<int>(tokens.size());
    // The recurrent state alternates between two slots.
    const auto slot = static_cast<int32_t>(2 * (&s - sequences.data()));
    segments.push_back(
        {first_row, n, s.position, s.pages.data(), s.position > 0 ? slot + s.odd : kNoSlot, slot + !s.odd});
    s.odd = !s.odd;
    advanced.push_back(&s);
    if (s.adapter != nullptr) adapters.push_back({first_row, n, s.adapter});
    tokens.insert(tokens.end(), s.tokens.begin() + s.position, s.tokens.begin() + s.position + n);
    for (int p = s.position; p < s.position + n; ++p) {
      if (auto* place = place_of(s, p)) {
        rows.push_back(first_row + p - s.position);
        places.push_back(place);
      }
    }
    s.position += n;
  }
  if (segments.empty()) return false;
  const size_t n_segments = segments.size();
  for (int table = 1; table < model_.memory().layout.tables(); ++table) {
    for (size_t i = 0; i < n_segments; ++i) {
      segments.push_back(segments[segments.size() - n_segments]);
      segments.back().pages += advanced[i]->table_size();
    }
  }
  const float* logits =
      model_.forward({.tokens = tokens, .segments = segments, .logit_rows = rows, .adapters = adapters});
  const auto n_vocab = static_cast<size_t>(model_.params().n_vocab);
  for (size_t i = 0; i < places.size(); ++i) {
    const float* from = logits + i * n_vocab;
    places[i]->assign(from, from + n_vocab);
  }
  return true;
}

std::vector<float>* GoldenRunner::place_of(Sequence& s, int position) {
  const int beyond = position - (static_cast<int>(s.prompt_size()) - 1);
  if (beyond >= 0) {
    s.run->greedy.resize(static_cast<size_t>(beyond) + 1);
    return &s.run->greedy.back();
  }
  s.run->positions.resize(s.golden->positions.size());
  for (size_t i = 0; i < s.golden->positions.size(); ++i) {
    if (s.golden->positions[i].position == position) return &s.run->positions[i];
  }
  return nullptr;
}

}  // namespace monolith::testing
