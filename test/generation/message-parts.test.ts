import t from 'tap';
import type { TextEvent } from '../../src/engine/events.js';
import {
  HARMONY_MARKS,
  MessageParts,
  SOLAR_MARKS,
  type MessageMarks,
  type Section,
} from '../../src/generation/local/message-parts.js';
import { RequestEvents, ReasoningLabel } from '../../src/generation/local/request-events.js';
import type { TokenTexts } from '../../src/generation/local/token-texts.js';
import { HARMONY } from '../../src/generation/local/tools/harmony.js';
import type { GenerationEvent } from '../../src/generation/types.js';

const START = '<|start|>assistant',
  FINAL = `${START}<|channel|>final<|message|>`;
const CALL = `${START}<|channel|>commentary to=functions.f <|constrain|>json<|message|>`;
const OTHER_ORDER = `${START} to=functions.f<|channel|>commentary json<|message|>`;

/**
 * Returns the parts emitted when the content arrives in the given pieces. Adjacent parts in the same section are
 * joined.
 */
function told(
  pieces: readonly string[],
  inReasoning = true,
  mayCall = true,
  marks: MessageMarks = HARMONY_MARKS,
): string[] {
  const result: [Section, string][] = [];
  const parts = new MessageParts(marks, inReasoning, mayCall, (section, text) => {
    const last = result.at(-1);
    if (text === '') throw new Error('nothing emitted');
    if (last?.[0] === section) last[1] += text;
    else result.push([section, text]);
  });
  for (const piece of pieces) parts.push('content', piece);
  parts.end();
  return result.map(([section, text]) => `${section} ${text}`);
}

t.test('sorts messages by their headers, at every split', async (t) => {
  const cases: [string, string[], boolean?, boolean?][] = [
    [`${FINAL}The answer: <|en & 1 < 2.`, ['content The answer: <|en & 1 < 2.']],
    [`${FINAL}Half <|st`, ['content Half <|st']],
    ['No header at all', ['content No header at all']],
    ['it goes on <|x', ['content it goes on <|x'], false],
    ['it goes on<|end|>', ['content it goes on'], false],
    [
      `${START}<|channel|>analysis<|message|>More thought.<|end|>${FINAL}So.`,
      ['reasoning More thought.', 'content So.'],
    ],
    [
      `${START}<|channel|>commentary<|message|>I shall look.<|end|>${CALL}{"a": 1}`,
      ['content I shall look.', `tool ${CALL}{"a": 1}`],
    ],
    [`${OTHER_ORDER}{}`, [`tool ${OTHER_ORDER}{}`]],
    [
      `<|channel|>commentary to=functions.f<|message|>{}`,
      [`tool ${START}<|channel|>commentary to=functions.f<|message|>{}`],
    ],
    [`${CALL}{}`, ['content {}'], true, false],
    [`${START}<|channel|>fin`, []],
    [START, []],
  ];
  for (const [text, expected, inReasoning, mayCall] of cases) {
    t.same(told([text], inReasoning, mayCall), expected, text);
    t.same(told(text.split(''), inReasoning, mayCall), expected, `${text}, character by character`);
    for (let at = 1; at < text.length; at++) {
      const split = told([text.slice(0, at), text.slice(at)], inReasoning, mayCall);
      if (JSON.stringify(split) !== JSON.stringify(expected)) t.same(split, expected, `${text}, split at ${at}`);
    }
  }
});

t.test('sorts messages with a separate marker for each kind', async (t) => {
  const begin = '<|begin|>assistant';
  const call = `${begin}<|tool_calls|>`;
  const cases: [string, string[], boolean?, boolean?][] = [
    [`${begin}<|content|>The answer: <|en & 1 < 2.<|end|>`, ['content The answer: <|en & 1 < 2.']],
    [`${begin}<|think|>More.<|end|>${begin}<|content|>So.`, ['reasoning More.', 'content So.']],
    [
      `${begin}<|content|>I shall look.<|end|>${call}<|tool_call:begin|>1`,
      ['content I shall look.', `tool ${call}<|tool_call:begin|>1`],
    ],
    [`<|tool_calls|><|tool_call:begin|>1`, [`tool ${call}<|tool_call:begin|>1`]],
    ['goes on<|end|>', ['content goes on'], false],
    [`${call}x`, ['content x'], true, false],
  ];
  for (const [text, expected, inReasoning, mayCall] of cases) {
    for (let at = 0; at < text.length; at++) {
      const split = told([text.slice(0, at), text.slice(at)], inReasoning, mayCall, SOLAR_MARKS);
      if (JSON.stringify(split) !== JSON.stringify(expected)) t.same(split, expected, `${text}, split at ${at}`);
    }
  }
});

t.test('strips a label before the reasoning', async (t) => {
  const reasoning = (pieces: string[]): string => {
    let text = '';
    const label = new ReasoningLabel('thought', (piece) => {
      text += piece;
    });
    for (const piece of pieces) label.push(piece);
    return text;
  };
  for (const [text, expected] of [
    ['thought\nI think.', 'I think.'],
    ['thoughtful I am', 'thoughtful I am'],
    ['I thought so', 'I thought so'],
    ['thought\n\n a', 'a'],
  ] as const) {
    t.equal(reasoning([text]), expected);
    t.equal(reasoning(text.split('')), expected, `${text}, character by character`);
  }
});

function events(pieces: readonly [TextEvent['section'], string][], calls: boolean): string[] {
  const result: string[] = [];
  let tokens = 0;
  const tools = new Map([['f', null]]);
  const request = new RequestEvents(
    {
      stop: [],
      messages: { marks: HARMONY_MARKS, inReasoning: true },
      label: null,
      calls: calls ? { syntax: HARMONY, tools, parallel: true, required: false } : null,
      predicted: null,
      ignored: [],
    },
    { withText: (entry: unknown) => entry } as unknown as TokenTexts,
    (event: GenerationEvent) => {
      if ('tokens' in event) tokens += event.tokens;
      if (event.type === 'text') result.push(`${event.section} ${event.text}`);
      else if (event.type === 'call_started') result.push(`start ${event.name}`);
      else if (event.type === 'call_arguments') result.push(`args ${event.text}`);
      else if (event.type === 'call_finished') result.push(`end ${event.complete}`);
      else if (event.type === 'finished') result.push(`finished ${event.reason} ${event.calls} of ${tokens} tokens`);
    },
    () => {},
    () => 0,
  );
  for (const [section, text] of pieces)
    request.take({ type: 'text', choice: 0, section, text, tokens: 1, logprobs: null });
  request.take({
    type: 'finished',
    choice: 0,
    reason: 'end_of_turn',
    completionTokens: pieces.length,
    reasoningTokens: 1,
    stopIndex: -1,
    prefillMs: 1,
    decodeMs: 1,
    predictedTokens: 0,
  });
  return result;
}

t.test('emits a response with channels as events for the client', async (t) => {
  t.same(
    events(
      [
        ['reasoning', 'Hm.'],
        ['content', FINAL],
        ['content', 'So.'],
      ],
      false,
    ),
    ['reasoning Hm.', 'content So.', 'finished end_of_turn 0 of 3 tokens'],
  );
  // The engine finds the call marker; the text before it, which looked like content, is the start of the message
  // header.
  const marker = CALL.slice(0, CALL.indexOf('=functions'));
  t.same(
    events(
      [
        ['reasoning', 'Hm.'],
        ['tool', marker],
        ['tool', CALL.slice(marker.length)],
        ['tool', '{"a": '],
        ['tool', '1}'],
      ],
      true,
    ),
    ['reasoning Hm.', 'start f', 'args {"a": ', 'args 1}', 'end true', 'finished tool_calls 1 of 5 tokens'],
  );
  t.same(
    events(
      [
        ['reasoning', 'Hm.'],
        ['content', `${START}<|channel|>commentary<|message|>Look:<|end|>`],
        ['tool', marker],
        ['tool', `${CALL.slice(marker.length)}{}`],
      ],
      true,
    ),
    ['reasoning Hm.', 'content Look:', 'start f', 'args {}', 'end true', 'finished tool_calls 1 of 4 tokens'],
  );
  // A header with its parts in the other order. The engine reports no marker for this order.
  t.same(
    events(
      [
        ['reasoning', 'Hm.'],
        ['content', OTHER_ORDER],
        ['content', '{"a"'],
        ['content', ': 1}'],
      ],
      true,
    ),
    ['reasoning Hm.', 'start f', 'args {"a"', 'args : 1}', 'end true', 'finished tool_calls 1 of 4 tokens'],
  );
});
