// Tests options.arithmetic: what `fast` requires, how settings select it, and that its results are close to `exact`.
import t, { type Test } from 'tap';
import { loadConfig } from '../../src/config/load.js';
import type { LoadOptions } from '../../src/engine/addon-types.js';
import { Engine } from '../../src/engine/engine.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { modelOfFile } from '../../src/engine/catalog.js';
import { LocalProvider } from '../../src/generation/local/local-provider.js';
import { generationLimits, loadOptions as loadOptionsOf } from '../../src/server/engine-settings.js';
import { loadOptions, plainText, starterPath, submitOptions } from './starter.js';

const addon = loadAddon();
const hasAmx = addon.isas.includes('amx');
const fast = { arithmetic: 'fast', batchInvariant: false } as const;
const configOf = (t: Test, ...argv: string[]): ReturnType<typeof loadConfig>['config'] =>
  loadConfig({ argv: ['--data-dir', t.testdir(), ...argv], env: {} }).config;

async function load(t: Test, more: Partial<LoadOptions>): Promise<Engine> {
  const options = { ...loadOptions, maxBatchTokens: 256, ...more };
  const engine = new Engine(await addon.load(JSON.stringify(more), starterPath, options, () => {}), options);
  t.teardown(() => engine.close());
  return engine;
}

t.test('arithmetic fast is refused without AMX, and together with batch invariance', async (t) => {
  const refused = (more: Partial<LoadOptions>): Promise<unknown> =>
    addon.load('refused', starterPath, { ...loadOptions, ...more }, () => {});
  await t.rejects(refused({ ...fast, isa: 'plain' }), {
    code: 'unsupported',
    message: /engine\.arithmetic fast requires AMX .* the kernels in use are plain/,
  });
  await t.rejects(refused({ arithmetic: 'fast' }), {
    code: 'invalid_argument',
    message: /engine\.arithmetic fast .* so engine\.batch_invariant cannot be true/,
  });
  if (!hasAmx) await t.rejects(refused(fast), { code: 'unsupported', message: /requires AMX/ });
});

t.test('engine.arithmetic fast changes the default of engine.batch_invariant, not an explicit value', (t) => {
  t.match(loadOptionsOf(configOf(t)), { arithmetic: 'production', batchInvariant: true });
  t.match(loadOptionsOf(configOf(t, '--arithmetic', 'fast')), { arithmetic: 'fast', batchInvariant: false });
  const both = configOf(t, '--arithmetic', 'fast', '--engine-batch-invariant', 'true');
  t.equal(loadOptionsOf(both).batchInvariant, true, 'which the engine refuses');
  t.equal(loadOptionsOf(configOf(t, '--engine-batch-invariant', 'false')).batchInvariant, false);
  t.end();
});

t.test('every option that affects results changes the fingerprint', async (t) => {
  const limits = generationLimits(configOf(t));
  const fingerprint = async (more: Partial<LoadOptions>): Promise<string> =>
    new LocalProvider(await load(t, more), modelOfFile('m', starterPath), limits).fingerprint;
  const all = [
    await fingerprint({}),
    await fingerprint({ kvType: 'q8_0' }),
    await fingerprint({ kvType: 'q5_0' }),
    await fingerprint({ kvType: 'q4_0' }),
    await fingerprint({ arithmetic: 'exact' }),
    await fingerprint({ isa: 'plain' }),
    ...(hasAmx ? [await fingerprint(fast)] : []),
  ];
  t.equal(new Set(all).size, all.length);
  t.equal(await fingerprint({ threads: 2 }), all[0], 'the number of threads does not affect results');
});

t.test('arithmetic fast computes nearly the same as exact', { skip: !hasAmx && 'no AMX' }, async (t) => {
  const text = 'The planets move around the sun, and each of them has its own path. ';
  /** The log probabilities of the most likely next tokens, after prompts that end in different places. */
  const nextTokens = async (more: Partial<LoadOptions>): Promise<Map<string, number>> => {
    const engine = await load(t, more);
    const found = new Map<string, number>();
    for (let end = 1; end <= text.length; end += 6) {
      const prompt = await engine.tokenize(text.repeat(12) + text.slice(0, end), plainText);
      t.ok(prompt.length >= 128, 'long enough for the fast kernels');
      await new Promise<void>((resolve, reject) => {
        const options = submitOptions(prompt, { maxTokens: 1, topLogprobs: 20, prefixCache: false });
        engine.generate(options, (event) => {
          if (event.type === 'text')
            for (const { token, logprob } of event.logprobs?.[0]?.top ?? []) found.set(`${end} ${token}`, logprob);
          if (event.type === 'failed') reject(new Error(event.message));
          if (event.type === 'finished') resolve();
        });
      });
    }
    return found;
  };
  const exact = await nextTokens({ arithmetic: 'exact', kvType: 'f32' });
  t.ok(exact.size > 100);
  const distance = async (more: Partial<LoadOptions>): Promise<number> => {
    const other = await nextTokens(more);
    const common = [...exact].filter(([key]) => other.has(key));
    t.ok(common.length > 0.8 * exact.size, 'the same tokens are the most likely');
    return Math.sqrt(
      common.reduce((sum, [key, value]) => sum + (value - (other.get(key) ?? 0)) ** 2, 0) / common.length,
    );
  };
  const production = await distance({});
  const quick = await distance(fast);
  t.comment(`RMS distance of log probabilities to exact: production ${production}, fast ${quick}`);
  t.ok(quick > 0 && quick !== production, 'the fast kernels are used');
  t.ok(quick < 1.5 * production);
});
