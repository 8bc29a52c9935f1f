// Walks the state machine of an output without a model: each edge of the diagram in output_state.h, and the tokens that
// are forced or allowed in each state.
#include "engine/output/output_walk.h"

namespace monolith::testing::walk {
namespace {

TEST(output_state_free_text_is_content_until_the_turn_ends) {
  GenerationRequest request;
  request.return_tokens = true;
  Walk walk(request);
  CHECK(walk.state() == State::kContent);
  CHECK(!walk.output().may_constrain());
  CHECK(walk.allowed_kind() == NextKind::kOpen);
  walk.take("Hi");
  CHECK(walk.output().is_sampled(walk.grammars(), walk.tokens()));
  CHECK(walk.ends(vocabulary().end));
  CHECK_EQ(walk.text(), std::string("c:Hi"));
  CHECK(walk.reported() == spell("Hi") + Tokens{vocabulary().end});
}

TEST(output_state_ignored_end_tokens_continue) {
  GenerationRequest request;
  request.ignore_eos = true;
  request.stop_tokens = {'z'};
  Walk walk(request);
  walk.take({vocabulary().end});
  CHECK(walk.ends('z'));
}

TEST(output_state_stop_strings_and_repetition_end_the_output) {
  GenerationRequest request;
  request.stop = {"never", "lo"};
  Walk stopped(request);
  stopped.take("Hel");
  const OutputState::Step stop = stopped.accept('o');
  CHECK(stop.kind == StepKind::kEnds && stop.reason == FinishReason::kStopString && stop.stop_index == 1);
  CHECK(stopped.state() == State::kDone);
  CHECK_EQ(stopped.text(), std::string("c:He"));

  request.max_repeats = 3;
  Walk repeated(request);
  repeated.take(std::string(15, 'a'));
  const OutputState::Step loop = repeated.accept('a');
  CHECK(loop.kind == StepKind::kEnds && loop.reason == FinishReason::kRepetition);
}

TEST(output_state_undecided_output_becomes_reasoning_or_content) {
  Walk thinks(reasoning_request());
  CHECK(thinks.state() == State::kUndecided);
  thinks.take(" \n");
  CHECK(thinks.state() == State::kUndecided);
  thinks.take({vocabulary().think});
  CHECK(thinks.state() == State::kReasoning);
  thinks.take("mm").take({vocabulary().end_think});
  CHECK(thinks.state() == State::kContent);
  thinks.take("ok");
  CHECK_EQ(thinks.text(), std::string("r:mm c:ok"));
  CHECK_EQ(thinks.output().reasoning_tokens(), 6);

  Walk answers(reasoning_request());
  answers.take("a");
  CHECK(answers.state() == State::kContent);

  // Tests markers that are recognized by their spelling.
  GenerationRequest request;
  request.reasoning.open.text = "<t>";
  request.reasoning.close.text = "</t>";
  Walk spelled(request);
  spelled.take("<t");
  CHECK(spelled.state() == State::kUndecided);
  spelled.take(">");
  CHECK(spelled.state() == State::kReasoning);
  spelled.take("a</t>");
  CHECK(spelled.state() == State::kContent);

  request.reasoning.starts_inside = true;
  CHECK(Walk(request).state() == State::kReasoning);
}

TEST(output_state_forces_the_end_of_the_reasoning_when_the_budget_is_used_up) {
  GenerationRequest request = reasoning_request();
  request.reasoning.budget = 3;
  Walk walk(request);
  walk.take({vocabulary().think}).take("ab");
  CHECK(!walk.output().is_sampled(walk.grammars(), walk.tokens()));
  walk.force("!");
  CHECK(walk.state() == State::kReasoningEnd);
  walk.force({vocabulary().end_think}).force("\n");
  CHECK(walk.state() == State::kContent);
  walk.take("c");
  CHECK_EQ(walk.text(), std::string("r:ab! c:c"));

  // When the forced tokens end, the section is closed, even if they do not spell the marker or if there are none.
  request.reasoning.close_sequence = spell("..");
  Walk unmarked(request);
  unmarked.take({vocabulary().think}).take("ab").force("..");
  CHECK(unmarked.state() == State::kContent);
  request.reasoning.close_sequence.clear();
  Walk bare(request);
  bare.take({vocabulary().think}).take("ab");
  CHECK(bare.forced().empty());
  CHECK(bare.state() == State::kContent);
}

TEST(output_state_writes_a_call_after_its_marker) {
  Walk walk(call_request());
  walk.take("a").take({vocabulary().call});
  CHECK(walk.state() == State::kPrefix);
  CHECK(walk.output().in_tag());
  CHECK(walk.allows("f") && walk.allows("g") && !walk.allows("a") && !walk.allows(vocabulary().end));
  walk.take("g").force("(");
  CHECK(walk.state() == State::kArguments);
  walk.take("any");
  CHECK(walk.state() == State::kArguments);
  walk.take({vocabulary().end_call});
  CHECK(walk.state() == State::kContent);
  walk.take("b");
  CHECK_EQ(walk.text(), std::string("c:a t:<call>g(any</call> c:b"));
}

TEST(output_state_writes_a_required_call_first) {
  GenerationRequest request = call_request();
  const Tokens call = {vocabulary().call};
  request.calls.required = {call + spell("f("), call + spell("g(")};
  Walk walk(request);
  CHECK(walk.state() == State::kContent);
  CHECK(!walk.output().is_sampled(walk.grammars(), walk.tokens()));
  walk.force(call);
  CHECK(walk.state() == State::kPrefix);
  walk.take("f").force("(").take("x").take({vocabulary().end_call}).take("free");
  CHECK(walk.state() == State::kContent);

  // Reasoning may come first. If the model samples a token that would start the content or end the turn, it is
  // replaced.
  GenerationRequest thinking = reasoning_request();
  thinking.calls = request.calls;
  Walk begun(thinking);
  begun.take("\n");
  CHECK(begun.replaces('a'));
  CHECK(begun.state() == State::kPrefix);
  begun.force(call);
  Walk ended(thinking);
  ended.take({vocabulary().think}).take("m");
  CHECK(!ended.replaces('a'));
  CHECK(ended.replaces(vocabulary().end));
  CHECK(ended.state() == State::kReasoningEnd);
  ended.force(thinking.reasoning.close_sequence).force(call);
  CHECK(ended.state() == State::kPrefix);
  // The remainder of the closing text follows the marker that the model itself has generated.
  Walk closed(thinking);
  closed.take({vocabulary().think}).take({vocabulary().end_think});
  CHECK(closed.state() == State::kReasoningEnd);
  closed.force("\n").force(call);
}

TEST(output_state_constrains_the_arguments_by_their_grammar) {
  Walk walk(grammar_request());
  walk.take({vocabulary().call}).take("f").force("(");
  CHECK(walk.state() == State::kArguments);
  CHECK(walk.output().may_constrain());
  CHECK(walk.allows("a") && !walk.allows("b") && !walk.allows(vocabulary().end));
  CHECK_EQ(walk.output().count_allowed(walk.grammars(), const_cast<Tokens&>(walk.tokens()), spell("abc")), size_t{2});
  CHECK(walk.tokens().back() == '(');
  walk.force("ab");
  // According to the grammar, the call has ended. Whitespace, a further call or the end of the turn may follow.
  CHECK(walk.state() == State::kAfterCall);
  CHECK(walk.allows("\n") && walk.allows(vocabulary().call) && walk.allows(vocabulary().end) && !walk.allows("x"));
  walk.take("\n").take("\n");
  CHECK(!walk.allows("\n"));
  walk.take({vocabulary().call});
  CHECK(walk.state() == State::kPrefix);
  walk.take("g").force("(").take("y");
  CHECK(walk.state() == State::kAfterCall);
  CHECK(walk.allows("\n"));
  CHECK(walk.ends(vocabulary().end));
  CHECK_EQ(walk.text(), std::string("t:<call>f(ab c:\n\n t:<call>g(y"));
}

TEST(output_state_ends_the_turn_after_calls_that_no_marker_closes) {
  GenerationRequest request = grammar_request();
  request.calls.close = {};
  Walk walk(request);
  walk.take({vocabulary().call}).take("f").force("(");
  CHECK(walk.force_to_end("ab") == FinishReason::kEndOfTurn);

  request.calls.ends_itself = true;
  Walk continued(request);
  continued.take({vocabulary().call}).take("f").force("(").force("ab");
  CHECK(continued.state() == State::kAfterCall);
}

TEST(output_state_continues_the_section_with_further_calls) {
  GenerationRequest request = grammar_request();
  request.calls.next = {spell(",f("), spell(",g(")};
  request.calls.end = spell("]") + Tokens{vocabulary().end_call};
  Walk walk(request);
  walk.take({vocabulary().call}).take("f").force("(").force("ab");
  CHECK(walk.state() == State::kBetween);
  CHECK(walk.allows(",") && walk.allows("]") && !walk.allows("f"));
  walk.take(",g").force("(");
  CHECK(walk.state() == State::kArguments);
  walk.take("x");
  CHECK(walk.state() == State::kBetween);
  walk.take("]").force({vocabulary().end_call});
  CHECK(walk.state() == State::kAfterCall);
  CHECK(!walk.allows("x"));
  CHECK_EQ(walk.text(), std::string("t:<call>f(ab,g(x]</call>"));
}

TEST(output_state_begins_the_content_with_the_format_or_a_call) {
  GenerationRequest request = reasoning_request();
  request.format = vocabulary().choice({"yes", "no"});
  Walk answers(request);
  CHECK(answers.state() == State::kUndecided);
  CHECK(answers.allows("y") && answers.allows("n") && answers.allows(vocabulary().think) && !answers.allows("a"));
  answers.take("y");
  CHECK(answers.state() == State::kFormat);
  CHECK(answers.force_to_end("es") == FinishReason::kEndOfTurn);
  CHECK_EQ(answers.text(), std::string("c:yes"));

  Walk thinks(request);
  thinks.take({vocabulary().think}).take("y");
  CHECK(thinks.state() == State::kReasoning);
  CHECK(thinks.replaces(vocabulary().end));
  thinks.force(request.reasoning.close_sequence).take("n");
  CHECK(thinks.state() == State::kFormat);
  CHECK(!thinks.allows(vocabulary().end));

  GenerationRequest calls = call_request();
  calls.format = request.format;
  Walk called(calls);
  CHECK(called.allows("y") && called.allows(vocabulary().call) && !called.allows("c"));
  called.take({vocabulary().call});
  CHECK(called.state() == State::kPrefix);
  called.take("f").force("(").take("x").take({vocabulary().end_call});
  CHECK(called.state() == State::kContent);
  called.take("free");
  Walk chosen(calls);
  chosen.take("n");
  CHECK(chosen.force_to_end("o") == FinishReason::kEndOfTurn);
}

// Where a grammar allows a call, the remainder of a marker with several tokens is forced as soon as the marker's first
// token is sampled.
TEST(output_state_completes_a_spelled_marker_that_a_grammar_allows) {
  GenerationRequest request;
  request.calls.open = {"<<", kNoToken};
  request.calls.close = {">>", kNoToken};
  request.calls.prefixes = {spell("f:")};
  request.calls.starts = {spell("<<f:")};
  request.calls.grammars = {vocabulary().choice({"a>>b>>"})};
  request.format = vocabulary().choice({"yes", "no"});
  Walk walk(request);
  walk.take("<");
  CHECK(walk.state() == State::kPrefix);
  // A close marker within the arguments does not end the call.
  walk.force("<f:").force("a>>b>>");
  CHECK(walk.state() == State::kAfterCall);
  walk.take("<");
  CHECK(walk.state() == State::kPrefix);
  walk.force("<f:");
  CHECK_EQ(walk.text(), std::string("t:<<f:a>>b>><<f:"));
}

TEST(output_state_begins_the_content_with_a_header) {
  GenerationRequest request = header_request();
  request.format = vocabulary().choice({"yes", "no"});
  request.format_head = spell("@all:");
  Walk answers(request);
  answers.force("@");
  CHECK(answers.state() == State::kPrefix);
  CHECK(answers.allows("a") && answers.allows("f") && !answers.allows("y"));
  answers.take("a").force("ll:");
  CHECK(answers.state() == State::kFormat);
  CHECK(answers.allows("y") && !answers.allows("@"));
  answers.take("n");
  CHECK(answers.force_to_end("o") == FinishReason::kEndOfTurn);
  CHECK_EQ(answers.text(), std::string("t:@all: c:no"));

  Walk calls(request);
  calls.force("@").take("f").force(":");
  CHECK(calls.state() == State::kArguments);

  // Reasoning may come first, so the header's first token is sampled. Within the format's text, markers are plain text.
  GenerationRequest undecided = reasoning_request();
  undecided.calls = request.calls;
  undecided.format_head = request.format_head;
  undecided.format = vocabulary().choice({"a@f:", "b@f:"});
  Walk begun(undecided);
  CHECK(begun.allows("@") && begun.allows(vocabulary().think) && !begun.allows("a"));
  begun.take("@");
  CHECK(begun.state() == State::kPrefix);
  begun.take("a").force("ll:").take("b");
  CHECK(begun.force_to_end("@f:") == FinishReason::kEndOfTurn);
  CHECK_EQ(begun.text(), std::string("t:@all: c:b@f:"));
}

TEST(output_state_reads_a_marker_in_content_as_header_or_text) {
  Walk walk(header_request());
  walk.take("@");
  CHECK(walk.state() == State::kPrefix);  // No content precedes it, so it can only be a header.
  walk.take("a").force("ll:");
  CHECK(walk.state() == State::kContent);
  walk.take("mail @");
  CHECK(walk.state() == State::kMarker);
  CHECK(walk.allowed_kind() == NextKind::kOpen);
  walk.take("x");
  CHECK(walk.state() == State::kContent);
  walk.take("@f");
  CHECK(walk.state() == State::kPrefix);
  walk.force(":");
  CHECK(walk.state() == State::kArguments);
  CHECK_EQ(walk.text(), std::string("t:@all: c:mail  t:@ c:x t:@f:"));

  Walk ended(header_request());
  ended.take("@a").force("ll:").take("a@");
  CHECK(ended.state() == State::kMarker);
  CHECK(ended.ends(vocabulary().end));

  Walk headed(header_request());
  headed.take("@a").force("ll:").take("@");
  CHECK(headed.state() == State::kMarker);
}

TEST(output_state_forces_nothing_if_logprobs_are_requested) {
  GenerationRequest request;
  request.sampling.top_logprobs = 0;
  request.format = vocabulary().choice({"yes"});
  Walk walk(request);
  CHECK(walk.output().is_sampled(walk.grammars(), walk.tokens()));
  CHECK(walk.next_kind() == NextKind::kOpen);
  CHECK(walk.allows("y") && !walk.allows("e"));
}

}  // namespace
}  // namespace monolith::testing::walk
