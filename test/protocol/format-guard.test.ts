// Tests that a response that ended on its own either has the requested format or counts as a failure. A response with
// tool calls does not need to have the format, and a truncated response may end anywhere.
import t from 'tap';
import type { EndReason } from '../../src/generation/types.js';
import { FormatGuard } from '../../src/protocol/format-guard.js';

t.test('the format is checked depending on the finish reason and the content', async (t) => {
  const outcome = (reason: EndReason, ...pieces: string[]): string => {
    const guard = FormatGuard.for({ type: 'json_object' }, 2);
    if (guard === null) return 'any text will do';
    guard.text({ type: 'text', choice: 0, section: 'content', text: 'of another choice', tokens: 1, logprobs: null });
    guard.text({ type: 'text', choice: 1, section: 'reasoning', text: 'thoughts', tokens: 1, logprobs: null });
    for (const text of pieces)
      guard.text({ type: 'text', choice: 1, section: 'content', text, tokens: 1, logprobs: null });
    try {
      guard.finished({
        type: 'finished',
        choice: 1,
        reason,
        stopString: null,
        completionTokens: 1,
        reasoningTokens: 0,
        calls: 0,
        timings: { prefillMs: 1, decodeMs: 1 },
      });
      return 'ok';
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  for (const [reason, pieces, expected] of [
    ['end_of_turn', ['{"a"', ':1}'], 'ok'],
    ['end_of_turn', ['{"a"'], 'model_error'],
    ['end_of_turn', [], 'model_error'],
    ['tool_calls', [], 'ok'],
    ['tool_calls', [' \n'], 'ok'],
    ['tool_calls', ['{"a":1}'], 'ok'],
    ['tool_calls', ['{"a"'], 'model_error'],
    ['max_tokens', ['{"a"'], 'ok'],
    ['stop_string', ['{"a"'], 'ok'],
  ] as const)
    t.equal(outcome(reason, ...pieces), expected, `${reason} ${pieces.join('')}`);
  t.equal(FormatGuard.for({ type: 'text' }, 1), null);
});
