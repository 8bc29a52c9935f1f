// Runs the state machine of an output step by step, without a model. For tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/output/grammar_cache.h"
#include "engine/output/output_state.h"
#include "engine/output/section_bans.h"
#include "text/tokenizer/support.h"

namespace monolith::testing::walk {

using State = OutputState::State;
using NextKind = OutputState::Next::Kind;
using StepKind = OutputState::Step::Kind;
using Tokens = std::vector<TokenId>;

// Each byte is a token whose ID is the byte's value; the markers are control tokens.
struct Vocabulary {
  TokenId think, end_think, call, end_call, end;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<GrammarCache> grammars;

  Vocabulary() {
    auto file = VocabularyFile::byte_level();
    think = file.add("<think>", TokenKind::kControl);
    end_think = file.add("</think>", TokenKind::kControl);
    call = file.add("<call>", TokenKind::kControl);
    end_call = file.add("</call>", TokenKind::kControl);
    end = file.add("<|im_end|>", TokenKind::kControl);
    auto loaded = load(file);
    REQUIRE(loaded);
    tokenizer = std::move(*loaded);
    CHECK(tokenizer->is_end_of_generation(end));
    grammars = std::make_unique<GrammarCache>(*tokenizer, tokenizer->n_vocab());
  }
  GrammarRef choice(std::vector<std::string> choices) const {
    grammar::GrammarOptions options;
    options.kind = grammar::GrammarOptions::Kind::kChoice;
    options.choices = std::move(choices);
    return grammars->compile(options).grammar;
  }
  GrammarRef schema(std::string text) const {
    grammar::GrammarOptions options;
    options.kind = grammar::GrammarOptions::Kind::kJsonSchema;
    options.text = std::move(text);
    return grammars->compile(options).grammar;
  }
};

inline const Vocabulary& vocabulary() {
  static const Vocabulary made;
  return made;
}

inline Tokens spell(std::string_view text) {
  Tokens tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

inline Tokens operator+(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// Collects the text as "r:reasoning c:content t:call".
class Text final : public DeltaSink {
 public:
  void piece(Section section, std::string_view text, int, std::span<const TokenLogprobs>) override {
    const char* const name = section == Section::kReasoning ? "r:" : section == Section::kContent ? "c:" : "t:";
    if (section != last_ || all.empty()) all += (all.empty() ? "" : " ") + std::string(name);
    last_ = section;
    all += text;
  }
  void token(TokenId token) override { tokens.push_back(token); }

  std::string all;
  Tokens tokens;

 private:
  Section last_ = Section::kContent;
};

// The state machine of one output of a request, which the test advances token by token.
class Walk {
 public:
  explicit Walk(GenerationRequest request, uint64_t grammar_steps = 1'000'000)
      : request_(prepared(std::move(request))),
        format_(request_),
        output_(format_),
        grammars_(*vocabulary().tokenizer, vocabulary().tokenizer->n_vocab(), grammar_steps),
        mask_(static_cast<size_t>(vocabulary().tokenizer->n_vocab())),
        tokens_(request_.prompt) {
    tokens_.reserve(1000);
    grammars_.begin_step();
  }

  OutputState& output() { return output_; }
  GrammarRunner& grammars() { return grammars_; }
  const Tokens& tokens() const { return tokens_; }
  State state() const { return output_.state(); }
  const std::string& text() const { return text_.all; }
  const Tokens& reported() const { return text_.tokens; }

  // Tokens that next() forces.
  Tokens forced() {
    const OutputState::Next next = output_.next(grammars_, tokens_, text_);
    CHECK(next.kind == NextKind::kForced || next.kind == NextKind::kOpen);
    return {next.tokens.begin(), next.tokens.end()};
  }
  NextKind next_kind() { return output_.next(grammars_, tokens_, text_).kind; }
  NextKind allowed_kind() { return output_.allowed(grammars_, tokens_, mask_).kind; }
  bool allows(TokenId token) {
    const OutputState::Next next = output_.allowed(grammars_, tokens_, mask_);
    if (next.kind == NextKind::kOpen) return true;
    CHECK(next.kind == NextKind::kAllowed);
    if (next.tokens.empty()) return mask_.has(static_cast<uint32_t>(token));
    return std::ranges::find(next.tokens, token) != next.tokens.end();
  }
  bool allows(std::string_view text) { return allows(spell(text).front()); }
  // Returns whether the state machine would replace this sampled token.
  bool replaces(TokenId token) { return output_.replaces(*vocabulary().tokenizer, token, text_); }
  OutputState::Step accept(TokenId token) {
    const OutputState::Step step = output_.accept(grammars_, tokens_, token, nullptr, text_);
    if (step.kind != StepKind::kPending) tokens_.push_back(token);
    return step;
  }
  // Accepts sampled tokens. The output must not end after any of them.
  Walk& take(const Tokens& tokens) {
    for (const TokenId token : tokens) {
      CHECK(forced().empty());
      CHECK(allows(token));
      CHECK(!replaces(token));
      CHECK(accept(token).kind == StepKind::kContinues);
    }
    return *this;
  }
  Walk& take(std::string_view text) { return take(spell(text)); }
  // Expects exactly these forced tokens and accepts them; the output must continue after them.
  Walk& force(const Tokens& tokens) {
    Tokens found;
    while (found.size() < tokens.size()) {
      const Tokens next = forced();
      if (next.empty()) break;
      for (const TokenId token : next) CHECK(accept(token).kind == StepKind::kContinues);
      found = found + next;
    }
    CHECK(found == tokens);
    return *this;
  }
  Walk& force(std::string_view text) { return force(spell(text)); }
  // Expects and accepts these forced tokens; the last one must end the output.
  FinishReason force_to_end(std::string_view text) {
    const Tokens next = forced();
    CHECK(next == spell(text));
    OutputState::Step step;
    for (const TokenId token : next) step = accept(token);
    CHECK(step.kind == StepKind::kEnds);
    finish();
    return step.reason;
  }
  void finish() {
    output_.finish(text_);
    CHECK(state() == State::kDone);
  }
  // The token ends the turn.
  bool ends(TokenId token) {
    const OutputState::Step step = accept(token);
    if (step.kind != StepKind::kEnds || step.reason != FinishReason::kEndOfTurn) return false;
    finish();
    return true;
  }
  Text& sink() { return text_; }

 private:
  static GenerationRequest prepared(GenerationRequest request) {
    request.prompt = {1, 2};
    request.max_tokens = 500;
    request.bans = make_bans(request, *vocabulary().tokenizer);
    return request;
  }

  GenerationRequest request_;
  OutputFormat format_;
  OutputState output_;
  GrammarRunner grammars_;
  grammar::TokenMask mask_;
  Tokens tokens_;
  Text text_;
};

inline GenerationRequest reasoning_request() {
  GenerationRequest request;
  request.reasoning.open = {"<think>", vocabulary().think};
  request.reasoning.close = {"</think>", vocabulary().end_think};
  request.reasoning.close_sequence = spell("!") + Tokens{vocabulary().end_think} + spell("\n");
  return request;
}

// Two kinds of tool calls: "<call>f(...)</call>" and "<call>g(...)</call>".
inline GenerationRequest call_request() {
  GenerationRequest request;
  request.calls.open = {"<call>", vocabulary().call};
  request.calls.close = {"</call>", vocabulary().end_call};
  request.calls.prefixes = {spell("f("), spell("g(")};
  return request;
}

// The same calls with grammars: the arguments of f are "ab", the arguments of g are "x" or "y".
inline GenerationRequest grammar_request() {
  GenerationRequest request = call_request();
  request.calls.grammars = {vocabulary().choice({"ab"}), vocabulary().choice({"x", "y"})};
  return request;
}

// Headers are text, as in some model formats: calls start with "@f:" or "@g:", content with "@all:".
inline GenerationRequest header_request() {
  GenerationRequest request;
  request.calls.open = {"@", kNoToken};
  request.calls.prefixes = {spell("f:"), spell("g:")};
  request.calls.starts = {spell("@f:"), spell("@g:")};
  request.calls.answer = spell("all:");
  request.calls.answer_start = spell("@all:");
  return request;
}

}  // namespace monolith::testing::walk
