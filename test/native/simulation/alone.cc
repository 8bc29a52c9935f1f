#include "simulation/alone.h"

namespace monolith::simulation {
namespace {

constexpr TokenId kEnds[] = {kEnd};

Sampler& sampler() {
  static Sampler sampler(kVocabulary);
  return sampler;
}

}  // namespace

SamplingParams sampling_of(const Ask& ask) {
  SamplingParams sampling;
  sampling.temperature = ask.temperature;
  sampling.seed = ask.seed;
  sampling.top_logprobs = ask.logprobs ? 0 : -1;
  sampling.prompt_logprobs = ask.prompt_logprobs;
  return sampling;
}

Alone::Alone(const Setup& setup, const Ask& ask)
    : shape_(setup.shape),
      sampling_(sampling_of(ask)),
      min_tokens_(ask.ignore_end ? 0 : ask.min_tokens),
      n_prompt_(ask.n_shared + ask.n_own),
      kept_(static_cast<size_t>(setup.shape.layout.tables())) {
  const std::vector<TokenId> prompt = prompt_of(ask);
  auto span = ask.spans.begin();
  while (length_ < n_prompt_) {
    if (span == ask.spans.end() || span->first != length_) {
      read(prompt[static_cast<size_t>(length_)]);
      continue;
    }
    std::vector<uint64_t> inputs;
    for (const float number : rows_of(*span)) inputs.push_back(embedded_input(number));
    if (span->bidirectional) {
      for (auto& table : kept_) table.resize(table.size() + inputs.size());
      pass_span(shape_, seen_, inputs, length_,
                [this](int t, int p) -> uint64_t& { return kept_[static_cast<size_t>(t)][static_cast<size_t>(p)]; });
      length_ += span->n_rows;
    } else {
      for (const uint64_t input : inputs) pass(input);
    }
    ++span;
  }
}

void Alone::pass(uint64_t input) {
  for (auto& table : kept_) table.push_back(0);
  row_ = pass_row(shape_, seen_, input, length_,
                  [this](int t, int p) -> uint64_t& { return kept_[static_cast<size_t>(t)][static_cast<size_t>(p)]; });
  ++length_;
}

void Alone::read(TokenId token) {
  if (sampling_.prompt_logprobs >= 0 && length_ > 0 && length_ < n_prompt_) {
    std::array<float, kVocabulary> logits;
    write_logits(row_, last_, logits.data());
    SampleTask task;
    task.logits = logits.data();
    task.temperature = 0;
    task.n_top = 0;
    task.given = token;
    scores_.push_back({token, sample(task).logprob});
  }
  pass(token_input(token));
  last_ = token;
}

SampleResult Alone::sample(const SampleTask& task) {
  SampleResult result;
  sampler().sample(task, result);
  return result;
}

const SampleResult& Alone::next(int choice) {
  std::array<float, kVocabulary> logits;
  write_logits(row_, last_, logits.data());
  const int generated = length_ - n_prompt_;
  SampleTask task = sample_task(logits.data(), sampling_, {}, sampling_.stream + static_cast<uint32_t>(choice),
                                static_cast<uint64_t>(generated), {});
  if (generated < min_tokens_) task.banned = kEnds;
  next_ = sample(task);
  return next_;
}

}  // namespace monolith::simulation
