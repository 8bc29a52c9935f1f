import t from 'tap';
import type { EndReason as EngineEnd } from '../../../src/engine/events.js';
import { ChoiceEvents } from '../../../src/generation/local/tools/choice-events.js';
import { FUNCTIONARY_NAMED } from '../../../src/generation/local/tools/functionary.js';
import { HERMES } from '../../../src/generation/local/tools/hermes.js';
import { LLAMA } from '../../../src/generation/local/tools/llama.js';
import { MISTRAL_NAMED } from '../../../src/generation/local/tools/mistral.js';
import type { ToolSyntax } from '../../../src/generation/local/tools/syntax.js';
import type { GenerationEvent } from '../../../src/generation/types.js';
import { tools } from './call-fixtures.js';

type Section = 'content' | 'reasoning' | 'tool';

/** Feeds pieces as the engine would, with two tokens each, then the end. */
function run(
  syntax: ToolSyntax,
  pieces: [Section, string][],
  options: { reason?: EngineEnd; parallel?: boolean; required?: boolean; reasoningTokens?: number } = {},
) {
  const events: GenerationEvent[] = [];
  let ends = 0;
  const choice = new ChoiceEvents(
    3,
    { syntax, tools, parallel: options.parallel ?? true, required: options.required ?? false },
    (event) => events.push(event),
    () => ends++,
  );
  for (const [section, text] of pieces)
    choice.text({ type: 'text', choice: 3, section, text, tokens: 2, logprobs: null }, null);
  choice.finished(
    {
      type: 'finished',
      choice: 3,
      reason: options.reason ?? 'end_of_turn',
      completionTokens: pieces.length * 2 + 1,
      reasoningTokens: options.reasoningTokens ?? 0,
      stopIndex: options.reason === 'stop_string' ? 0 : -1,
      prefillMs: 1,
      decodeMs: 2,
      predictedTokens: 0,
    },
    'STOP',
  );
  const told = events.flatMap((event) => {
    switch (event.type) {
      case 'text':
        return [`${event.section} ${event.text}`];
      case 'call_started':
        return [`start ${event.index} ${event.name}`];
      case 'call_arguments':
        return [`args ${event.index} ${event.text}`];
      case 'call_finished':
        return [`end ${event.index} ${event.complete}`];
      case 'finished':
        return [`finished ${event.reason} ${event.calls}${event.stopString === null ? '' : ` ${event.stopString}`}`];
      default:
        return [];
    }
  });
  const completionTokens = events.flatMap((event) => (event.type === 'finished' ? [event.completionTokens] : []))[0];
  const tokens = events.reduce((sum, event) => sum + ('tokens' in event ? event.tokens : 0), 0);
  return {
    told,
    ends,
    tokens,
    completionTokens,
    choices: new Set(events.map((event) => ('choice' in event ? event.choice : -1))),
  };
}

const call = (args: string): string => `<tool_call>\n{"name": "get_weather", "arguments": ${args}}\n</tool_call>`;

t.test('emits text and calls in order, with call numbers', async (t) => {
  const { told, tokens, choices, ends } = run(HERMES, [
    ['reasoning', 'Hm.'],
    ['content', '  \n'],
    ['content', 'Let me see.'],
    ['content', '\n\n'],
    ['tool', call('{"days": 1}')],
    ['content', '\n'],
    ['tool', call('{"days": 2}').slice(0, 20)],
    ['tool', call('{"days": 2}').slice(20)],
    ['content', ' \n'],
  ]);
  t.same(told, [
    'reasoning Hm.',
    'content   \nLet me see.',
    'start 0 get_weather',
    'args 0 {"days": 1}',
    'end 0 true',
    'start 1 get_weather',
    'args 1 {"days": 2}',
    'end 1 true',
    'finished tool_calls 2',
  ]);
  t.equal(tokens, 16, 'all tokens are counted except those of the last piece, which causes no event');
  t.same([...choices], [3]);
  t.equal(ends, 0);
});

t.test('white space is a response if there is no text and no call', async (t) => {
  t.same(run(HERMES, [['content', ' \n']]).told, ['content  \n', 'finished end_of_turn 0']);
  t.same(
    run(HERMES, [
      ['content', ' \n'],
      ['tool', call('{}')],
      ['content', '\n'],
    ]).told.slice(0, 1),
    ['start 0 get_weather'],
    'white space next to a call is dropped',
  );
  t.same(
    run(HERMES, [
      ['content', 'a '],
      ['content', ' b '],
    ]).told,
    ['content a', 'content   b', 'content  ', 'finished end_of_turn 0'],
  );
  t.same(
    run(HERMES, [
      ['tool', call('{}')],
      ['content', '\n'],
      ['content', '\n So '],
    ]).told.slice(3),
    ['content So', 'finished tool_calls 1'],
  );
});

t.test('keeps texts with calls between them separate', async (t) => {
  const between = (...pieces: string[]): string => {
    const { told } = run(
      HERMES,
      pieces.map((text) => [text.startsWith('<') ? 'tool' : 'content', text]),
    );
    return told
      .filter((one) => one.startsWith('content '))
      .map((one) => one.slice('content '.length))
      .join('');
  };
  const one = call('{}');
  t.equal(between('a. ', one, ' b'), 'a. b', 'there is white space on only one side of the call');
  t.equal(between('a.', '\n', one, one, '\n\n', 'b'), 'a.\nb');
  for (const behind of [['\n\n b'], ['\n', '\n ', 'b'], ['\n', '\n b']])
    t.equal(between('a.', one, ...behind), 'a.\n\n b', 'the result is the same at every split');
  t.equal(between('a.', one, '\n', one, '\n\n', 'b'), 'a.\nb');
  t.equal(between('a', one, 'b'), 'ab');
  t.equal(between('a \n', one, '\n'), 'a', 'no text follows the call');
});

t.test('a marker without a call stays text at its position', async (t) => {
  const { told } = run(FUNCTIONARY_NAMED, [
    ['tool', '>>>'],
    ['tool', 'all\n'],
    ['content', 'In Python: '],
    ['tool', '>>>'],
    ['content', ' 1'],
    ['content', ' + 1'],
    ['tool', '>>>f\n{}'],
  ]);
  t.same(told, [
    'content In Python:',
    'content  >>>',
    'content  1',
    'content  + 1',
    'start 0 f',
    'args 0 {}',
    'end 0 true',
    'finished tool_calls 1',
  ]);
});

t.test('maps the end reason of the engine to the finish reason', async (t) => {
  const reasons: [EngineEnd, string][] = [
    ['end_of_turn', 'tool_calls'],
    ['stop_string', 'tool_calls'],
    ['max_tokens', 'max_tokens'],
    ['context_full', 'context_full'],
    ['time_limit', 'time_limit'],
  ];
  for (const [reason, expected] of reasons)
    t.equal(run(HERMES, [['tool', call('{}')]], { reason }).told.at(-1), `finished ${expected} 1`);
  t.equal(run(HERMES, [['content', 'x']], { reason: 'stop_string' }).told.at(-1), 'finished stop_string 0 STOP');
  const open = '<tool_call>\n{"name": "get_weather", "arguments": {"da';
  t.same(run(HERMES, [['tool', open]], { reason: 'max_tokens' }).told.slice(-2), [
    'end 0 false',
    'finished max_tokens 1',
  ]);
  t.same(
    run(HERMES, [['tool', open]]).told.slice(-2),
    ['end 0 false', 'finished malformed_call 1'],
    'the model stopped within the call',
  );
  t.same(
    run(
      HERMES,
      [
        ['tool', call('{}')],
        ['tool', open],
      ],
      { reason: 'time_limit' },
    ).told.slice(-2),
    ['end 1 false', 'finished time_limit 2'],
  );
});

t.test('a malformed call ends the choice', async (t) => {
  const { told, ends } = run(HERMES, [
    ['tool', '<tool_call>\n{"name": "get_weather", "arguments": {"days": ?'],
    ['tool', '}}'],
    ['content', 'more'],
  ]);
  t.same(told, ['start 0 get_weather', 'args 0 {"days": ', 'end 0 false', 'finished malformed_call 1']);
  t.equal(ends, 1);
});

t.test('a closing marker within a string still ends the call', async (t) => {
  const { told, ends } = run(HERMES, [
    ['tool', '<tool_call>\n{"name": "get_weather", "arguments": {"days": "</tool_call>'],
    ['content', ' and more'],
  ]);
  t.same(told, ['start 0 get_weather', 'args 0 {"days": "</tool_call>', 'end 0 false', 'finished malformed_call 1']);
  t.equal(ends, 1);
  const early = run(HERMES, [
    ['tool', '<tool_call>\n{"na</tool_call>'],
    ['content', ' and more'],
    ['tool', call('{}')],
  ]);
  t.equal(early.told.at(-1), 'finished tool_calls 1', JSON.stringify(early.told));
});

t.test('a required call that is missing is an error', async (t) => {
  const noObject = '<tool_call>\n{"name": "get_weather", "arguments": []}\n</tool_call>';
  for (const pieces of [[['tool', noObject]], [['content', 'I would rather talk.']], []] as [Section, string][][]) {
    const { told } = run(HERMES, pieces, { required: true });
    t.match(told.at(-1), /^finished malformed_call/, JSON.stringify(told));
    t.notMatch(told.join('\n'), /tool_call>/, 'markup is not emitted as text');
  }
  t.equal(run(HERMES, [['tool', call('{}')]], { required: true }).told.at(-1), 'finished tool_calls 1');
});

t.test('stops after one call if parallel calls are disabled', async (t) => {
  const { told, ends } = run(
    HERMES,
    [
      ['tool', call('{"days": 1}') + call('{"days": ?}')],
      ['content', 'more'],
    ],
    { parallel: false },
  );
  t.same(told, ['start 0 get_weather', 'args 0 {"days": 1}', 'end 0 true', 'finished tool_calls 1']);
  t.equal(ends, 1);
  const usage = (...more: [Section, string][]) =>
    run(HERMES, [['reasoning', 'Hm.'], ['content', 'x'], ['tool', call('{}')], ...more], {
      parallel: false,
      reasoningTokens: 4,
    }).completionTokens;
  t.equal(usage(), 8, 'reasoning with its markers, and two tokens for each other piece');
  t.equal(
    usage(['content', '\n'], ['tool', call('{}')]),
    8,
    'tokens that the engine generated before it was stopped are not counted',
  );
  t.equal(
    run(HERMES, [['tool', call('{}')]], { parallel: false, reason: 'max_tokens' }).told.at(-1),
    'finished tool_calls 1',
    'the call was complete before the token limit',
  );
});

t.test('finds a bare call in any section', async (t) => {
  const pieces = ['\n', '{"na', 'me": "get_time", "parameters": {}}'];
  const expected = ['start 0 get_time', 'args 0 {}', 'end 0 true', 'finished tool_calls 1'];
  for (const section of ['content', 'tool'] as const)
    t.same(
      run(
        LLAMA,
        pieces.map((text) => [section, text]),
      ).told,
      expected,
      section,
    );
  t.same(
    run(LLAMA, [
      ['content', ' {"a"'],
      ['content', ': 1}\n'],
    ]).told.join('|'),
    'content  {"a": 1}|content \n|finished end_of_turn 0'.replace(' {"a": 1}', ' {"a"|content : 1}'),
    'a complete JSON response is text',
  );
  t.same(
    run(LLAMA, [
      ['content', 'See: '],
      ['content', '{"name": "get_time", "parameters": {}}'],
    ]).told.at(-1),
    'finished end_of_turn 0',
    'a call after text is not recognized',
  );
});

t.test('text that only looks like a call stays text', async (t) => {
  const { told } = run(MISTRAL_NAMED, [
    ['content', 'A '],
    ['tool', '[TOOL_CALLS]rm['],
    ['tool', 'ARGS]{} b'],
  ]);
  t.equal(
    told
      .slice(0, -1)
      .map((one) => one.slice('content '.length))
      .join(''),
    'A [TOOL_CALLS]rm[ARGS]{} b',
  );
  t.equal(told.at(-1), 'finished end_of_turn 0');
});

t.test('the log probabilities of withheld text are emitted with it', async (t) => {
  const events: GenerationEvent[] = [];
  const choice = new ChoiceEvents(
    0,
    { syntax: LLAMA, tools, parallel: true, required: false },
    (event) => events.push(event),
    () => {},
  );
  const logprob = (token: string) => ({ token, bytes: [], logprob: -1, top: [] });
  for (const text of ['{', '"a', '": 1}'])
    choice.text({ type: 'text', choice: 0, section: 'content', text, tokens: 1, logprobs: null }, [logprob(text)]);
  const texts = events.filter((event) => event.type === 'text');
  t.equal(texts.map(({ text }) => text).join(''), '{"a": 1}');
  t.same(
    texts.flatMap(({ logprobs }) => (logprobs ?? []).map(({ token }) => token)),
    ['{', '"a', '": 1}'],
  );
});
