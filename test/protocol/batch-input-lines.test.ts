// Tests that reading the input file of a batch leaves the event loop to other work between the steps of a large line.
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { EventLoopBudget } from '../../src/admission/event-loop-budget.js';
import { EventLoopClock, EventLoopMeter } from '../../src/http/event-loop-meter.js';
import { parseJsonBody } from '../../src/http/json.js';
import { openSharedWork, parseInTurns } from '../../src/http/shared-work.js';
import { readInput, type InputRules } from '../../src/protocol/batches/input-lines.js';
import { stringifyExact } from '../../src/shared/exact-json.js';
import type { NewLine } from '../../src/storage/batch-store.js';

t.setTimeout(120_000); // the machine may be busy

const LINE_BYTES = 24 * 1024 ** 2;
const work = openSharedWork({ max_answering_bytes: 1e9, max_body_bytes: 1e8 });
const meter = new EventLoopMeter(new EventLoopBudget(null), 'org_a', {
  loop: new EventLoopClock(),
  annotate: () => undefined,
});
const rules: InputRules = {
  endpoint: '/v1/chat/completions',
  maxLines: 10,
  maxLineBytes: 2 * LINE_BYTES,
  parse: (line) => parseInTurns(work, 'org_a', line, { meter, what: 'line' }),
  checkModel: () => undefined,
};

/** A line with many short messages, among them numbers that JavaScript writes differently. */
function largeLine(bytes: number): string {
  const message = { role: 'user', content: 'A text of ordinary length, as it occurs in conversations. '.repeat(4) };
  const messages = Array.from({ length: Math.floor(bytes / JSON.stringify(message).length) }, () => message);
  const body = `{"model":"m","seed":1.0,"1":9223372036854775807,"messages":${JSON.stringify(messages)},"z":{"b":[1e2,12345678901234567890]}}`;
  return `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":${body}}`;
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 1024 ** 2) yield bytes.subarray(at, at + 1024 ** 2);
}

t.test('a large line is read in steps', async (t) => {
  const text = largeLine(LINE_BYTES);
  const began = performance.now();
  const whole = parseJsonBody(Buffer.from(text)) as { body: object };
  const expected = stringifyExact(whole.body);
  const atOnceMs = performance.now() - began;
  let longest = 0;
  let isOver = false;
  let last = performance.now();
  const watch = (): void => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (!isOver) setImmediate(watch);
  };
  setImmediate(watch);
  const lines: NewLine[] = [];
  const { problems, total } = await readInput(chunksOf(`${text}\n\n`), rules, async (some) => {
    lines.push(...some);
  });
  isOver = true;
  t.same([problems, total], [[], 1]);
  t.ok(lines[0]!.body === expected, 'the same text as if it were serialized at once');
  t.match(expected, /"seed":1,"1":9223372036854775807,.*"z":\{"b":\[100,12345678901234567890\]\}\}$/s);
  t.ok(longest < 0.7 * atOnceMs, `at most ${longest.toFixed(0)} ms at once, of ${atOnceMs.toFixed(0)} ms`);
  t.comment(`longest pause ${longest.toFixed(0)} ms; ${atOnceMs.toFixed(0)} ms without steps`);
});

t.test('a long line of spaces is empty', async (t) => {
  const { problems, total } = await readInput(chunksOf(' '.repeat(1e7)), rules, async () => undefined);
  t.equal(total, 0);
  t.match(problems, [{ code: 'empty_file' }]);
});
