// Tests a real engine with the worker of its storage tier and real files: when pages are on disk, which pages a
// shutdown writes, and that every import is completed and released.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ORGANIZATION, TieredEngine, type TieredOptions } from '../../../bench/lib/tiered-engine.js';
import { modelOfFile } from '../../../src/engine/catalog.js';
import { LocalProvider } from '../../../src/generation/local/local-provider.js';
import { loadOptions, starterPath, submitOptions } from '../../addon/starter.js';

t.setTimeout(300_000); // the machine may be busy

/**
 * Upper bound for a request that the tier answers immediately. Without the tier's answer, a request would wait for 20
 * seconds.
 */
const PROMPTLY_MS = 10_000;
const TOKENS = 400;
const PAGES = Math.floor(TOKENS / 16);

const promptOf = (seed: number): Int32Array =>
  Int32Array.from({ length: TOKENS }, (_, i) => 3 + ((i * 37 + seed * 11 * (i % 7)) % 90));
const requestOf = (seed: number) => submitOptions(promptOf(seed), { maxTokens: 1, ignoreEos: true });

function folderOf(test: Pick<typeof t, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'kv-engine-'));
  test.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const opened = (folder: string, more: Partial<TieredOptions> = {}): Promise<TieredEngine> =>
  TieredEngine.open({ model: starterPath, load: loadOptions, folder, ...more });

/** Creates a folder that contains the pages of promptOf(1). */
async function filled(test: Pick<typeof t, 'teardown'>): Promise<string> {
  const folder = folderOf(test);
  const first = await opened(folder);
  await first.answer(requestOf(1));
  await first.close();
  return folder;
}

t.test('a page is on disk within a second of the end of its request', async (t) => {
  const tiered = await opened(folderOf(t));
  const times: number[] = [];
  for (let seed = 1; seed <= 3; seed++) {
    const before = (await tiered.report())!.counts.written;
    await tiered.answer(requestOf(seed));
    const from = performance.now();
    while ((await tiered.report())!.counts.written === before) await sleep(5);
    times.push(performance.now() - from);
  }
  t.equal((await tiered.report())!.counts.written, 3 * PAGES);
  t.ok(Math.min(...times) < 1_000, `${times.map(Math.round)} ms`);
  await tiered.close();
});

t.test('pages above the backlog are counted as skipped', async (t) => {
  const tiered = await opened(folderOf(t), { backlogBytes: 1 });
  await tiered.answer(requestOf(1));
  await tiered.written();
  const { skippedPages, counts } = (await tiered.report())!;
  t.ok(skippedPages > 0);
  t.equal(skippedPages + counts.written, PAGES);
  await tiered.close();
});

t.test('unloading writes what remains', async (t) => {
  const again = await opened(await filled(t)); // the engine was closed immediately after its response
  const read = await again.read(promptOf(1));
  t.equal(read.tokens, 16 * Math.floor((TOKENS - 1) / 16));
  read.release();
  await again.close();
});

t.test('KV pages are not read from disk if computing them is expected to be faster', async (t) => {
  const folder = await filled(t);
  const path = join(folder, 'engines.json');
  const engines = JSON.parse(readFileSync(path, 'utf8')) as Record<string, { tokenMs: number }>;
  for (const engine of Object.values(engines)) engine.tokenMs = 1e-6;
  writeFileSync(path, JSON.stringify(engines));
  const again = await opened(folder);
  const read = await again.read(promptOf(1));
  t.match(read, { tokens: 0, miss: { reason: 'faster to compute' } });
  t.equal((await again.answer(requestOf(1))).tokens.length, 1);
  t.match(await again.read(promptOf(1)), { tokens: 0, miss: { reason: 'in memory' } });
  await again.close();
});

t.test('unloading without time to write drops what remains', async (t) => {
  const folder = folderOf(t);
  const first = await opened(folder);
  for (let seed = 1; seed <= 6; seed++) await first.answer(requestOf(seed));
  const from = performance.now();
  await first.tier!.detach(first.name, 0);
  t.ok(performance.now() - from < PROMPTLY_MS);
  const { counts } = (await first.report())!;
  await first.close();
  const again = await opened(folder);
  let found = 0;
  for (let seed = 1; seed <= 6; seed++) {
    const { tokens, release } = await again.read(promptOf(seed), seed);
    found += tokens / 16;
    release();
  }
  t.ok(found <= counts.written, 'pages that were not written are not found');
  await again.close();
});

t.test('a hundred concurrent imports all complete', async (t) => {
  const again = await opened(await filled(t));
  const from = performance.now();
  const reads = await Promise.all(Array.from({ length: 100 }, (_, i) => again.read(promptOf(1), 2 + i)));
  t.ok(performance.now() - from < PROMPTLY_MS);
  t.ok(reads.some(({ tokens }) => tokens > 0));
  for (const { tokens, miss } of reads) if (tokens === 0) t.equal(miss?.reason, 'no room');
  for (const { release } of reads) release();
  const last = await again.read(promptOf(1), 200);
  t.ok(last.tokens > 0, 'released imports make room');
  last.release();
  await again.close();
});

t.test('imports that are never released do not stop others', async (t) => {
  const again = await opened(await filled(t));
  const from = performance.now();
  const reasons = new Set<string | undefined>();
  for (let i = 0; i < 70; i++) reasons.add((await again.read(promptOf(1), 2 + i)).miss?.reason);
  t.ok(performance.now() - from < PROMPTLY_MS);
  t.ok(reasons.has('no room'), 'at most 64 imports are open');
  const answer = await again.answer(requestOf(2));
  t.equal(answer.tokens.length, 1);
  await again.close();
});

t.test("every import that waits for an organization's key completes", async (t) => {
  const folder = await filled(t);
  let give = (): void => undefined;
  const isGiven = new Promise<void>((resolve) => (give = resolve));
  let asked = 0;
  const again = await opened(folder, {
    keyOf: async () => {
      asked++;
      await isGiven;
      return Buffer.alloc(32, 1);
    },
  });
  const first = again.read(promptOf(1), 2);
  while (asked < 1) await sleep(5);
  again.client!.eraseOrganization('org_other'); // so that the next question has been taken
  again.client!.eraseOrganization(ORGANIZATION); // makes the worker forget the organization's key
  const second = again.read(promptOf(1), 3);
  await sleep(50);
  const from = performance.now();
  give();
  await Promise.all([first, second]);
  t.ok(performance.now() - from < PROMPTLY_MS);
  await again.close();
});

t.test('discarding a prepared request releases its import', async (t) => {
  const folder = folderOf(t);
  const first = await opened(folder);
  const limits = {
    queueWaitMs: 10_000,
    maxGenerationMs: 60_000,
    grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
    images: { perImage: 1_000, perRequest: 10_000 },
  } as const;
  const providerOf = (tiered: TieredEngine): LocalProvider => {
    tiered.engine.tier = { client: tiered.client!, key: tiered.name };
    return new LocalProvider(tiered.engine, modelOfFile('m', starterPath), limits);
  };
  const request = {
    model: 'm',
    messages: [{ role: 'user' as const, content: 'Why is the sky blue? '.repeat(12) }],
    continueFinal: false,
    sampling: { temperature: 0 },
    n: 1,
    maxTokens: 1,
    stop: [],
    topLogprobs: null,
    effort: 'none' as const,
    reasoningBudget: null,
    tools: [],
    toolChoice: { mode: 'none' as const, allowed: null },
    parallelToolCalls: true,
    format: { type: 'text' as const },
    truncation: 'disabled' as const,
    promptParam: 'messages' as const,
    ignoreEos: false,
  };
  const prepared = await providerOf(first).prepare(request, { organization: 1, organizationId: ORGANIZATION });
  await new Promise<void>((resolve) => {
    prepared.start((event) => {
      if (event.type === 'finished' || event.type === 'failed') resolve();
    });
  });
  await first.close();

  const again = await opened(folder);
  const provider = providerOf(again);
  for (let i = 0; i < 80; i++) {
    const waiting = await provider.prepare(request, { organization: 2 + i, organizationId: ORGANIZATION });
    waiting.discard!();
  }
  const { hits, misses } = (await again.report())!;
  t.same([hits, misses], [80, 0], 'at most 64 imports can be open');
  await again.close();
});
