// Tests what the state machine of an output reports to the step loop: whether the output is waiting for a grammar,
// whether its text may be deferred, and which markers are banned.
#include <chrono>
#include <thread>

#include "engine/output/output_walk.h"

namespace monolith::testing::walk {
namespace {

// The engine thread may do only one automaton step of grammar work, so it depends on the worker thread for masks.
TEST(output_state_waits_for_grammars_over_the_budget) {
  GenerationRequest request;
  request.format = vocabulary().schema(R"({"type":"object","properties":{"a":{"type":"string","maxLength":3},)"
                                       R"("b":{"type":"array","items":{"type":"integer"}}},"required":["a","b"]})");
  Walk walk(request, 2);
  const auto unblock = [&] {
    for (int i = 0; i < 5000 && walk.output().is_blocked(); ++i) {
      walk.grammars().begin_step();
      walk.output().try_unblock(walk.grammars(), walk.tokens());
      walk.grammars().start_prefetching();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(!walk.output().is_blocked());
    walk.grammars().begin_step();
  };
  int n_masks = 0, n_tokens = 0;
  for (const TokenId token : spell(R"({"a":"x\u00e9","b":[12,-3]})")) {
    walk.grammars().begin_step();
    if (walk.allowed_kind() == NextKind::kPending) {
      walk.output().block();
      unblock();
      ++n_masks;
    }
    CHECK(walk.allows(token) && !walk.allows("\x01"));
    walk.grammars().begin_step();
    const std::string before = walk.text();
    if (walk.accept(token).kind != StepKind::kPending) continue;
    CHECK(walk.output().is_blocked());
    CHECK_EQ(walk.text(), before);  // The token was not accepted.
    unblock();
    ++n_tokens;
    CHECK(walk.accept(token).kind != StepKind::kPending);
  }
  CHECK(n_masks > 0 && n_tokens > 0);
  CHECK(walk.state() == State::kDone);
  walk.finish();
  CHECK_EQ(walk.text(), std::string(R"(c:{"a":"x\u00e9","b":[12,-3]})"));
}

TEST(output_state_defers_only_tokens_that_change_nothing) {
  GenerationRequest request = reasoning_request();
  request.calls = call_request().calls;
  request.markers_in_place = true;
  const Tokenizer& tokenizer = *vocabulary().tokenizer;
  Walk walk(request);
  const auto may_defer = [&](TokenId token) { return walk.output().may_defer(tokenizer, walk.tokens(), token); };
  CHECK(!may_defer('a'));  // It decides between reasoning and content.
  walk.take("a");
  CHECK(may_defer('a') && !may_defer(vocabulary().end) && !may_defer(vocabulary().call) &&
        !may_defer(vocabulary().end_call));
  const Tokens before = walk.tokens();
  walk.output().accept_deferred(before, 'b', walk.sink());
  CHECK_EQ(walk.output().write(tokenizer, 'b', nullptr, walk.sink()), -1);
  CHECK_EQ(walk.text(), std::string("c:ab"));

  Walk unbanned(call_request());
  CHECK(unbanned.output().may_defer(tokenizer, unbanned.tokens(), 'a') &&
        !unbanned.output().may_defer(tokenizer, unbanned.tokens(), vocabulary().call));
  GenerationRequest budgeted = reasoning_request();
  budgeted.reasoning.budget = 9;
  Walk reasoning(budgeted);
  reasoning.take({vocabulary().think});
  CHECK(!reasoning.output().may_defer(tokenizer, reasoning.tokens(), 'a'));
  Walk spelled(header_request());
  CHECK(!spelled.output().may_defer(tokenizer, spelled.tokens(), 'a'));
}

TEST(output_state_bans_markers_by_section) {
  GenerationRequest request = reasoning_request();
  request.calls = call_request().calls;
  request.markers_in_place = true;
  request.min_tokens = 2;
  Walk walk(request);
  const auto bans = [&](TokenId token, int generated) {
    const std::vector<TokenId>* const banned = walk.output().banned(generated);
    return banned && std::ranges::find(*banned, token) != banned->end();
  };
  CHECK(!bans(vocabulary().think, 2) && bans(vocabulary().end_think, 2));
  CHECK(bans(vocabulary().end, 1) && !bans(vocabulary().end, 2));
  walk.take({vocabulary().think});
  CHECK(bans(vocabulary().think, 2) && !bans(vocabulary().end_think, 2));
  walk.take({vocabulary().end_think});
  CHECK(bans(vocabulary().think, 2) && bans(vocabulary().end_call, 2));
  CHECK(walk.output().may_change_bans(vocabulary().call) && !walk.output().may_change_bans('a'));
  CHECK(Walk(GenerationRequest{}).output().banned(0) == nullptr);
}

}  // namespace
}  // namespace monolith::testing::walk
