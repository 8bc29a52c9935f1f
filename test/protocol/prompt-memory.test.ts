// Tests the memory of recent prompts: contents, isolation between organizations, expiry, and limits.
import t from 'tap';
import {
  KEPT_S,
  MAX_PROMPTS,
  PROMPT_MEMORY_BYTES,
  PromptMemory,
  ticketOf,
} from '../../src/protocol/prompt-cache/prompt-memory.js';
import { PART_INTS } from '../../src/protocol/prompt-cache/prompt-parts.js';

const prompt = (length: number, first = 0) => ({
  keys: Int32Array.from({ length }, (_, at) => first + at),
  history: Math.max(0, length - 1),
  parts: new Int32Array(PART_INTS).fill(length),
});

function memory(now?: () => number, bytes = PROMPT_MEMORY_BYTES): { buffer: SharedArrayBuffer; prompts: PromptMemory } {
  const buffer = new SharedArrayBuffer(bytes);
  return { buffer, prompts: new PromptMemory(buffer, now) };
}

t.test('a prompt of any length is returned as it was kept', async (t) => {
  const { prompts, buffer } = memory();
  for (const length of [1, 255, 256, 257, 5_000]) prompts.keep(1, `id${length}`, prompt(length, -3));
  for (const length of [1, 255, 256, 257, 5_000]) t.same(prompts.find(1, `id${length}`), prompt(length, -3));
  t.same(new PromptMemory(buffer).find(1, 'id257'), prompt(257, -3), 'on every thread');
  t.equal(prompts.find(1, 'other'), null);
});

t.test('a prompt is visible only to its own organization', async (t) => {
  const { prompts } = memory();
  prompts.keep(1, 'id', prompt(3));
  t.equal(prompts.find(2, 'id'), null);
  prompts.keep(2, 'id', prompt(4));
  t.same(prompts.find(1, 'id'), prompt(3));
  t.same(prompts.find(2, 'id'), prompt(4));
});

t.test("an organization's oldest prompt is dropped, and another organization's is not", async (t) => {
  const { prompts } = memory();
  prompts.keep(-5, 'theirs', prompt(10));
  for (let at = 0; at <= MAX_PROMPTS; at++) prompts.keep(1, `id${at}`, prompt(300 + at));
  t.equal(prompts.find(1, 'id0'), null);
  for (let at = 1; at <= MAX_PROMPTS; at++) t.same(prompts.find(1, `id${at}`), prompt(300 + at));
  t.same(prompts.find(-5, 'theirs'), prompt(10));
});

t.test('a prompt is kept for an hour', async (t) => {
  let now = 100;
  const { prompts } = memory(() => now);
  prompts.keep(1, 'id', prompt(3));
  now += KEPT_S - 1;
  t.same(prompts.find(1, 'id'), prompt(3));
  now += 1;
  t.equal(prompts.find(1, 'id'), null);
});

t.test('the oldest prompts make room for new ones when the memory is full', async (t) => {
  const { prompts } = memory(undefined, 2 * 1024 * 1024);
  const { keys } = prompt(20_000);
  let kept = 0;
  for (let at = 0; at < 200; at++) prompts.keep(at, 'id', { ...prompt(1), keys: keys.map((key) => key + at) });
  for (let at = 0; at < 200; at++) {
    const found = prompts.find(at, 'id');
    if (found === null) {
      t.equal(kept, 0, 'older prompts are dropped first');
      continue;
    }
    kept++;
    if (found.keys.some((key, index) => key !== index + at)) t.fail(`prompt ${at} is damaged`);
  }
  t.ok(kept > 10 && kept < 25, `${kept} prompts of 80 kB in 2 MiB`);
  prompts.keep(7, 'huge', prompt(200_000));
  t.equal(prompts.find(7, 'huge'), null, 'a prompt that takes most of the memory is not kept');
});

t.test('more prompts than there are records: the newest are kept', async (t) => {
  const { prompts } = memory();
  for (let at = 0; at < 5_000; at++) prompts.keep(at, 'id', prompt(2, at));
  t.equal(prompts.find(100, 'id'), null);
  t.same(prompts.find(4_999, 'id'), prompt(2, 4_999));
  t.same(prompts.find(1_000, 'id'), prompt(2, 1_000));
});

t.test('a thread that died while it held the lock blocks the others only for a while', async (t) => {
  let now = 100;
  const { prompts, buffer } = memory(() => now);
  prompts.keep(1, 'id', prompt(3));
  const header = new Int32Array(buffer);
  header[0] = ticketOf(now, 7); // the lock
  t.equal(prompts.find(1, 'id'), null);
  prompts.keep(1, 'next', prompt(4)); // is not kept, but does not block
  header[0] = 0;
  t.same(prompts.find(1, 'id'), prompt(3), 'the holder was alive, so nothing was cleared');
  t.equal(prompts.find(1, 'next'), null);
  header[0] = ticketOf(now, 7);
  now += 11;
  t.equal(prompts.find(1, 'id'), null, 'the memory was cleared, because its state is unknown');
  prompts.keep(1, 'id', prompt(5));
  t.same(prompts.find(1, 'id'), prompt(5));
});
