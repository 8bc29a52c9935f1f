// Sends schemas designed to be expensive while other requests are running. Each must be refused or compiled within
// bounds, and the other requests' inter-token latency must not grow.
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { eventually, startMonolith } from './monolith.js';

const server = await startMonolith({
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

type Json = Record<string, unknown>;
const list = <T>(length: number, of: (index: number) => T): T[] => Array.from({ length }, (_, index) => of(index));
const named = (length: number, of: (index: number) => unknown, prefix = 'p'): Json =>
  Object.fromEntries(list(length, (index) => [`${prefix}${index}`, of(index)]));
const nested = (depth: number, around: (inner: Json) => Json, core: Json): Json =>
  depth === 0 ? core : around(nested(depth - 1, around, core));

/** Schemas that grow with their size parameter, which ranges from 1 to 4. */
const BOMBS: readonly ((size: number) => Json)[] = [
  (size) => ({
    allOf: list(4 * size, (at) => ({
      anyOf: list(4, (index) => ({
        properties: { [`a${at}${index}`]: { type: 'string' } },
        required: [`a${at}${index}`],
      })),
    })),
  }),
  (size) => ({ type: 'string', pattern: `^(a|aa|aaa|b*){1,${100 * size}}$` }),
  (size) => ({ type: 'string', pattern: `(${'.*a'.repeat(8 * size)}.*){${20 * size}}` }),
  (size) => ({ type: 'string', pattern: `^((a{1,99}){1,99}){1,${99 * size}}$` }),
  (size) => ({
    type: 'string',
    allOf: list(10 * size, (at) => ({ pattern: `(a|b)*${'ab'[at % 2]}(a|b){${at + 4 * size}}` })),
  }),
  (size) => ({
    type: 'object',
    properties: named(400 * size, () => ({ type: 'integer' })),
    minProperties: 200 * size,
    maxProperties: 300 * size,
  }),
  (size) => ({
    type: 'object',
    patternProperties: Object.fromEntries(
      list(8 * size, (at) => [`^.*${String.fromCharCode(97 + at)}.*$`, { type: 'integer', minimum: at }]),
    ),
  }),
  (size) => ({ enum: list(5_000 * size, (at) => `value number ${at * 7_919}`) }),
  (size) => ({
    $ref: '#/$defs/d0',
    $defs: named(
      300 * size,
      (at) => ({
        anyOf: [
          { $ref: `#/$defs/d${(at * 7 + 1) % (300 * size)}` },
          { type: 'array', items: { $ref: `#/$defs/d${(at * 3 + 2) % (300 * size)}` } },
        ],
      }),
      'd',
    ),
  }),
  (size) => nested(30 * size, (inner) => ({ properties: { a: { items: inner } } }), {}),
  (size) =>
    nested(10 * size, (inner) => ({ not: { not: inner } }), { type: 'object', properties: { a: { minLength: 3 } } }),
  (size) => ({ oneOf: list(20 * size, (at) => ({ type: 'object', properties: { [`k${at}`]: { const: at } } })) }),
  (size) => ({ type: 'string', minLength: 1e6 * size, maxLength: 1e9, pattern: '^[^a]*$' }),
  (size) => ({
    type: 'array',
    minItems: 1e6 * size,
    maxItems: 1e9,
    prefixItems: list(200 * size, (at) => ({ const: at })),
    items: { type: 'string', format: 'email' },
  }),
  (size) => ({ type: 'integer', multipleOf: 900_000 + size, minimum: -1e15, maximum: 1e15 }),
  (size) =>
    nested(1 + size, (inner) => ({ allOf: [inner, { if: inner, then: inner, else: { not: inner } }] }), {
      properties: { a: { pattern: '\\p{L}{1,50}' } },
    }),
];
const schemas = BOMBS.flatMap((bomb) => [1, 2, 3, 4].map((size) => bomb(size)));

function ask(body: object): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'hal-1.0',
      reasoning_effort: 'none',
      messages: [{ role: 'user', content: 'Tell me a story.' }],
      ...body,
    }),
  });
}

/** Streams text that does not end on its own, and records the milliseconds between chunks. */
async function stream(stop: AbortSignal, gaps: number[]): Promise<void> {
  const response = await ask({ stream: true, ignore_eos: true, max_completion_tokens: 1_900, temperature: 1 });
  if (response.status !== 200) throw new Error(`a stream was refused: ${await response.text()}`);
  let last = performance.now();
  for await (const _ of response.body!) {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    if (stop.aborted) return;
  }
}

const LATENESS = `
const { parentPort } = require('node:worker_threads');
const late = [];
let due = performance.now() + 5;
setInterval(() => { const now = performance.now(); late.push(Math.max(0, now - due)); due = now + 5; }, 5);
parentPort.once('message', () => { late.sort((a, b) => a - b); parentPort.postMessage(late[Math.floor(late.length * 0.99)] ?? 0); parentPort.close(); });`;

/**
 * Measures how late an idle thread wakes up under the same CPU load (p99, in ms). This part of a stream's latency is
 * due to the machine.
 */
function lateness(): { end(): Promise<number> } {
  const worker = new Worker(LATENESS, { eval: true });
  return {
    end: () =>
      new Promise((resolve, reject) => {
        worker.once('error', reject);
        worker.once('message', (late: number) => void worker.terminate().then(() => resolve(late)));
        worker.postMessage('end');
      }),
  };
}

async function streamsBeside<T>(
  work: () => Promise<T>,
): Promise<{ result: T; p50: number; p99: number; longest: number; pieces: number; late: number }> {
  const controller = new AbortController();
  const gaps: number[] = [];
  const streams = list(8, async () => {
    while (!controller.signal.aborted) await stream(controller.signal, gaps);
  });
  if (!(await eventually(() => gaps.length > 200))) throw new Error('the streams do not run');
  gaps.length = 0;
  const idle = lateness();
  const result = await work();
  const late = await idle.end();
  const measured = gaps.slice().sort((a, b) => a - b);
  controller.abort();
  await Promise.all(streams);
  const at = (share: number): number => measured[Math.floor(measured.length * share)] ?? NaN;
  return { result, p50: at(0.5), p99: at(0.99), longest: measured.at(-1) ?? NaN, pieces: measured.length, late };
}

t.test(
  '64 hostile schemas do not raise the inter-token latency of 8 running streams',
  { timeout: 240_000 },
  async (t) => {
    t.equal(schemas.length, 64);
    const outcomes = new Map<string, number>();
    let slowest = 0;
    let attempt = 0;
    const bombs = async (): Promise<void> => {
      for (let from = 0; from < schemas.length; from += 8) {
        await Promise.all(
          schemas.slice(from, from + 8).map(async (hostile, index) => {
            const schema = { ...hostile, $comment: `attempt ${attempt}` }; // each attempt compiles it again
            const began = performance.now();
            const response = await ask({
              response_format: { type: 'json_schema', json_schema: { name: 'x', schema, strict: index % 2 === 0 } },
              max_completion_tokens: 4,
            });
            const text = await response.text();
            const code = /"code":"(\w+)"/.exec(text)?.[1] ?? '';
            slowest = Math.max(slowest, performance.now() - began);
            const outcome = `${response.status} ${code}`;
            outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
            // Some schemas are so long that the prompt containing them exceeds the context. This is checked only after
            // compilation.
            if (
              ![200, 400, 422].includes(response.status) ||
              (response.status === 400 && code !== 'context_length_exceeded')
            )
              t.fail(`${outcome}: ${JSON.stringify(schema).slice(0, 200)}: ${text.slice(0, 200)}`);
          }),
        );
      }
    };
    // First, ordinary schemas are sent at the same pace, as a baseline that includes the load of their prompts and
    // output.
    const plain = async (): Promise<void> => {
      for (let from = 0; from < schemas.length; from += 8) {
        await Promise.all(
          list(8, (index) =>
            ask({
              response_format: {
                type: 'json_schema',
                json_schema: {
                  name: 'x',
                  schema: { type: 'object', properties: { [`a${from + index}`]: { type: 'string' } } },
                },
              },
              max_completion_tokens: 4,
            }).then((response) => response.text()),
          ),
        );
        await new Promise((done) => setTimeout(done, 100));
      }
    };
    // The target is a factor of 1.5. On a shared machine, other processes may delay a step, and each of the few
    // handovers between threads in a step may be as late as an idle thread. Because such delays affect a whole run, up
    // to three runs are measured.
    let before = await streamsBeside(plain);
    let during = await streamsBeside(bombs);
    const within = (): boolean => during.p99 <= 1.5 * before.p99 + 25 + 4 * during.late;
    for (attempt = 1; attempt < 3 && !within(); attempt++) {
      outcomes.clear();
      before = await streamsBeside(plain);
      during = await streamsBeside(bombs);
    }
    t.comment(
      `ms between chunks, p50 / p99 / max of chunks: baseline ${before.p50.toFixed(1)} / ${before.p99.toFixed(1)} / ${before.longest.toFixed(0)} of ${before.pieces}, ` +
        `with hostile schemas ${during.p50.toFixed(1)} / ${during.p99.toFixed(1)} / ${during.longest.toFixed(0)} of ${during.pieces}; slowest hostile schema ${slowest.toFixed(0)} ms; idle thread woken late by ${during.late.toFixed(1)} ms`,
    );
    t.comment(JSON.stringify(Object.fromEntries(outcomes)));
    t.equal(
      [...outcomes.values()].reduce((sum, count) => sum + count, 0),
      64,
    );
    t.ok(during.pieces > 500, `${during.pieces} chunks`);
    t.ok(
      within(),
      `p99 ${during.p99.toFixed(1)} ms, baseline ${before.p99.toFixed(1)} ms, idle thread woken late by ${during.late.toFixed(1)} ms`,
    );
  },
);
