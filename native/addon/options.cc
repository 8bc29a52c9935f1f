#include "addon/options.h"

#include <algorithm>
#include <limits>

#include "addon/grammar_handle.h"
#include "addon/image_handle.h"
#include "backend/registry/registry.h"
#include "backend/sampling.h"
#include "engine/output/call_texts.h"
#include "engine/schedule/queue_room.h"

namespace monolith::addon {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxUint = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxMarkerLength = 256;
constexpr uint32_t kMaxStopTokenIds = 1024;
constexpr uint32_t kMaxImages = 10'000;
constexpr size_t kMaxDeviceName = 16;

// Names of the OutputKind values, in enum order.
constexpr std::string_view kOutputs[] = {"tokens", "logprobs", "vector", "nothing"};

constexpr EncodeOptions kAsWritten{.add_special = false, .parse_special = true, .guard = 0, .verbatim = true};

std::string read_marker(Arguments& arguments, const Named& object, const char* key) {
  return arguments.string(arguments.field(object, key), kMaxMarkerLength);
}

ReasoningParams read_reasoning(Arguments& arguments, const Named& options, const Tokenizer& tokenizer) {
  ReasoningParams params;
  const Named reasoning = arguments.field(options, "reasoning");
  if (arguments.is_null(reasoning)) return params;
  arguments.object(reasoning);
  const auto marker = [&](const char* key) {
    Marker marker;
    marker.text = read_marker(arguments, reasoning, key);
    if (!marker.text.empty()) marker.token = tokenizer.find(marker.text);
    return marker;
  };
  params.open = marker("open");
  params.close = marker("close");
  params.starts_inside = arguments.boolean(arguments.field(reasoning, "startsInside"));
  const Named continued = arguments.field(reasoning, "continued");
  if (!arguments.is_absent(continued)) params.continued = arguments.boolean(continued);
  params.budget = static_cast<int>(arguments.integer(arguments.field(reasoning, "budget"), -1, kMaxInt));
  const std::string close_text = arguments.string(arguments.field(reasoning, "closeText"), kMaxStopBytes);
  if (arguments.ok() && !close_text.empty()) tokenizer.encode(close_text, kAsWritten, params.close_sequence);
  return params;
}

std::vector<std::string> read_call_prefixes(Arguments& arguments, const Named& list) {
  std::vector<std::string> prefixes(arguments.array_length(list, kMaxCallPrefixes));
  for (uint32_t i = 0; i < prefixes.size() && arguments.ok(); ++i) {
    const Named entry = arguments.element(list, i);
    prefixes[i] = arguments.string(entry, kMaxCallPrefixBytes);
    if (prefixes[i].empty()) arguments.reject(entry, "is empty");
  }
  return prefixes;
}

// Returns one grammar per tool-call prefix, null for a prefix without a grammar. Returns an empty list if no prefix has
// a grammar.
std::vector<GrammarRef> read_call_grammars(Arguments& arguments, const Named& list, size_t n_prefixes,
                                           const Engine& engine) {
  const uint32_t n = arguments.array_length(list, kMaxCallPrefixes);
  if (arguments.ok() && n != n_prefixes) arguments.reject(list, "must have one entry for each of prefixes");
  std::vector<GrammarRef> grammars;
  for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
    const Named entry = arguments.element(list, i);
    grammars.push_back(arguments.is_null(entry) ? nullptr : GrammarHandle::read(arguments, entry, engine));
  }
  const bool any = std::ranges::any_of(grammars, [](const GrammarRef& grammar) { return grammar != nullptr; });
  return any ? grammars : std::vector<GrammarRef>();
}

// Reads the tool-call options into `request`. If tool calls are forbidden, bans the tokens of the tool-call markers and
// sets nothing else.
void read_calls(Arguments& arguments, const Named& options, const Engine& engine, GenerationRequest& request) {
  const Named calls = arguments.field(options, "calls");
  if (arguments.is_absent(calls)) return;
  arguments.object(calls);
  const auto optional = [&](const char* key, const auto& read) {
    if (const Named field = arguments.field(calls, key); !arguments.is_absent(field)) read(field);
  };
  CallTexts texts;
  const Named open = arguments.field(calls, "open");
  texts.open = arguments.string(open, kMaxMarkerLength);
  if (texts.open.empty()) arguments.reject(open, "is empty");
  texts.close = read_marker(arguments, calls, "close");
  texts.at_start = arguments.boolean(arguments.field(calls, "atStart"));
  texts.prefixes = read_call_prefixes(arguments, arguments.field(calls, "prefixes"));
  const size_t n = texts.prefixes.size();
  optional("grammars", [&](const Named& list) { texts.grammars = read_call_grammars(arguments, list, n, engine); });
  optional("next", [&](const Named& list) {
    texts.next = read_call_prefixes(arguments, list);
    if (!texts.next.empty() && (n == 0 || texts.next.size() % n != 0))
      arguments.reject(list, "must have as many entries as prefixes, or a multiple of that");
  });
  optional("answer", [&](const Named& field) { texts.answer = arguments.string(field, kMaxMarkerLength); });
  optional("end", [&](const Named& field) { texts.end = arguments.string(field, kMaxMarkerLength); });
  optional("endsItself", [&](const Named& field) { texts.ends_itself = arguments.boolean(field); });
  texts.required = arguments.boolean(arguments.field(calls, "required"));
  const Named forbidden_field = arguments.field(calls, "forbidden");
  const bool forbidden = arguments.boolean(forbidden_field);
  if (texts.required && forbidden) arguments.reject(forbidden_field, "cannot be combined with required");
  if (!arguments.ok()) return;
  if (forbidden) return forbid_calls(texts, engine.tokenizer(), request.sampling);
  request.calls = tokenize_calls(std::move(texts), engine.tokenizer());
}

SamplingParams read_sampling(Arguments& arguments, const Named& options, int n_vocab) {
  SamplingParams sampling;
  const auto number = [&](const char* key, double low, double high) {
    return static_cast<float>(arguments.number(arguments.field(options, key), low, high));
  };
  sampling.temperature = number("temperature", 0, kMaxTemperature);
  sampling.top_k = static_cast<int>(arguments.integer(arguments.field(options, "topK"), 0, kMaxInt));
  sampling.top_p = number("topP", 0, 1);
  sampling.min_p = number("minP", 0, 1);
  sampling.repetition_penalty = number("repetitionPenalty", kMinRepetitionPenalty, kMaxRepetitionPenalty);
  sampling.frequency_penalty = number("frequencyPenalty", -kMaxPenalty, kMaxPenalty);
  sampling.presence_penalty = number("presencePenalty", -kMaxPenalty, kMaxPenalty);
  sampling.seed = arguments.bits64(arguments.field(options, "seed"));
  const Named biases = arguments.field(options, "logitBias");
  const uint32_t n_biases = arguments.array_length(biases, kMaxLogitBias);
  for (uint32_t i = 0; i < n_biases && arguments.ok(); ++i) {
    const Named entry = arguments.element(biases, i);
    arguments.object(entry);
    const int64_t token = arguments.integer(arguments.field(entry, "token"), 0, n_vocab - 1);
    const double bias = arguments.number(arguments.field(entry, "bias"), -kMaxBias, kMaxBias);
    sampling.logit_bias.emplace_back(static_cast<TokenId>(token), static_cast<float>(bias));
  }
  sampling.top_logprobs =
      static_cast<int>(arguments.integer(arguments.field(options, "topLogprobs"), -1, kMaxTopLogprobs));
  if (const Named prompt = arguments.field(options, "promptLogprobs"); !arguments.is_absent(prompt))
    sampling.prompt_logprobs = static_cast<int>(arguments.integer(prompt, -1, kMaxTopLogprobs));
  return sampling;
}

// Reads the images and their positions in the prompt.
std::vector<PlacedImage> read_images(Arguments& arguments, const Named& options, const VisionModel* vision) {
  std::vector<PlacedImage> images;
  const Named list = arguments.field(options, "images");
  if (arguments.is_absent(list)) return images;
  const uint32_t n = arguments.array_length(list, kMaxImages);
  for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
    const Named entry = arguments.element(list, i);
    arguments.object(entry);
    const int64_t least = images.empty() ? 0 : static_cast<int64_t>(images.back().at);
    const auto at = static_cast<size_t>(arguments.integer(arguments.field(entry, "at"), least, kMaxTokens));
    images.push_back({at, ImageHandle::read(arguments, arguments.field(entry, "image"), vision)});
  }
  return images;
}

void read_stops(Arguments& arguments, const Named& options, int n_vocab, GenerationRequest& request) {
  const Named stop = arguments.field(options, "stop");
  const uint32_t n_stop = arguments.array_length(stop, kMaxStopStrings);
  for (uint32_t i = 0; i < n_stop && arguments.ok(); ++i) {
    const Named entry = arguments.element(stop, i);
    request.stop.push_back(arguments.string(entry, kMaxStopBytes));
    if (request.stop.back().empty()) arguments.reject(entry, "is empty");
  }
  const Named tokens = arguments.field(options, "stopTokens");
  const uint32_t n_tokens = arguments.array_length(tokens, kMaxStopTokenIds);
  for (uint32_t i = 0; i < n_tokens && arguments.ok(); ++i) {
    request.stop_tokens.push_back(
        static_cast<TokenId>(arguments.integer(arguments.element(tokens, i), 0, n_vocab - 1)));
  }
}

}  // namespace

LoadOptions read_load_options(Arguments& arguments, const Named& options) {
  using Type = LoadOption::Type;
  const auto read = [&](const LoadOption& option, const Named& field) -> OptionValue {
    switch (option.type) {
      case Type::kInteger: return arguments.integer(field, option.low, option.high);
      case Type::kBoolean: return arguments.boolean(field);
      case Type::kChoice: return static_cast<int64_t>(arguments.one_of(field, option.choices));
      case Type::kPath: return arguments.path(field);
      case Type::kDevice: break;
    }
    std::string device = arguments.string(field, kMaxDeviceName);
    if (arguments.ok() && !is_device(device)) arguments.reject(field, "must be " + device_names());
    return device;
  };
  LoadOptions load;
  arguments.object(options);
  for (const LoadOption& option : load_options()) {
    const Named field = arguments.field(options, option.name);
    if (option.required || !arguments.is_absent(field)) option.set(load, read(option, field));
  }
  return load;
}

EngineTunables read_tunables(Arguments& arguments, const Named& object) {
  EngineTunables tunables;
  arguments.object(object);
  const auto read = [&](const char* key, int64_t low, int64_t high, std::optional<int>& value) {
    const Named field = arguments.field(object, key);
    if (!arguments.is_absent(field)) value = static_cast<int>(arguments.integer(field, low, high));
  };
  read("maxBatchTokens", 1, kMaxBatchTokens, tunables.max_batch_tokens);
  read("maxSequences", 1, kMaxSequences, tunables.max_sequences);
  read("stepMs", 0, kMaxStepMs, tunables.step_ms);
  read("queueMax", 1, kQueueRequestsMost, tunables.queue_max);
  read("queueMaxTokens", 1, kQueueTokensMost, tunables.queue_max_tokens);
  return tunables;
}

AdapterOptions read_adapter_options(Arguments& arguments, const Named& object) {
  AdapterOptions options;
  arguments.object(object);
  const Named name = arguments.field(object, "name");
  options.name = arguments.string(name, kMaxAdapterNameBytes);
  if (arguments.ok() && options.name.empty()) arguments.reject(name, "is empty");
  if (const Named scale = arguments.field(object, "scale"); !arguments.is_absent(scale))
    options.scale = static_cast<float>(arguments.number(scale, -kMaxAdapterScale, kMaxAdapterScale));
  return options;
}

GenerationRequest read_positions(Arguments& arguments, const Named& options, const VisionModel* vision) {
  GenerationRequest request;
  arguments.object(options);
  const std::vector<PlacedImage> images = read_images(arguments, options, vision);
  const Named prompt = arguments.field(options, "prompt");
  const std::span<const int32_t> tokens = arguments.int32_array(prompt, kMaxTokens);
  if (arguments.ok() && !images.empty() && images.back().at > tokens.size())
    arguments.reject(arguments.field(options, "images"), "are placed after the end of the prompt");
  if (arguments.ok()) place_images(tokens, images, request);
  return request;
}

GenerationRequest read_submit_options(Arguments& arguments, const Named& options, const Engine& engine,
                                      const VisionModel* vision) {
  GenerationRequest request;
  const Tokenizer& tokenizer = engine.tokenizer();
  const int n_vocab = tokenizer.n_vocab();
  const auto integer = [&](const char* key, int64_t low, int64_t high) {
    return arguments.integer(arguments.field(options, key), low, high);
  };
  arguments.object(options);
  request.organization = static_cast<uint64_t>(integer("organization", 0, kMaxUint));
  if (const Named background = arguments.field(options, "background"); !arguments.is_absent(background))
    request.background = arguments.boolean(background);
  if (const Named adapter = arguments.field(options, "adapter"); !arguments.is_absent(adapter))
    request.adapter = static_cast<AdapterId>(arguments.integer(adapter, 1, kMaxUint));
  request.n = static_cast<int>(integer("n", 1, kMaxChoices));
  if (const Named output = arguments.field(options, "output"); !arguments.is_absent(output))
    request.output = static_cast<OutputKind>(arguments.one_of(output, kOutputs));
  const bool wants_tokens = request.output == OutputKind::kTokens;
  request.max_tokens = static_cast<int>(integer("maxTokens", wants_tokens ? 1 : 0, wants_tokens ? kMaxInt : 0));
  request.sampling = read_sampling(arguments, options, n_vocab);
  read_stops(arguments, options, n_vocab, request);
  request.ignore_eos = arguments.boolean(arguments.field(options, "ignoreEos"));
  if (const Named least = arguments.field(options, "minTokens"); !arguments.is_absent(least))
    request.min_tokens = static_cast<int>(arguments.integer(least, 0, request.max_tokens));
  if (const Named text = arguments.field(options, "prediction"); !arguments.is_absent(text)) {
    const std::span<const int32_t> predicted = arguments.int32_array(text, kMaxTokens);
    if (arguments.ok()) check_tokens(arguments, text, predicted, n_vocab);
    if (arguments.ok()) request.prediction.assign(predicted.begin(), predicted.end());
  }
  if (const Named ids = arguments.field(options, "returnTokens"); !arguments.is_absent(ids))
    request.return_tokens = arguments.boolean(ids);
  request.use_prefix_cache = arguments.boolean(arguments.field(options, "prefixCache"));
  request.queue_wait_ms = static_cast<uint32_t>(integer("queueWaitMs", 0, kMaxUint));
  request.generation_ms = static_cast<uint32_t>(integer("generationMs", 1, kMaxUint));
  request.reasoning = read_reasoning(arguments, options, tokenizer);
  const Named format = arguments.field(options, "format");
  if (!arguments.is_absent(format)) request.format = GrammarHandle::read(arguments, format, engine);
  if (const Named head = arguments.field(options, "formatHead"); !arguments.is_absent(head)) {
    const std::string text = arguments.string(head, kMaxMarkerLength);
    if (arguments.ok()) tokenizer.encode(text, kAsWritten, request.format_head);
  }
  read_calls(arguments, options, engine, request);
  if (const Named repeats = arguments.field(options, "maxRepeats"); !arguments.is_absent(repeats))
    request.max_repeats = static_cast<int>(arguments.integer(repeats, 0, kMaxRepeats));
  if (const Named in_place = arguments.field(options, "markersInPlace"); !arguments.is_absent(in_place))
    request.markers_in_place = arguments.boolean(in_place);

  if (const Named label = arguments.field(options, "retain"); !arguments.is_absent(label))
    request.retain = arguments.string(label, kMaxRetainBytes);

  const std::vector<PlacedImage> images = read_images(arguments, options, vision);

  // The array is read last, because the getters of the other options may run JavaScript that invalidates its view.
  const Named prompt = arguments.field(options, "prompt");
  const std::span<const int32_t> tokens = arguments.int32_array(prompt, kMaxTokens);
  if (arguments.ok() && tokens.empty() && images.empty())
    arguments.reject(prompt, "is empty: a prompt needs at least one token");
  if (!arguments.ok()) return request;
  check_tokens(arguments, prompt, tokens, n_vocab);
  if (!images.empty() && images.back().at > tokens.size())
    arguments.reject(arguments.field(options, "images"), "are placed after the end of the prompt");
  if (!arguments.ok()) return request;
  place_images(tokens, images, request);
  return request;
}

void check_tokens(Arguments& arguments, const Named& named, std::span<const TokenId> tokens, int n_vocab) {
  const auto bad = std::ranges::find_if(tokens, [&](TokenId id) { return id < 0 || id >= n_vocab; });
  if (bad == tokens.end()) return;
  const Named element{nullptr, &named, nullptr, static_cast<uint32_t>(bad - tokens.begin())};
  arguments.reject(element,
                   "must be a token from 0 to " + std::to_string(n_vocab - 1) + ", not " + std::to_string(*bad));
}

TokenizeOptions read_tokenize_options(Arguments& arguments) {
  TokenizeOptions tokenize;
  tokenize.text = arguments.string(arguments.argument(0, "text"), kMaxTextBytes);
  const Named options = arguments.argument(1, "options");
  arguments.object(options);
  tokenize.encode.add_special = arguments.boolean(arguments.field(options, "addSpecial"));
  tokenize.encode.parse_special = arguments.boolean(arguments.field(options, "parseSpecial"));
  tokenize.encode.guard = static_cast<char32_t>(arguments.integer(arguments.field(options, "guard"), 0, 0x10ffff));
  return tokenize;
}

}  // namespace monolith::addon
