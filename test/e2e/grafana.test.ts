// A real Prometheus scrapes a real server under load. Every query in the project's own dashboard (docs/grafana) and in
// the dashboard published by vLLM must return data.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startOtlpReceiver } from '../support/otlp-receiver.js';
import { prometheusIsThere, startPrometheus, type Prometheus } from '../support/prometheus.js';
import { startScripted } from '../support/script-model.js';
import { root, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

interface Panel {
  title: string;
  type: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string; legendFormat: string }[];
}
const board = JSON.parse(readFileSync(join(root, 'docs', 'grafana', 'monolith.json'), 'utf8')) as {
  title: string;
  panels: Panel[];
  templating: { list: { name: string; definition?: string }[] };
};
const TOKEN = 'metrics-token-0123456789';

t.test('dashboard panels do not overlap', (t) => {
  const taken = new Set<string>();
  for (const {
    title,
    gridPos: { x, y, w, h },
  } of board.panels) {
    t.ok(x + w <= 24, title);
    for (let row = y; row < y + h; row++) {
      for (let column = x; column < x + w; column++) {
        const place = `${column},${row}`;
        if (taken.has(place)) t.fail(`${title} overlaps another panel`);
        taken.add(place);
      }
    }
  }
  t.end();
});

const skip = prometheusIsThere() ? false : 'Prometheus is not installed (Debian: apt-get install prometheus)';

/** Sends requests until `done` returns true. Some complete, some are aborted by their client, and some are rejected. */
async function load(server: Monolith, done: () => boolean): Promise<void> {
  const client = async (number: number): Promise<void> => {
    for (let turn = 0; !done(); turn++) {
      const endless = number === 0;
      const controller = new AbortController();
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
        signal: controller.signal,
        body: JSON.stringify({
          model: 'hal-1.0',
          stream: true,
          ...(turn % 2 === 0 ? {} : { max_tokens: 4 }),
          messages: [{ role: 'user', content: endless ? 'L: on' : `A: ${'word '.repeat(40)}` }],
        }),
      });
      if (endless) {
        await response.body!.getReader().read();
        await new Promise((resolve) => setTimeout(resolve, 100));
        controller.abort();
      } else await response.text();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await Promise.all([0, 1, 2, 3, 4, 5, 6].map(client));
}

t.test('Grafana dashboards', { skip }, async (t) => {
  const collector = await startOtlpReceiver();
  t.teardown(() => collector.close());
  const server = await startScripted({
    models: ['hal-1.0'],
    env: {
      MONOLITH_METRICS_TOKEN: TOKEN,
      MONOLITH_LIMITS_CONCURRENCY: '4',
      MONOLITH_LIMITS_RPM: 'off',
      MONOLITH_LIMITS_TPM: 'off',
      MONOLITH_TELEMETRY_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
    },
  });
  t.teardown(() => server.stop());
  const prometheus = await startPrometheus({ port: server.port, token: TOKEN });
  t.teardown(() => prometheus.close());
  let over = false;
  const loaded = load(server, () => over);
  t.teardown(async () => {
    over = true;
    await loaded;
  });

  /** Returns the values of a query's result. Waits up to 30 seconds for the first values to appear. */
  const numbers = async (query: string): Promise<number[]> => {
    for (const end = Date.now() + 30_000; ; await new Promise((done) => setTimeout(done, 500))) {
      const found = (await prometheus.query(query)).map(({ value }) => Number(value[1])).filter(Number.isFinite);
      if (found.length > 0 || Date.now() > end) return found;
    }
  };

  await t.test('every query of every panel in our own dashboard returns data', async (t) => {
    const [, variable] = board.templating.list;
    const [, series, label] = /^label_values\((\w+), (\w+)\)$/.exec(variable!.definition!)!;
    t.equal((await numbers(series!)).length, 1);
    t.equal(
      (await prometheus.query(series!))[0]!.metric[label!],
      'hal-1.0',
      'the value that the model variable offers',
    );
    let queries = 0;
    for (const { title, targets = [] } of board.panels) {
      for (const { expr } of targets) {
        queries++;
        const found = await numbers(expr.replaceAll('$__rate_interval', '10s').replaceAll('$model', 'hal-1.0'));
        t.ok(found.length > 0, `${title}: ${expr}`);
      }
    }
    t.ok(queries > 40);
  });

  await t.test("every query of vLLM's published dashboard returns data", (t) => vllmBoard(t, prometheus, numbers));
});

/**
 * Runs the queries in vLLM's dashboard JSON, built from their components: histogram quantiles and means, rates, and
 * gauges.
 */
async function vllmBoard(
  t: Test,
  prometheus: Prometheus,
  numbers: (query: string) => Promise<number[]>,
): Promise<void> {
  t.equal(
    new Set((await prometheus.query('{__name__=~"vllm:.*"}')).map(({ metric }) => metric['model_name'])).size,
    1,
    'the model_name variable offers one value',
  );
  const of = (name: string): string => `vllm:${name}{model_name="hal-1.0"}`;
  const rate = (name: string, how = 'rate'): string => `${how}(${of(name)}[10s])`;
  const histograms = ['e2e_request_latency_seconds', 'time_per_output_token_seconds', 'time_to_first_token_seconds'];
  const queries = [
    ...histograms.flatMap((name) =>
      [0.99, 0.95, 0.9, 0.5].map(
        (quantile) => `histogram_quantile(${quantile}, sum by(le) (${rate(`${name}_bucket`)}))`,
      ),
    ),
    ...histograms.map((name) => `${rate(`${name}_sum`)} / ${rate(`${name}_count`)}`),
    ...[
      'prompt_tokens_total',
      'generation_tokens_total',
      'request_queue_time_seconds_sum',
      'request_prefill_time_seconds_sum',
      'request_decode_time_seconds_sum',
      'request_max_num_generation_tokens_sum',
    ].map((name) => rate(name)),
    ...['num_requests_running', 'num_requests_waiting', 'gpu_cache_usage_perc', 'kv_cache_usage_perc'].map(of),
    ...['request_prompt_tokens_bucket', 'request_generation_tokens_bucket'].map(
      (name) => `sum by(le) (${rate(name, 'increase')})`,
    ),
    `sum by(finished_reason) (${rate('request_success_total', 'increase')})`,
  ];
  for (const query of queries) t.ok((await numbers(query)).length > 0, query);
}
