// Checks that the files in deploy/ agree with the server: the settings, paths and ports that they name exist, the
// chart's values are used, and the server provides the metrics that the Gateway API inference extension's endpoint
// picker reads, in the expected form.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { declared } from '../../src/config/settings.js';
import { startScripted } from '../support/script-model.js';
import { root } from '../e2e/monolith.js';

const exec = promisify(execFile);
const read = (path: string): string => readFileSync(join(root, 'deploy', path), 'utf8');
const files = readdirSync(join(root, 'deploy'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  /\.(ya?ml|cfg|tpl)$/.test(name),
);
const all = files.map(read).join('\n');

t.test('environment variables are settings', async (t) => {
  const known = new Set<string | null>(
    declared.flatMap(({ variable, aliasVariable, others }) => [variable, aliasVariable, ...others]),
  );
  const named: string[] = [...new Set(all.match(/\bMONOLITH_[A-Z_]*[A-Z]\b/g))].filter(
    (name) => name !== 'MONOLITH_IMAGE',
  );
  t.ok(named.length > 5);
  t.same(
    named.filter((name) => !known.has(name)),
    [],
  );
});

t.test('every chart value is used, and every used value exists', async (t) => {
  const folder = join('helm', 'monolith');
  const used = new Set(
    [
      ...files
        .filter((name) => name.startsWith(join(folder, 'templates')))
        .map(read)
        .join('\n')
        .matchAll(/\.Values\.([A-Za-z.]+)/g),
    ].map(([, name]) => name!),
  );
  const set = new Set<string>();
  let parent = '';
  for (const line of read(join(folder, 'values.yaml')).split('\n')) {
    const [, indent, name, value] = /^( *)([A-Za-z]+):(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    if (indent === '') parent = name;
    if (value!.trim() !== '') set.add(indent === '' ? name : `${parent}.${name}`);
  }
  t.same([...used].sort(), [...set].sort());
  // This schema makes Helm refuse any other value.
  interface Part {
    readonly properties?: Readonly<Record<string, Part>>;
    readonly additionalProperties?: unknown;
  }
  const schema = JSON.parse(read(join(folder, 'values.schema.json'))) as Part;
  t.equal(schema.additionalProperties, false);
  const taken = Object.entries(schema.properties ?? {}).flatMap(([name, { properties }]) =>
    properties === undefined ? [name] : Object.keys(properties).map((inner) => `${name}.${inner}`),
  );
  t.same(taken.filter((name) => name !== 'global').sort(), [...set].sort());
});

t.test('the chart has the version of the server', (t) => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  t.match(read(join('helm', 'monolith', 'Chart.yaml')), `appVersion: "${version}"`);
  t.end();
});

/** Values for the chart, and the kinds of Kubernetes objects that the chart renders from them. */
const charts: readonly [values: string[], kinds: string[]][] = [
  [['apiKey=sk-12345678'], ['Deployment', 'PersistentVolumeClaim', 'Secret', 'Service', 'ServiceAccount']],
  [
    ['existingSecret=mine', 'shared=true', 'replicas=3', 'autoscaling.enabled=true', 'serviceAccount.create=false'],
    ['Deployment', 'HorizontalPodAutoscaler', 'PodDisruptionBudget', 'Service'],
  ],
  [
    [
      'existingSecret=mine',
      'modelCache.enabled=true',
      'data.existingClaim=mine',
      'ingress.enabled=true',
      'ingress.host=models.example.com',
      'serviceMonitor.enabled=true',
    ],
    ['Deployment', 'Ingress', 'PersistentVolumeClaim', 'Service', 'ServiceAccount', 'ServiceMonitor'],
  ],
];

const isHelmMissing = (await exec('helm', ['version']).catch(() => null)) === null;
const skip = isHelmMissing && 'helm is not installed: the templates are not rendered';

t.test('the chart creates the objects that its values select', { skip }, async (t) => {
  const helm = (values: string[]): Promise<{ stdout: string }> =>
    exec('helm', ['template', 'monolith', join(root, 'deploy', 'helm', 'monolith'), '--set', values.join(',')]);
  for (const [values, kinds] of charts) {
    const { stdout } = await helm(values);
    t.same([...stdout.matchAll(/^kind: (\w+)/gm)].map(([, kind]) => kind).sort(), kinds, values.join());
  }
  await t.rejects(helm(['apiKey=sk-12345678', 'replicas=2']), { message: /several replicas need a shared PostgreSQL/ });
});

t.test('alerting rules use metrics that exist', (t) => {
  const names = [
    ...new Set([...read('alerts.yaml').matchAll(/\bmonolith_[a-z_]+/g)].map(([name]) => name.replace(/_bucket$/, ''))),
  ];
  t.ok(names.length > 5);
  const declared = readFileSync(join(root, 'src', 'telemetry', 'instruments.ts'), 'utf8');
  t.same(
    names.filter((name) => !declared.includes(`'${name}'`)),
    [],
  );
  t.end();
});

t.test('the grace period is longer than the unready and drain times together', async (t) => {
  const of = (name: string): number => Number(declared.find(({ key }) => key === name)!.setting.default);
  for (const file of ['compose.yaml', 'compose-scaling.yaml']) {
    const compose = read(file);
    const [, grace] = /stop_grace_period: (\d+)s/.exec(compose)!;
    const [, unready = '0'] = /UNREADY_MS: "(\d+)"/.exec(compose) ?? [];
    t.ok(Number(grace) * 1_000 > Number(unready) + of('engine.drain_ms'), file);
  }
});

t.test('metrics that an endpoint picker reads are served', async (t) => {
  const server = await startScripted({ models: ['hal-1.0'], env: { MONOLITH_METRICS_PUBLIC: 'true' } });
  t.teardown(() => server.stop());
  t.match(read('inference-pool.yaml'), /METRICS_PUBLIC=true/);
  t.equal((await fetch(`${server.url}/readyz`)).status, 200);
  const response = await fetch(`${server.url}/metrics`); // the endpoint picker sends no key
  t.equal(response.status, 200);
  const text = await response.text();
  for (const name of ['num_requests_waiting', 'num_requests_running', 'kv_cache_usage_perc', 'cache_config_info']) {
    t.ok(text.includes(`# TYPE vllm:${name} gauge\n`), name);
    // If there are several series, the endpoint picker reads the first, so there must be exactly one series.
    const series = text.split('\n').filter((line) => line.startsWith(`vllm:${name}{`));
    t.equal(series.length, 1, name);
    t.ok(Number(series[0]!.slice(series[0]!.lastIndexOf(' '))) >= 0, name);
  }
  const [info] = text.match(/^vllm:cache_config_info\{.*$/m)!;
  for (const label of ['block_size', 'num_gpu_blocks']) t.match(info, new RegExp(`${label}="[1-9][0-9]*"`));
});
