import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import t from 'tap';
import { didYouMean } from '../../src/config/did-you-mean.js';
import { settingsHelp, settingsMarkdown, settingsSummary } from '../../src/config/help.js';
import { home } from '../../src/config/home.js';
import { configWith, loadConfig } from '../../src/config/load.js';
import { declared } from '../../src/config/settings.js';

const empty = mkdtempSync(join(tmpdir(), 'monolith-config-'));
t.teardown(() => rmSync(empty, { recursive: true, force: true }));
const base = { MONOLITH_DATA_DIR: empty };
const load = (argv: string[], env: Record<string, string> = {}): ReturnType<typeof loadConfig> =>
  loadConfig({ argv, env: { ...base, ...env } });

const problem = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  return 'accepted';
};

t.test('a flag wins over a variable, a variable over the file, the file over the default', (t) => {
  const file = join(empty, 'some.json');
  writeFileSync(file, JSON.stringify({ port: 1, host: 'file', http: { keepalive_ms: 1000 }, 'engine.queue_max': 7 }));
  t.equal(load([]).config.port, 8080);
  t.equal(load(['--config', file]).config.port, 1);
  t.equal(load(['--config', file], { MONOLITH_PORT: '2' }).config.port, 2);
  t.equal(load(['--config', file, '--port', '3'], { MONOLITH_PORT: '2' }).config.port, 3);
  const { config } = load([], { MONOLITH_CONFIG: file });
  t.match(config, { host: 'file', http: { keepalive_ms: 1000 }, engine: { queue_max: 7, queue_wait_ms: 30_000 } });
  writeFileSync(join(empty, 'config.json'), '{"port": 4}');
  t.equal(load([]).config.port, 4, 'config.json in the data directory');
  rmSync(join(empty, 'config.json'));
  t.end();
});

t.test('records the source of each explicit setting', (t) => {
  const file = join(empty, 'given.json');
  writeFileSync(file, JSON.stringify({ engine: { queue_max: 7, step_ms: 1 }, port: 1 }));
  const { given } = load(['--config', file, '--threads', '2', '--port', '3'], { MONOLITH_ENGINE_STEP_MS: '9' }).config;
  t.same(given, {
    data_dir: 'MONOLITH_DATA_DIR',
    port: '--port',
    'engine.threads': '--threads',
    'engine.step_ms': 'MONOLITH_ENGINE_STEP_MS',
    'engine.queue_max': `${file}: engine.queue_max`,
  });
  t.end();
});

t.test('a variable that nearly matches a setting is an error, and other unknown variables are reported', (t) => {
  for (const [name, meant] of [
    ['MONOLITH_PROT', 'MONOLITH_PORT'],
    ['MONOLITH_PORTS', 'MONOLITH_PORT'],
    ['MONOLITH_API_KEYS', 'MONOLITH_API_KEY'],
    ['MONOLITH_HTTP_KEEPALIVE', 'MONOLITH_HTTP_KEEPALIVE_MS'],
  ] as const) {
    const far = name === 'MONOLITH_HTTP_KEEPALIVE'; // three letters
    const result = problem(() => load([], { [name]: '1' }));
    t.equal(result, far ? 'accepted' : `${name}: unknown setting. Did you mean ${meant}?`);
  }
  const others = {
    MONOLITH_KEY: 'sk-1',
    MONOLITH_URL: 'http://h',
    MONOLITH_TEST_MAIN: 'x',
    MONOLITH_BUILD_CUDA: '1',
    MONOLITH_CONFIG: '',
    MONOLITH_SERVICE_HOST: '10.0.0.1',
    MONOLITH_SERVICE_PORT: '8080',
    MONOLITH_SERVICE_PORT_HTTP: '8080',
    MONOLITH_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
    MONOLITH_PORT_8080_TCP_ADDR: '10.0.0.1',
    MONOLITH_SPORT_SERVICE_HOST: '10.0.0.1',
    MONOLITH_SPORT_PORT: 'tcp://10.0.0.1:8080',
    MONOLITH_PROT: '', // in shells and Compose files, empty means not set
  };
  t.same(load([], others).unknown, []);
  t.same(load([], { ...others, MONOLITH_TAG: 'v1', MONOLITH_COLOR: 'blue' }).unknown, [
    'MONOLITH_COLOR',
    'MONOLITH_TAG',
  ]);
  t.end();
});

t.test('parses every form of a value', (t) => {
  t.equal(load(['--http-max-body-bytes', '2MiB']).config.http.max_body_bytes, 2_097_152);
  t.equal(load(['--http-max-body-bytes=1_000_000']).config.http.max_body_bytes, 1_000_000);
  t.equal(load(['--kv-bytes', '1.5GiB']).config.engine.kv_bytes, 1_610_612_736);
  t.equal(load([], { MONOLITH_ENGINE_KV_BYTES: '1g' }).config.engine.kv_bytes, 1_073_741_824);
  t.equal(load([], { MONOLITH_KV_BYTES: '2g' }).config.engine.kv_bytes, 2_147_483_648, 'the short name');
  t.equal(load(['--limits-rpm', 'off']).config.limits.rpm, null);
  t.same(load(['--http-cors-origins', 'a, b']).config.http.cors_origins, ['a', 'b']);
  t.equal(load(['--no-engine-prefix-cache']).config.engine.prefix_cache, false);
  t.equal(load(['--engine-prefix-cache', 'off']).config.engine.prefix_cache, false);
  t.equal(load(['--metrics-public']).config.metrics.public, true);
  t.equal(load(['--metrics-public', '--port', '1']).config.port, 1, 'a bare flag takes no value');
  t.equal(load(['--metrics-public=off']).config.metrics.public, false);
  t.same(load(['--model', 'a=x.gguf', '--model', 'b=/y=z.gguf']).config.model, [
    { name: 'a', path: resolve('x.gguf') },
    { name: 'b', path: '/y=z.gguf' },
  ]);
  t.same(load([], { MONOLITH_MODEL: 'a=/x,b=/y' }).config.model.length, 2);
  t.same(configWith({ model: { a: '/x' } }).model, [{ name: 'a', path: '/x' }]);
  t.same(load(['--adapter', 'a=x.gguf', '--adapter', 'm:b=/y:z:-0.5', '--adapter', 'c=/d:1']).config.adapter, [
    { name: 'a', path: resolve('x.gguf'), scale: 1 },
    { name: 'm:b', path: '/y:z', scale: -0.5 },
    { name: 'c', path: '/d', scale: 1 },
  ]);
  t.same(load(['--models', '{"m":{"adapters":{"a":"/x","b":{"path":"/y","scale":2}}}}']).config.models.overrides, {
    m: { adapters: { a: { path: '/x' }, b: { path: '/y', scale: 2 } } },
  });
  t.same(configWith({ limits: { org_abc: { 'hal-1.0': { rpm: null } }, rpm: 5 } }).limits.overrides, {
    org_abc: { 'hal-1.0': { rpm: null } },
  });
  t.same(load(['--models', '{"hal-1.0":{"context_window":10}}']).config.models, {
    aliases: {},
    overrides: { 'hal-1.0': { context_window: 10 } },
  });
  t.same(load(['--models', '{"aliases":{"gpt-4o":"hal-1.0"}}']).config.models, {
    aliases: { 'gpt-4o': 'hal-1.0' },
    overrides: {},
  });
  t.same(load(['chat', '--port', '1', '--', '--x']).own.words, ['chat', '--x']);
  t.equal(load([], { MONOLITH_PORT: '' }).config.port, 8080, 'an empty variable counts as unset');
  t.end();
});

t.test('an error names the source of the value and what was expected', (t) => {
  const bad = join(empty, 'bad.json');
  const message = problem;
  t.match(
    message(() => load([], { MONOLITH_PORT: 'x' })),
    /^MONOLITH_PORT: must be a whole number from 0 to 65,535; got "x"\.$/,
  );
  t.match(
    message(() => load(['--port', '70000'])),
    /^--port: must be/,
  );
  t.match(
    message(() => load(['--port'])),
    /^--port: requires a value\.$/,
  );
  t.match(
    message(() => load(['--port', '--host', '::'])),
    /^--port: requires a value\.$/,
  );
  t.match(
    message(() => load(['--port', '1', '--port=2'])),
    /^--port: must not be repeated\.$/,
  );
  t.match(
    message(() => load(['--kv-bytes', '1g', '--engine-kv-bytes', '2g'])),
    /^--engine-kv-bytes: cannot be combined with --kv-bytes, which sets the same value\.$/,
  );
  t.match(
    message(() => load(['--metrics-public', '--no-metrics-public'])),
    /^--no-metrics-public: cannot be combined with --metrics-public, /,
  );
  t.match(
    message(() => load(['--no-metrics-public=x'])),
    /^--no-metrics-public: does not take a value\.$/,
  );
  t.match(
    message(() => load(['--prot', '1'])),
    /^--prot: unknown flag\. Did you mean --port\?$/,
  );
  t.match(
    message(() => load(['--model', 'nofile'])),
    /^--model: .*NAME=PATH/,
  );
  t.match(
    message(() => load(['--model', 'nofile'])),
    / An entry has no "="\.$/,
  );
  t.match(
    message(() => load(['--model', 'a=/x', '--model', 'b='])),
    / An entry has no source after "="\.$/,
  );
  t.match(
    message(() => load(['--model', 'a b=/x'])),
    / "a b" is not a valid model name: /,
  );
  t.match(
    message(() => load(['--model', 'a=/x', '--model', 'b=/x', '--model', 'a=/y'])),
    / The model name a is used twice\.$/,
  );
  t.match(
    message(() => load(['--adapter', 'nofile'])),
    /^--adapter: must be NAME=PATH .* An entry has no "="\.$/,
  );
  t.match(
    message(() => load(['--adapter', 'a=/x', '--adapter', 'a=/y'])),
    / The adapter name a is used twice\.$/,
  );
  t.match(
    message(() => load(['--adapter', 'm:a b=/x'])),
    / "m:a b" is not a valid adapter name: /,
  );
  t.match(
    message(() => load(['--adapter', 'a=/x:101'])),
    / The scale 101 is not between -100 and 100\.$/,
  );
  t.match(
    message(() => load(['--models', '{"m":{"adapters":{"a:b":"/x"}}}'])),
    /m\.adapters/,
  );
  t.match(
    message(() => load(['--models', '{"x":'])),
    /^--models: must be a JSON object: .* The value is not valid JSON\.$/,
  );
  t.match(
    message(() => load(['--kv-bytes', '-1'])),
    /^--kv-bytes: must be a size/,
  );
  t.match(
    message(() => load(['--isa', 'mmx'])),
    /one of auto, plain, avx2, avx_vnni, avx512, amx, neon, neon_i8mm/,
  );
  t.match(
    message(() => load(['--models', '{"a": {"quantize": "q3"}}'])),
    /^--models: a\.quantize: .*"q8_0".*"fp8"\.$/,
    'inside an object: the path and the accepted values',
  );
  const secret = message(() => load([], { MONOLITH_API_KEY: 'short' }));
  t.match(secret, /8 to 256 characters/);
  t.notMatch(secret, /short/, 'the message does not contain the key');
  for (const [text, expected] of [
    ['{', /bad\.json: is not valid JSON/],
    ['[]', /one JSON object/],
    ['{"http": 1}', /bad\.json: http: unknown setting/],
    ['{"http": {"keepalive": 1}}', /bad\.json: http\.keepalive: unknown setting\. Did you mean http\.keepalive_ms\?/],
    ['{"limits": {"org_a": {"m": {"rpn": 1}}}}', /limits/],
  ] as const) {
    writeFileSync(bad, text);
    t.match(
      message(() => load(['--config', bad])),
      expected,
    );
  }
  t.match(
    message(() => load(['--config', join(empty, 'absent.json')])),
    /absent\.json: cannot read the file \(ENOENT\)/,
  );
  t.equal(didYouMean('--zzzzzzzz', ['--port']), '');
  t.end();
});

t.test('the URL of a search service has the query after its host', (t) => {
  const url = 'http://user:pass@10.0.0.1:8888/search?q={query}&format=json';
  const { web_search } = load(['--tools-web-search-url', url]).config.tools;
  t.same(web_search, { url, results: 5, timeout_ms: 10_000 });
  t.equal(load(['--tools-web-search-url', 'off']).config.tools.web_search.url, null);
  for (const wrong of [
    'http://127.0.0.1/search?q=x',
    'ftp://127.0.0.1/{query}',
    'http://{query}/search',
    'http://{query}@127.0.0.1/search',
    'http://127.0.0.1:{query}/search',
    'http://127.0.0.1/search#{query}',
    '/search?q={query}',
  ]) {
    const message = problem(() => load(['--tools-web-search-url', wrong]));
    t.match(message, /contains \{query\} in its path or query/, wrong);
    t.notOk(message.includes(wrong), 'the URL may contain a key');
  }
  t.end();
});

t.test('a former name works as a flag, a variable and a key, and is reported once', (t) => {
  const file = join(empty, 'former.json');
  const write = (content: object): string[] => {
    writeFileSync(file, JSON.stringify(content));
    return ['--config', file];
  };
  const byFlag = load(['--counters-url', 'redis://b', '--limits-loop-ms', '7']);
  t.match(byFlag.config, { redis: { url: 'redis://b' }, limits: { event_loop_ms: 7 } });
  t.same(byFlag.renamed, [
    { old: 'counters.url', new: 'redis.url', source: '--counters-url' },
    { old: 'limits.loop_ms', new: 'limits.event_loop_ms', source: '--limits-loop-ms' },
  ]);
  t.equal(byFlag.config.given['redis.url'], '--counters-url');

  const byVariable = load([], { MONOLITH_COUNTERS_AWAY: 'refuse', MONOLITH_STATE_AWAY_S: '5', MONOLITH_STATE_URL: '' });
  t.match(byVariable.config, {
    redis: { when_unavailable: 'refuse' },
    database: { stale_keys_s: 5, url: null },
  });
  t.same(byVariable.renamed, [
    { old: 'counters.away', new: 'redis.when_unavailable', source: 'MONOLITH_COUNTERS_AWAY' },
    { old: 'state.away_s', new: 'database.stale_keys_s', source: 'MONOLITH_STATE_AWAY_S' },
  ]);

  const byKey = load(
    write({ state: { connections: 3, timeout_ms: 200 }, 'counters.prefix': 'p', limits: { loop_ms: 9 } }),
  );
  t.match(byKey.config, {
    database: { connections: 3, timeout_ms: 200 },
    redis: { prefix: 'p' },
    limits: { event_loop_ms: 9 },
  });
  t.same(
    byKey.renamed.map((one) => [one.old, one.new, one.source]),
    [
      ['state.connections', 'database.connections', `${file}: state.connections`],
      ['state.timeout_ms', 'database.timeout_ms', `${file}: state.timeout_ms`],
      ['counters.prefix', 'redis.prefix', `${file}: counters.prefix`],
      ['limits.loop_ms', 'limits.event_loop_ms', `${file}: limits.loop_ms`],
    ],
  );

  const short = load(['--state', 'postgres://db/m'], { MONOLITH_COUNTERS: 'redis://c' });
  t.match(short.config, { database: { url: 'postgres://db/m' }, redis: { url: 'redis://c' } }, 'short names');
  t.equal(short.renamed.length, 2);
  t.same(load(['--database', 'postgres://db/m'], { MONOLITH_REDIS: 'redis://c' }).renamed, [], 'none is reported');
  t.match(
    problem(() => load([], { MONOLITH_COUNTERS_LEASE_MS: '1' })),
    /^MONOLITH_COUNTERS_LEASE_MS: must be a whole number from 500 to/,
  );
  t.end();
});

t.test('a name and its former name: an error within one source, the usual precedence across sources', (t) => {
  for (const [argv, former, current] of [
    [['--redis-url', 'redis://a', '--counters-url', 'redis://b'], '--counters-url', '--redis-url'],
    [['--state', 'postgres://a/b', '--database', 'postgres://a/b'], '--state', '--database'],
  ] as const)
    t.equal(
      problem(() => load([...argv])),
      `${former}: is the former name of ${current}, and both are set. Remove ${former}.`,
    );
  t.equal(
    problem(() => load([], { MONOLITH_REDIS: 'redis://a', MONOLITH_COUNTERS_URL: 'redis://b' })),
    'MONOLITH_COUNTERS_URL: is the former name of MONOLITH_REDIS, and both are set. Remove MONOLITH_COUNTERS_URL.',
  );
  const file = join(empty, 'both.json');
  for (const content of [
    { limits: { loop_ms: 1, event_loop_ms: 2 } },
    { 'limits.event_loop_ms': 2, 'limits.loop_ms': 1 },
  ]) {
    writeFileSync(file, JSON.stringify(content));
    t.equal(
      problem(() => load(['--config', file])),
      `${file}: limits.loop_ms: is the former name of limits.event_loop_ms, and both are set. Remove limits.loop_ms.`,
    );
  }

  writeFileSync(file, JSON.stringify({ limits: { event_loop_ms: 1 } }));
  const formerFlag = load(['--config', file, '--limits-loop-ms', '3'], { MONOLITH_LIMITS_EVENT_LOOP_MS: '2' });
  t.equal(formerFlag.config.limits.event_loop_ms, 3, 'a former flag wins over the variable and the file');
  const formerVariable = load(['--config', file], { MONOLITH_LIMITS_LOOP_MS: '2' });
  t.equal(formerVariable.config.limits.event_loop_ms, 2, 'a former variable wins over the file');
  const unused = load(['--limits-event-loop-ms', '3'], { MONOLITH_LIMITS_LOOP_MS: '2' });
  t.equal(unused.config.limits.event_loop_ms, 3, 'a flag wins over a former variable');
  t.equal(unused.renamed.length, 1, 'the former variable is reported although the flag replaces it');
  t.end();
});

t.test('suggestions, help and the settings page contain no former names', (t) => {
  const file = join(empty, 'unknown.json');
  const unknown = (content: object): string => {
    writeFileSync(file, JSON.stringify(content));
    return problem(() => load(['--config', file]));
  };
  t.match(unknown({ counters: { prefixes: 'x' } }), /unknown\.json: counters\.prefixes: unknown setting\./);
  t.match(unknown({ counters: 'redis://a' }), /unknown\.json: counters: unknown setting\./);
  t.match(unknown({ state: { awy_s: 1 } }), /unknown\.json: state\.awy_s: unknown setting\./);
  t.notMatch(unknown({ counters: { ur: 'x' } }), /Did you mean counters/);
  t.match(unknown({ redis: { when_unavailble: 'x' } }), /Did you mean redis\.when_unavailable\?$/);
  t.match(unknown({ limits: { event_loop: 1 } }), /Did you mean limits\.event_loop_ms\?$/);
  t.match(
    problem(() => load(['--redis-ulr', 'x'])),
    /Did you mean --redis-url\?$/,
  );
  t.equal(problem(() => load(['--counters-ur', 'x'])).includes('--counters-url'), false);
  const pages = [settingsHelp({ all: true }), settingsMarkdown(), settingsSummary()].join('\n');
  const former = declared.flatMap((one) =>
    one.former === null ? [] : [one.former.key, ...one.former.flags, ...one.former.variables],
  );
  t.equal(former.length, 11 * 3 + 2 * 2);
  t.same(
    former.filter((name) => new RegExp(`(^|[^\\w-])${name.replaceAll('.', '\\.')}(?![\\w-])`).test(pages)),
    [],
  );
  t.end();
});

t.test('the result is deeply frozen', (t) => {
  const { config } = load([]);
  t.throws(() => {
    (config as { port: number }).port = 1;
  }, TypeError);
  t.throws(() => {
    (config.http as { keepalive_ms: number }).keepalive_ms = 1;
  }, TypeError);
  t.end();
});

t.test('names are unique and defaults pass validation', (t) => {
  const names = declared
    .flatMap((one) => [
      ...[one.flag, one.variable, one.key, one.aliasFlag, one.aliasVariable],
      ...(one.former === null ? [] : [one.former.key, ...one.former.flags, ...one.former.variables]),
    ])
    .filter((name) => name !== null);
  t.equal(new Set(names).size, names.length);
  for (const one of declared) t.ok(one.setting.kind.schema.safeParse(one.setting.default).success, one.key);
  t.end();
});

t.test('help and the settings page are generated from the declarations', (t) => {
  const all = settingsHelp({ all: true });
  for (const one of declared) t.match(all, one.aliasFlag ?? one.flag);
  t.match(
    all,
    /^Server:\n {2}--host .*\n\nHTTP:\n {2}--http-max-body-bytes .*\n\nRate limits:\n.*\n\nMetrics:\n/s,
    'by section',
  );
  t.notMatch(all, /^[a-z_]+:$/m, 'each section has a name');
  const short = settingsHelp();
  for (const one of declared)
    t.equal(short.includes(`  ${one.aliasFlag ?? one.flag} `), one.setting.main === true, one.key);
  for (const text of [all, short])
    t.ok(
      text.split('\n').every((line) => line.length <= 100),
      'help fits 100 columns',
    );
  t.match(settingsSummary(), /^\| flag \| variable \|.*\n.*\n\| `--host` \| `MONOLITH_HOST` \| 127\.0\.0\.1 \|/);
  const root = resolve(import.meta.dirname, '..', '..', '..');
  t.equal(
    readFileSync(join(root, 'docs', 'reference', 'settings.md'), 'utf8'),
    settingsMarkdown(),
    'docs/reference/settings.md is up to date (npm run docs writes it)',
  );
  t.end();
});

t.test('reads config.json from the data directory, even if it is below ~', (t) => {
  const { HOME } = process.env;
  t.teardown(() => {
    process.env['HOME'] = HOME;
  });
  process.env['HOME'] = empty;
  mkdirSync(join(empty, 'data'));
  writeFileSync(join(empty, 'data', 'config.json'), '{"port": 5}');
  t.match(load(['--data-dir', '~/data']).config, { data_dir: join(empty, 'data'), port: 5 });
  writeFileSync(join(empty, 'some.json'), '{"port": 6}');
  t.equal(load(['--config', '~/some.json']).config.port, 6);
  t.end();
});

t.test(
  'the home directory of a user without a passwd entry is /',
  { skip: process.getuid?.() === 0 ? false : 'only root can change its user ID' },
  (t) => {
    const { HOME } = process.env;
    t.teardown(() => {
      process.seteuid?.(0);
      process.env['HOME'] = HOME;
    });
    t.equal(home(), HOME, 'from $HOME');
    delete process.env['HOME'];
    process.seteuid?.(54_321); // like a systemd dynamic user, or a user ID passed to a container
    t.equal(home(), '/');
    t.equal(load(['--data-dir', '~/x']).config.data_dir, '/x');
    t.end();
  },
);
