import t from 'tap';
import { decodeEvents, EventStreamError, type EngineEvent } from '../../src/engine/events.js';

type Field = ['u32' | 'i32' | 'f32', number] | ['bytes', Uint8Array];

/** Encodes a record as described in native/engine/events.h. */
function record(
  request: number,
  [kind, choice, detail, flags]: [number, number, number, number],
  ...fields: Field[]
): Buffer {
  const parts = fields.map(([type, value]) => {
    if (type === 'bytes') return Buffer.concat([value, Buffer.alloc(-value.length & 3)]);
    const part = Buffer.alloc(4);
    if (type === 'u32') part.writeUInt32LE(value);
    else if (type === 'i32') part.writeInt32LE(value);
    else part.writeFloatLE(value);
    return part;
  });
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(12);
  head.writeUInt32LE(12 + body.length, 0);
  head.writeUInt32LE(request, 4);
  head.set([kind, choice, detail, flags], 8);
  return Buffer.concat([head, body]);
}

const text = (value: string): Field[] => [
  ['u32', Buffer.byteLength(value)],
  ['bytes', Buffer.from(value)],
];

function decode(buffer: Uint8Array): [number, EngineEvent][] {
  const events: [number, EngineEvent][] = [];
  decodeEvents(buffer, (request, event) => events.push([request, event]));
  return events;
}

const started = record(7, [1, 0, 0, 0], ['u32', 100], ['u32', 64], ['f32', 1.5], ['f32', 0.5]);
const content = record(7, [2, 1, 0, 0], ['u32', 3], ...text('Grüße, 東京 🚀!'));
const call = record(7, [2, 1, 2, 0], ['u32', 1], ...text('<tool_call>'));
const withLogprobs = record(
  4_294_967_295,
  [2, 0, 1, 1],
  ['u32', 1],
  ...text('a'),
  ['u32', 1],
  ['i32', 5],
  ['f32', -0.5],
  ['u32', 2],
  ['i32', 5],
  ['f32', -0.5],
  ['i32', 6],
  ['f32', -2],
);
const finished = record(7, [3, 1, 1, 0], ['u32', 30], ['u32', 10], ['i32', 2], ['f32', 8], ['f32', 16.25], ['u32', 9]);
const failed = record(8, [4, 0, 1, 0], ...text('queued too long'));

t.test('decodeEvents decodes every kind of record', async (t) => {
  t.same(decode(Buffer.concat([started, content, call, withLogprobs, finished, failed])), [
    [7, { type: 'started', promptTokens: 100, cachedTokens: 64, queueMs: 1.5, towerMs: 0.5 }],
    [7, { type: 'text', choice: 1, section: 'content', text: 'Grüße, 東京 🚀!', tokens: 3, logprobs: null }],
    [7, { type: 'text', choice: 1, section: 'tool', text: '<tool_call>', tokens: 1, logprobs: null }],
    [
      4_294_967_295,
      {
        type: 'text',
        choice: 0,
        section: 'reasoning',
        text: 'a',
        tokens: 1,
        logprobs: [
          {
            token: 5,
            logprob: -0.5,
            top: [
              { token: 5, logprob: -0.5 },
              { token: 6, logprob: -2 },
            ],
          },
        ],
      },
    ],
    [
      7,
      {
        type: 'finished',
        choice: 1,
        reason: 'stop_string',
        completionTokens: 30,
        reasoningTokens: 10,
        stopIndex: 2,
        prefillMs: 8,
        decodeMs: 16.25,
        predictedTokens: 9,
      },
    ],
    [8, { type: 'failed', code: 'queue_timeout', message: 'queued too long' }],
  ]);
  t.same(decode(new Uint8Array(0)), []);
});

t.test('decodeEvents decodes texts of every length and padding, including a byte-order mark', async (t) => {
  for (let length = 0; length < 20; length++) {
    for (const letter of ['x', 'é', '\ufeff']) {
      const value = letter.repeat(length);
      t.match(decode(record(1, [2, 0, 0, 0], ['u32', 0], ...text(value)))[0]?.[1], {
        type: 'text',
        text: value,
        tokens: 0,
      });
    }
  }
});

t.test('decodeEvents accepts a view into a larger buffer', async (t) => {
  const around = Buffer.concat([Buffer.alloc(5, 0xff), started, Buffer.alloc(3, 0xff)]);
  t.equal(decode(around.subarray(5, 5 + started.length)).length, 1);
});

t.test(
  'a malformed record throws an error that names the fault, after the records before it are delivered',
  async (t) => {
    const cases: [string, Buffer, RegExp][] = [
      ['a short header', started.subarray(0, 11), /shorter than a header/],
      ['a size too small', patch(started, 0, 8), /size 8 is not a multiple/],
      ['a size not padded', patch(started, 0, 22), /size 22 is not a multiple/],
      ['a size past the end', patch(started, 0, 400), /size 400 exceeds/],
      ['an unknown kind', record(1, [9, 0, 0, 0]), /unknown kind 9/],
      ['an unknown section', record(1, [2, 0, 3, 0], ['u32', 0], ...text('')), /unknown section 3/],
      [
        'an unknown reason',
        record(1, [3, 0, 6, 0], ['u32', 0], ['u32', 0], ['i32', 0], ['f32', 0], ['f32', 0]),
        /unknown finish reason 6/,
      ],
      ['failure code 0', record(1, [4, 0, 0, 0], ...text('')), /unknown failure code 0/],
      ['too few fields', record(1, [1, 0, 0, 0], ['u32', 1]), /shorter than its kind/],
      [
        'too many fields',
        record(1, [1, 0, 0, 0], ['u32', 1], ['u32', 1], ['f32', 1], ['f32', 1], ['u32', 1]),
        /4 bytes too many/,
      ],
      [
        'a text past the record',
        record(1, [2, 0, 0, 0], ['u32', 0], ['u32', 4_294_967_295]),
        /a count of 4294967295 exceeds/,
      ],
      [
        'too many logprobs',
        record(1, [2, 0, 0, 1], ['u32', 0], ...text(''), ['u32', 1_000_000]),
        /a count of 1000000 exceeds/,
      ],
    ];
    for (const [name, buffer, message] of cases) {
      const events: EngineEvent[] = [];
      const call = () => decodeEvents(Buffer.concat([failed, buffer]), (_, event) => events.push(event));
      t.throws(call, { name: 'EventStreamError', message }, name);
      t.equal(events.length, 1);
    }
  },
);

t.test('a truncated or corrupted stream is decoded or throws EventStreamError', async (t) => {
  const whole = Buffer.concat([started, withLogprobs, finished]);
  const ends = new Set([0, started.length, started.length + withLogprobs.length, whole.length]);
  for (let end = 0; end <= whole.length; end++) {
    if (ends.has(end)) t.equal(decode(whole.subarray(0, end)).length, [...ends].indexOf(end));
    else t.throws(() => decode(whole.subarray(0, end)), { name: 'EventStreamError' });
  }
  let refused = 0;
  for (let at = 0; at < whole.length; at++) {
    for (const flip of [0x01, 0x80, 0xff]) {
      const copy = Buffer.from(whole);
      copy[at] = (copy[at] ?? 0) ^ flip;
      try {
        decode(copy);
      } catch (error) {
        if (!(error instanceof EventStreamError)) throw error;
        refused++;
      }
    }
  }
  t.ok(refused > 30, `${refused} bit flips were refused`);
});

function patch(buffer: Buffer, offset: number, size: number): Buffer {
  const copy = Buffer.from(buffer);
  copy.writeUInt32LE(size, offset);
  return copy;
}
