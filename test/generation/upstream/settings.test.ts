// Tests the settings of upstream models: which values are accepted and refused, and that keys are never shown.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { configWith, loadConfig } from '../../../src/config/load.js';
import { configuredModels } from '../../../src/server/engine-settings.js';
import { main } from '../../e2e/monolith.js';

const KEY = 'sk-settings-secret-3e81';
const upstreamOf = (upstream: object): object =>
  configWith({ models: { far: { upstream } } }).models.overrides['far']!.upstream!;
const message = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  return '';
};

t.test('accepts one URL, or several servers that inherit unset values', async (t) => {
  t.match(upstreamOf({ url: 'http://127.0.0.1:8000/v1/', key: KEY }), {
    servers: [{ url: 'http://127.0.0.1:8000/v1', api: 'chat-completions', model: null, key: KEY, weight: 1 }],
    fallback: null,
    thinking: 'reasoning_effort',
    structured_outputs: 'json_schema',
  });
  process.env['MONOLITH_TEST_KEY'] = KEY;
  t.match(
    upstreamOf({
      model: 'm',
      key: 'other',
      headers: { a: '1' },
      servers: [
        { url: 'https://a.example/v1', key_variable: 'MONOLITH_TEST_KEY', weight: 3 },
        { url: 'https://b.example/v1', api: 'messages', headers: { b: '2' } },
      ],
    }),
    {
      servers: [
        { model: 'm', key: KEY, weight: 3, api: 'chat-completions', headers: { a: '1' } },
        { model: 'm', key: 'other', weight: 1, api: 'messages', headers: { a: '1', b: '2' } },
      ],
    },
  );
});

t.test('refuses invalid settings with an error that names their path but not the key', async (t) => {
  for (const [upstream, words] of [
    [{ key: KEY }, /far\.upstream\.url: is required, unless servers is set/],
    [{ url: 'http://x/v1', servers: [{ url: 'http://y/v1' }] }, /upstream\.url: is required, unless servers/],
    [{ url: `http://user:${KEY}@host/v1` }, /without user, password/],
    [{ url: 'ftp://host/v1' }, /http or https/],
    [{ url: 'http://x/v1', key: `${KEY}\n` }, /upstream\.key: must contain only visible/],
    [{ url: 'http://x/v1', key: KEY, apu: 'chat' }, /apu/],
    [{ url: 'http://x/v1', key_variable: 'MONOLITH_NOT_SET' }, /the environment variable MONOLITH_NOT_SET is not set/],
  ] as const) {
    for (const told of [
      message(() => upstreamOf(upstream)),
      message(() => loadConfig({ env: { MONOLITH_MODELS: JSON.stringify({ far: { upstream } }) } })),
    ]) {
      t.match(told, words);
      t.notMatch(told, KEY);
    }
  }
  t.notMatch(
    message(() => loadConfig({ env: { MONOLITH_MODELS: `{"far": {"upstream": {"key": "${KEY}"` } })),
    KEY,
    'the key is not shown for invalid JSON',
  );
});

t.test('lists upstream models together with local models', async (t) => {
  const named = configuredModels(
    configWith({
      model: ['far=http://127.0.0.1:8000/v1'],
      models: {
        far: { context_window: 4_096, sampling: { temperature: 0.6 } },
        beside: { upstream: { url: 'http://127.0.0.1:9/v1', images: true } },
      },
    }),
  );
  t.match(named, [
    {
      id: 'far',
      file: '',
      upstream: { servers: [{ url: 'http://127.0.0.1:8000/v1' }] },
      context_window: 4_096,
      sampling: { temperature: 0.6 },
      givenSampling: { temperature: 0.6 },
    },
    { id: 'beside', input_modalities: ['text', 'image'] },
  ]);
  t.equal(
    configuredModels(configWith({ models: { far: { upstream: { url: 'http://x/v1' } } } })).at(-1)!.id,
    'far',
    'upstream models are listed after the built-in ones',
  );
  const fallback = (a: string, b: string): string =>
    message(() =>
      configuredModels(
        configWith({
          models: {
            a: { upstream: { url: 'http://x/v1', fallback: a } },
            b: { upstream: { url: 'http://x/v1', fallback: b } },
          },
        }),
      ),
    );
  t.match(fallback('nobody', 'a'), /"a": upstream\.fallback: "nobody" is not one of/);
  t.match(fallback('b', 'a'), /forms a circular chain/);
  t.match(
    message(() => configWith({ model: ['far=http://user:x@host/v1'] })),
    /NAME=URL of an upstream server/,
  );
});

t.test('`monolith models` shows the upstream URL but no key', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-upstream-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'config.json');
  writeFileSync(
    file,
    JSON.stringify({
      data_dir: folder,
      models: { far: { upstream: { url: 'http://127.0.0.1:8000/v1', key: KEY, headers: { 'x-team': KEY } } } },
    }),
  );
  const { stdout, stderr, status } = spawnSync(process.execPath, [main, 'models', '--json', '--config', file], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
  t.match(
    JSON.parse(stdout).find(({ name }: { name: string }) => name === 'far'),
    {
      served: true,
      problem: null,
      upstream: [{ url: 'http://127.0.0.1:8000/v1', api: 'chat-completions', model: 'far' }],
    },
  );
  t.notMatch(stdout + stderr, KEY);
});
