// Requests of every kind, and a check that their output is the same with draft tokens as without. For tests only.
#pragma once

#include <future>

#include "engine_fixture.h"
#include "text/grammar/grammar.h"

namespace monolith::testing {

using grammar::GrammarOptions;

GrammarRef compiled(Engine& engine, GrammarOptions::Kind kind, std::string text, std::string suffix = "");

// Returns biases for a few tokens, which then occur often. The generated text therefore repeats itself often, but not
// always.
std::vector<std::pair<TokenId, float>> few_words();

// Returns requests with repetitive prompts and every kind of sampling.
std::vector<GenerationRequest> requests_of(Engine& engine);

// Returns the outcomes of the requests when they run one after another and without draft tokens.
std::vector<ChoiceOutcome> outcomes_without(EngineSetup setup);

void check_all(const EngineSetup& setup, const std::vector<ChoiceOutcome>& expected, int rounds, bool preempts,
               const std::string& what);

}  // namespace monolith::testing
