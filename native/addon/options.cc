#include "addon/options.h"

#include <algorithm>
#include <limits>

#include "addon/grammar_handle.h"
#include "addon/image_handle.h"
#include "addon/make_backend.h"
#include "backend/sampling.h"
#include "engine/speculation/speculation.h"

namespace monolith::addon {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxUint = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxSafeInteger = (int64_t{1} << 53) - 1;
constexpr size_t kMaxMarkerBytes = 256;
constexpr uint32_t kMaxStopTokens = 1024;
constexpr uint32_t kMaxImages = 10'000;
constexpr int64_t kMaxSourcePixels = 1'000'000'000, kMaxTiles = 1000;

constexpr size_t kMaxDeviceName = 16;
constexpr std::string_view kIsas[] = {"auto", "plain", "avx2", "avx512", "neon", "neon_i8mm"};
constexpr std::string_view kArithmetics[] = {"production", "exact"};    // In the order of the Arithmetic enum.
constexpr std::string_view kKvTypes[] = {"f16", "f32", "q8_0", "fp8"};  // In the order of the KvType enum.
constexpr std::string_view kVisionPrecisions[] = {"fast", "exact"};     // In the order of the VisionPrecision enum.
// In the order of the VisionResize enum. If the option is missing, the file decides.
constexpr std::string_view kVisionResizes[] = {"llama.cpp", "original"};
constexpr std::string_view kQuantizeNames[] = {"q8_0", "q6_k", "q4_k", "q4_0", "fp8"};
constexpr TensorType kQuantizeTypes[] = {TensorType::kQ8_0, TensorType::kQ6_K, TensorType::kQ4_K, TensorType::kQ4_0,
                                         TensorType::kF8E4M3};

constexpr std::string_view kSpeculations[] = {"off", "auto", "always"};  // In the order of the Speculation enum.

// Names of the OutputKind values, in enum order.
constexpr std::string_view kOutputs[] = {"tokens", "logprobs", "vector", "nothing"};

constexpr EncodeOptions kAsWritten{.add_special = false, .parse_special = true, .guard = 0, .verbatim = true};
constexpr EncodeOptions kBehind{
    .add_special = false, .parse_special = true, .guard = 0, .continues = true, .verbatim = true};

std::string read_marker(Arguments& arguments, const Named& object, const char* key) {
  return arguments.string(arguments.field(object, key), kMaxMarkerBytes);
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

// Looks up the token of a tool-call marker. Only control and user-defined tokens count, because the characters of an
// ordinary token can also result from other tokens.
Marker call_marker(std::string text, const Tokenizer& tokenizer) {
  Marker marker{std::move(text), kNoToken};
  const TokenId token = marker.text.empty() ? kNoToken : tokenizer.find(marker.text);
  if (token != kNoToken) {
    const TokenKind kind = tokenizer.kind(token);
    if (kind == TokenKind::kControl || kind == TokenKind::kUserDefined) marker.token = token;
  }
  return marker;
}

// Reads the tool-call options into `request`. If calls are forbidden, bans the markers and sets nothing else.
void read_calls(Arguments& arguments, const Named& options, const Engine& engine, GenerationRequest& request) {
  const Tokenizer& tokenizer = engine.tokenizer();
  const Named calls = arguments.field(options, "calls");
  if (arguments.is_absent(calls)) return;
  arguments.object(calls);
  CallParams params;
  const Named open = arguments.field(calls, "open");
  params.open = call_marker(arguments.string(open, kMaxMarkerBytes), tokenizer);
  if (params.open.text.empty()) arguments.reject(open, "is empty");
  params.close = call_marker(read_marker(arguments, calls, "close"), tokenizer);
  params.at_start = arguments.boolean(arguments.field(calls, "atStart"));
  const Named list = arguments.field(calls, "prefixes");
  std::vector<std::string> prefixes(arguments.array_length(list, kMaxCallPrefixes));
  for (uint32_t i = 0; i < prefixes.size() && arguments.ok(); ++i) {
    const Named entry = arguments.element(list, i);
    prefixes[i] = arguments.string(entry, kMaxCallPrefixBytes);
    if (prefixes[i].empty()) arguments.reject(entry, "is empty");
  }
  const Named grammars = arguments.field(calls, "grammars");
  if (!arguments.is_absent(grammars)) {
    const uint32_t n = arguments.array_length(grammars, kMaxCallPrefixes);
    if (arguments.ok() && n != prefixes.size()) arguments.reject(grammars, "must have one entry for each of prefixes");
    for (uint32_t i = 0; i < n && arguments.ok(); ++i) {
      const Named entry = arguments.element(grammars, i);
      params.grammars.push_back(arguments.is_null(entry) ? nullptr : GrammarHandle::read(arguments, entry, engine));
    }
    if (std::ranges::all_of(params.grammars, [](const GrammarRef& grammar) { return grammar == nullptr; }))
      params.grammars.clear();
  }
  const Named next_field = arguments.field(calls, "next");
  std::vector<std::string> next;
  if (!arguments.is_absent(next_field)) {
    next.resize(arguments.array_length(next_field, kMaxCallPrefixes));
    for (uint32_t i = 0; i < next.size() && arguments.ok(); ++i) {
      const Named entry = arguments.element(next_field, i);
      next[i] = arguments.string(entry, kMaxCallPrefixBytes);
      if (next[i].empty()) arguments.reject(entry, "is empty");
    }
  }
  const Named answer_field = arguments.field(calls, "answer");
  const std::string answer = arguments.is_absent(answer_field) ? "" : arguments.string(answer_field, kMaxMarkerBytes);
  const Named end_field = arguments.field(calls, "end");
  const Named ends_itself = arguments.field(calls, "endsItself");
  if (!arguments.is_absent(ends_itself)) params.ends_itself = arguments.boolean(ends_itself);
  const std::string end = arguments.is_absent(end_field) ? "" : arguments.string(end_field, kMaxMarkerBytes);
  if (!next.empty() && (prefixes.empty() || next.size() % prefixes.size() != 0))
    arguments.reject(next_field, "must have as many entries as prefixes, or a multiple of that");
  const bool required = arguments.boolean(arguments.field(calls, "required"));
  const Named forbidden_field = arguments.field(calls, "forbidden");
  const bool forbidden = arguments.boolean(forbidden_field);
  if (required && forbidden) arguments.reject(forbidden_field, "cannot be combined with required");
  if (!arguments.ok()) return;

  if (forbidden) {
    // The closing marker is banned too: a model that cannot open a call may still write the rest of one.
    for (const Marker& marker : {params.open, params.close})
      if (marker.token != kNoToken) request.sampling.banned.push_back(marker.token);
    return;
  }
  // If the opening marker is a single token, no token extends across its end, so the prefix is tokenized separately. If
  // the marker is ordinary text, a token may extend across its end, so the marker and the prefix are tokenized
  // together.
  const bool is_token = params.open.token != kNoToken;
  for (const std::string& prefix : prefixes) {
    std::vector<TokenId> ids;
    if (is_token) ids.push_back(params.open.token);
    tokenizer.encode(is_token ? prefix : params.open.text + prefix, kAsWritten, ids);
    if (is_token) params.prefixes.emplace_back(ids.begin() + 1, ids.end());
    // If a marker written as ordinary text ends on a token boundary, the text after it is tokenized separately.
    else
      tokenizer.encode(prefix, kBehind, params.prefixes.emplace_back());
    if (!is_token) params.starts.push_back(ids);
    if (required) params.required.push_back(std::move(ids));
  }
  if (!answer.empty()) {
    tokenizer.encode(answer, kBehind, params.answer);
    if (is_token) params.answer_start.push_back(params.open.token);
    tokenizer.encode(is_token ? answer : params.open.text + answer, kAsWritten, params.answer_start);
  }
  if (required && prefixes.empty()) {
    std::vector<TokenId> ids;
    tokenizer.encode(params.open.text, kAsWritten, ids);
    params.required.push_back(std::move(ids));
  }
  if (!params.grammars.empty() && !end.empty()) {
    for (const std::string& text : next) tokenizer.encode(text, kBehind, params.next.emplace_back());
    tokenizer.encode(end, kBehind, params.end);
  }
  if (prefixes.empty() && !is_token) tokenizer.encode(params.open.text, kAsWritten, params.starts.emplace_back());
  request.calls = std::move(params);
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

// Reads the positions of images in the prompt.
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
  const uint32_t n_tokens = arguments.array_length(tokens, kMaxStopTokens);
  for (uint32_t i = 0; i < n_tokens && arguments.ok(); ++i) {
    request.stop_tokens.push_back(
        static_cast<TokenId>(arguments.integer(arguments.element(tokens, i), 0, n_vocab - 1)));
  }
}

}  // namespace

ModelLimits LoadOptions::limits() const {
  ModelLimits limits;
  limits.max_batch_tokens = engine.max_batch_tokens;
  // A step samples at most once per running sequence.
  limits.max_logit_rows = std::min(engine.max_sequences, engine.max_batch_tokens);
  limits.draft_rows = engine.speculation == Speculation::kOff ? 0 : SequenceDrafts::kMax;
  limits.kv_type = kv_type;
  limits.mtp_layer = engine.speculation != Speculation::kOff && engine.mtp != Speculation::kOff && draft_path.empty();
  return limits;
}

LoadOptions read_load_options(Arguments& arguments, const Named& options) {
  LoadOptions load;
  arguments.object(options);
  const auto integer = [&](const char* key, int64_t low, int64_t high) {
    return arguments.integer(arguments.field(options, key), low, high);
  };
  load.threads = static_cast<int>(integer("threads", 0, 1024));
  load.isa = kIsas[arguments.one_of(arguments.field(options, "isa"), kIsas)];
  const Named device = arguments.field(options, "device");
  load.device = arguments.string(device, kMaxDeviceName);
  if (arguments.ok() && !is_device(load.device)) arguments.reject(device, "must be auto, cpu, cuda or cuda:N");
  load.arithmetic = static_cast<Arithmetic>(arguments.one_of(arguments.field(options, "arithmetic"), kArithmetics));
  if (const Named invariant = arguments.field(options, "batchInvariant"); !arguments.is_absent(invariant))
    load.batch_invariant = arguments.boolean(invariant);
  if (const Named library = arguments.field(options, "cublaslt"); !arguments.is_absent(library))
    load.cublaslt = arguments.path(library);
  load.kv_type = static_cast<KvType>(arguments.one_of(arguments.field(options, "kvType"), kKvTypes));
  if (const Named quantize = arguments.field(options, "quantize"); !arguments.is_absent(quantize))
    load.quantize = kQuantizeTypes[arguments.one_of(quantize, kQuantizeNames)];
  if (const Named draft = arguments.field(options, "draftPath"); !arguments.is_absent(draft))
    load.draft_path = arguments.path(draft);
  if (const Named quantize = arguments.field(options, "draftQuantize"); !arguments.is_absent(quantize))
    load.draft_quantize = kQuantizeTypes[arguments.one_of(quantize, kQuantizeNames)];
  if (const Named vision = arguments.field(options, "visionPath"); !arguments.is_absent(vision))
    load.vision_path = arguments.path(vision);
  if (const Named optional = arguments.field(options, "visionOptional"); !arguments.is_absent(optional))
    load.vision_optional = arguments.boolean(optional);
  if (const Named pixels = arguments.field(options, "visionMaxPixels"); !arguments.is_absent(pixels))
    load.vision_max_pixels = arguments.integer(pixels, 1, kMaxSourcePixels);
  if (const Named tiles = arguments.field(options, "visionMaxTiles"); !arguments.is_absent(tiles))
    load.vision_max_tiles = static_cast<int>(arguments.integer(tiles, 0, kMaxTiles));
  if (const Named precision = arguments.field(options, "visionPrecision"); !arguments.is_absent(precision))
    load.vision_precision = static_cast<VisionPrecision>(arguments.one_of(precision, kVisionPrecisions));
  if (const Named resize = arguments.field(options, "visionResize"); !arguments.is_absent(resize))
    load.vision_resize = static_cast<VisionResize>(arguments.one_of(resize, kVisionResizes));
  if (const Named bytes = arguments.field(options, "embeddingBytes"); !arguments.is_absent(bytes))
    load.engine.embedding_bytes_max = static_cast<size_t>(arguments.integer(bytes, 0, kMaxSafeInteger));
  load.max_context = static_cast<int>(integer("maxContext", 0, kMaxInt));
  load.kv_bytes = static_cast<uint64_t>(integer("kvBytes", 0, kMaxSafeInteger));
  load.engine.max_batch_tokens = static_cast<int>(integer("maxBatchTokens", 0, kMaxBatchTokens));
  load.engine.max_sequences = static_cast<int>(integer("maxSequences", 1, kMaxSequences));
  load.engine.step_ms = static_cast<int>(integer("stepMs", 0, kMaxStepMs));
  load.engine.queue_max = static_cast<int>(integer("queueMax", 0, kQueueRequestsMost));
  load.engine.queue_max_tokens = static_cast<int>(integer("queueMaxTokens", 1, kQueueTokensMost));
  load.engine.prefix_cache = arguments.boolean(arguments.field(options, "prefixCache"));
  if (const Named snapshot = arguments.field(options, "snapshotTokens"); !arguments.is_absent(snapshot))
    load.engine.snapshot_tokens = static_cast<int>(arguments.integer(snapshot, 1, kMaxSnapshotTokens));
  const Named profile = arguments.field(options, "profile");
  if (!arguments.is_absent(profile)) load.profile = arguments.boolean(profile);
  load.engine.speculation =
      static_cast<Speculation>(arguments.one_of(arguments.field(options, "speculation"), kSpeculations));
  if (const Named own = arguments.field(options, "mtp"); !arguments.is_absent(own))
    load.engine.mtp = static_cast<Speculation>(arguments.one_of(own, kSpeculations));
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
  if (const Named ids = arguments.field(options, "returnTokens"); !arguments.is_absent(ids))
    request.return_tokens = arguments.boolean(ids);
  request.use_prefix_cache = arguments.boolean(arguments.field(options, "prefixCache"));
  request.queue_wait_ms = static_cast<uint32_t>(integer("queueWaitMs", 0, kMaxUint));
  request.generation_ms = static_cast<uint32_t>(integer("generationMs", 1, kMaxUint));
  request.reasoning = read_reasoning(arguments, options, tokenizer);
  const Named format = arguments.field(options, "format");
  if (!arguments.is_absent(format)) request.format = GrammarHandle::read(arguments, format, engine);
  if (const Named head = arguments.field(options, "formatHead"); !arguments.is_absent(head)) {
    const std::string text = arguments.string(head, kMaxMarkerBytes);
    if (arguments.ok()) tokenizer.encode(text, kAsWritten, request.format_head);
  }
  read_calls(arguments, options, engine, request);
  if (const Named repeats = arguments.field(options, "maxRepeats"); !arguments.is_absent(repeats))
    request.max_repeats = static_cast<int>(arguments.integer(repeats, 0, kMaxRepeats));
  if (const Named in_place = arguments.field(options, "markersInPlace"); !arguments.is_absent(in_place))
    request.markers_in_place = arguments.boolean(in_place);

  const std::vector<PlacedImage> images = read_images(arguments, options, vision);

  // Read last, because getters may run JavaScript that invalidates the view.
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
