// Checks that each rule for the history of three processes under faults (check.ts) rejects an invalid history.
// rounds.slow.ts records real histories.
import t from 'tap';
import { problemsOf } from './check.js';
import { answerTo, promptOf, type Entry, type Operation } from './history.js';

const BOUNDS = { places: 1, perMinute: 2 };
const ASKED = new Map(Array.from({ length: 10 }, (_, n) => [n, { tokens: 1, gapMs: 0 }]));
const TEXT = answerTo(promptOf(1, 1, 0));
const operation = (n: number, at: number, more: Partial<Operation>): Operation => ({
  kind: 'operation',
  n,
  round: 0,
  what: 'read',
  process: 0,
  life: 0,
  organization: 0,
  key: '0.0',
  of: null,
  began: at,
  ended: at + 1,
  status: 200,
  code: null,
  id: null,
  state: null,
  text: null,
  seen: false,
  quiet: false,
  odd: null,
  ...more,
});
const made = operation(1, 0, { what: 'store', id: 'resp_1', state: 'completed', text: TEXT });
const background = operation(1, 0, { what: 'background', id: 'resp_1', state: 'queued' });
const hold = (n: number, from: number, to: number, process = 0): Entry[] => [
  operation(n, from - 1, { what: 'hold', process }),
  { kind: 'generation', n, from, to, messages: [] },
];
const away = (process: number, from: number, to: number): Entry => ({
  kind: 'away',
  process,
  life: 0,
  from,
  to,
  processes: 1,
});

const HISTORIES: Record<string, [history: Entry[], finds: RegExp | null]> = {
  'a stored response is readable': [[made, operation(2, 5, { of: 1, text: TEXT })], null],
  'an acknowledged response is lost': [
    [made, operation(2, 5, { of: 1, status: 404 })],
    /acknowledged and never deleted/,
  ],
  'a stored response has changed': [[made, operation(2, 5, { of: 1, text: 'x' })], /had the text/],
  'a response is found after its deletion': [
    [made, operation(2, 5, { what: 'remove', of: 1 }), operation(3, 9, { of: 1, text: TEXT })],
    /deletion had been acknowledged/,
  ],
  'a response may be found while it is being deleted': [
    [made, operation(2, 5, { what: 'remove', of: 1, ended: 12 }), operation(3, 9, { of: 1, text: TEXT })],
    null,
  ],
  'a response is found after it was not found': [
    [
      made,
      operation(2, 5, { what: 'remove', of: 1, status: null }),
      operation(3, 9, { of: 1, status: 404 }),
      operation(4, 12, { of: 1, text: TEXT }),
    ],
    /had not found before/,
  ],
  'another organization can read a response': [
    [made, operation(2, 5, { what: 'foreign', of: 1, organization: 1 })],
    /another organization's/,
  ],
  'a continuation lacks the start of its chain': [
    [
      made,
      operation(2, 5, { what: 'continue', of: 1 }),
      { kind: 'generation', n: 2, from: 5, to: 6, messages: [promptOf(2, 1, 0)] },
    ],
    /the model received/,
  ],
  'the concurrency limit is exceeded': [[...hold(1, 10, 20), ...hold(2, 15, 20, 1)], /2 concurrency slots of 1/],
  'two requests use the same slot one after the other': [[...hold(1, 10, 20), ...hold(2, 20, 30, 1)], null],
  'a process that counts alone may use its own share': [
    [...hold(1, 1_010, 1_020), ...hold(2, 1_015, 1_020, 1), away(1, 500, 2_000)],
    null,
  ],
  'a process that counts alone exceeds its share': [
    [...hold(1, 1_010, 1_020, 1), ...hold(2, 1_015, 1_020, 1), away(1, 500, 2_000)],
    /of a share of 1/,
  ],
  'the rate limit is exceeded': [
    [2, 3, 4].map((n) => operation(n, n, { what: 'ask', seen: true })),
    /3 requests, but the limit allows 2/,
  ],
  'a concurrency slot is not freed': [[{ kind: 'left', round: 0, at: 9, places: 2 }], /2 concurrency slots are taken/],
  'a background response fails although its process is alive': [
    [background, operation(2, 5, { of: 1, state: 'failed' })],
    /its process is alive/,
  ],
  'a background response ends twice': [
    [
      background,
      operation(2, 5, { of: 1, state: 'completed', text: TEXT }),
      operation(3, 9, { what: 'cancel', of: 1, state: 'cancelled', text: TEXT }),
    ],
    /was completed/,
  ],
  'a server returns an internal error': [[operation(2, 5, { status: 500 })], /500/],
  'a request is refused after all faults were removed': [
    [operation(2, 5, { status: 503, quiet: true })],
    /although all faults were removed/,
  ],
};
for (const [name, [history, finds]] of Object.entries(HISTORIES)) {
  t.test(`a history: ${name}`, async (t) => {
    const problems = problemsOf(history, BOUNDS, ASKED);
    if (finds === null) t.same(problems, []);
    else t.match(problems.join('\n'), finds);
  });
}
