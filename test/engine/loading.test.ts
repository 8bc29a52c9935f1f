// Tests the log lines written while a model is being loaded: first the file and its size, then the progress, then the
// result.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import { makeModel } from '../../bench/make-model.js';
import { modelOfFile, readCatalog } from '../../src/engine/catalog.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { logLoading } from '../../src/engine/loading.js';
import { ModelPool } from '../../src/engine/model-pool.js';
import type { Log } from '../../src/telemetry/types.js';
import { embeddedModel } from '../e2e/monolith.js';
import { loadOptions } from '../addon/starter.js';

t.test('loading a model logs its file, progress and result', async (t) => {
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  pool.add(modelOfFile('mine', embeddedModel));
  const lines: [Record<string, unknown>, string][] = [];
  const info = (fields: Record<string, unknown>, message: string): void => {
    lines.push([fields, message]);
  };
  const warnings: string[] = [];
  const warn = (_: object, message: string): void => void warnings.push(message);
  const seen: number[] = [];
  const told = logLoading(pool, { info, warn } as unknown as Log, {
    onLoading: ({ progress }) => seen.push(progress),
    everyMs: 1,
    maxContext: 32_768,
  });
  t.match(
    lines,
    [
      [
        { file: embeddedModel, models: 'mine', bytes: statSync(embeddedModel).size },
        /^loading starter-q8_0\.gguf, [\d.]+ MiB$/,
      ],
    ],
    'the first log line names the file and its size',
  );
  await told;
  t.match(lines.at(-1), [{ models: 'mine', context: 512 }, 'model loaded']);
  const between = lines.slice(1, -1);
  t.ok(between.length > 0);
  t.ok(
    between.every(
      ([{ percent }, message]) =>
        typeof percent === 'number' &&
        percent >= 0 &&
        percent <= 100 &&
        message ===
          `loading starter-q8_0.gguf, ${percent < 100 ? `${percent} %` : 'weights read, allocating the KV cache'}`,
    ),
  );
  t.equal(seen.length, lines.length - 1);
  t.same(warnings, [
    'max_context is 32768, but mine has a context of 512 tokens: this is the maximum in the model file',
  ]);
});

t.test('the bytes of weights in huge pages are logged when they are known', async (t) => {
  const path = join(t.testdir(), 'huge.gguf');
  // Each matrix of the feed-forward layers takes 8 MiB.
  const shape = { embedding: 1_024, feedForward: 8_192, layers: 1, heads: 8, kvHeads: 8, headSize: 128 };
  await makeModel({ preset: 'tiny', type: 'q8_0', shape, out: path });
  const pool = new ModelPool(loadOptions);
  t.teardown(() => pool.close());
  pool.add(modelOfFile('huge', path));
  const lines: [Record<string, unknown>, string][] = [];
  const info = (fields: Record<string, unknown>, message: string): void => {
    lines.push([fields, message]);
  };
  await logLoading(pool, { info } as unknown as Log, { everyMs: 1 });
  const loaded = lines.find(([, message]) => message === 'model loaded');
  t.notHas(loaded?.[0], { huge_page_bytes: Number }, 'loading does not wait for huge pages');
  const status = pool.get('huge')?.status;
  if (status?.state !== 'ready') return t.fail('the model is ready');
  const { engine } = status;
  while (engine.stats().hugePageBytes === null) await setTimeout(1);
  const bytes = engine.stats().hugePageBytes;
  await setTimeout(100);
  const line = lines.find(([, message]) => message === 'weights in huge pages');
  // The kernel may have no free huge pages.
  if (bytes === 0) return t.equal(line, undefined);
  t.match(line?.[0], { models: 'huge', huge_page_bytes: bytes, weight_bytes: engine.plan.weightBytes });
  return t.end();
});

const skip = loadAddon().isas.includes('amx') ? false : 'no AMX';
t.test('the log reports once for all models that results depend on the batch', { skip }, async (t) => {
  const pool = new ModelPool({ ...loadOptions, arithmetic: 'fast', batchInvariant: false });
  t.teardown(() => pool.close());
  for (const model of readCatalog().slice(0, 3)) pool.add(model);
  const lines: string[] = [];
  const info = (_: object, message: string): void => void lines.push(message);
  await logLoading(pool, { info } as unknown as Log);
  t.equal(lines.filter((line) => line === 'model loaded').length, 3);
  t.equal(lines.filter((line) => line.startsWith('engine.arithmetic is fast: ')).length, 1);
});
