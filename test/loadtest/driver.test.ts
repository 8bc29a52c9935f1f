// Runs load tests against a test server with known latencies. Checks when requests are sent, what is measured, and how
// failed responses are counted.

import t from 'tap';
import type { Test } from 'tap';
import { StandInServer } from '../../bench/lib/stand-in-server.js';
import type { StandIn } from '../../bench/lib/stand-in-server.js';
import { arrivalTimes } from '../../src/bench/load/arrivals.js';
import { runLoad } from '../../src/bench/load/driver.js';
import { summarize } from '../../src/bench/load/summary.js';
import { UNMEASURED } from '../../src/bench/load/text-maker.js';
import type { LoadRun, WorkloadSpec } from '../../src/bench/load/types.js';

const SYNTHETIC: WorkloadSpec = {
  kind: 'synthetic',
  seed: 1,
  schema: null,
  prompt: { kind: 'fixed', tokens: 20 },
  output: { kind: 'fixed', tokens: 8 },
  prefixes: null,
  turns: { kind: 'fixed', tokens: 1 },
  thinkMs: 0,
};

function loadOn(
  server: StandInServer,
  changes: Partial<Omit<LoadRun, 'target'>> & { target?: Partial<LoadRun['target']> } = {},
): LoadRun {
  const { target, ...others } = changes;
  return {
    workload: SYNTHETIC,
    measure: UNMEASURED,
    arrival: { kind: 'closed', concurrency: 4 },
    length: { requests: 24, durationMs: null },
    warmup: { requests: null, durationMs: null },
    graceMs: 5000,
    maxConcurrency: null,
    conversation: 'history',
    seed: 7,
    threads: 1,
    ...others,
    target: {
      url: server.url,
      dialect: 'chat',
      model: 'm',
      headers: {},
      body: {},
      ignoreEos: true,
      capField: 'max_tokens',
      timeoutMs: 5000,
      ...target,
    },
  };
}

async function standIn(t: Test, settings: Partial<StandIn> = {}): Promise<StandInServer> {
  const server = await StandInServer.start({ firstMs: 0, gapMs: 0, ...settings });
  t.teardown(() => server.close());
  return server;
}

t.test('a closed loop keeps its concurrency, excludes warm-up, and measures the latencies of the server', async (t) => {
  const server = await standIn(t, { firstMs: 40, gapMs: 10 });
  for (const threads of [1, 2]) {
    const run = loadOn(server, { threads, warmup: { requests: 4, durationMs: null } });
    const result = await runLoad(run);
    const summary = summarize(result, run);
    t.equal(result.records.length, 28, `${threads} threads`);
    t.equal(result.records.filter(({ phase }) => phase === 'warmup').length, 4);
    t.match(summary.requests, { asked: 24, answered: 24, failed: 0, cancelled: 0 });
    t.equal(summary.concurrency.peak, 4);
    t.ok((summary.ttft?.min ?? 0) >= 39 && (summary.ttft?.p50 ?? 0) < 80, `TTFT ${summary.ttft?.p50}`);
    t.ok((summary.itl?.p50 ?? 0) >= 9 && (summary.itl?.p50 ?? 0) < 20, `inter-token latency ${summary.itl?.p50}`);
    t.equal(summary.itl?.count, 24 * 7);
    t.equal(summary.totals.outputTokens, 24 * 8);
    t.ok((summary.tpot?.p50 ?? 0) >= 9 && (summary.e2e?.p50 ?? 0) >= 110);
  }
});

t.test('an open loop sends to a slow server at the planned times, and measures from these times', async (t) => {
  const server = await standIn(t, { firstMs: 60, gapMs: 0 });
  const arrival = { kind: 'poisson', rate: 100 } as const;
  const run = loadOn(server, { arrival, length: { requests: 30, durationMs: null }, maxConcurrency: 2 });
  const result = await runLoad(run);
  const planned = arrivalTimes(arrival, 7, () => null);
  const wanted = Array.from({ length: 30 }, () => planned.next().value as number);
  t.same(
    result.records.map(({ intended }) => intended).sort((a, b) => a - b),
    wanted,
    'the same seed gives the same times',
  );
  const summary = summarize(result, run);
  t.equal(summary.concurrency.peak, 2, 'the maximum concurrency is respected');
  // 30 requests of 60 ms, two at a time, take 900 ms but are due within 300 ms. The last requests must wait, and the
  // summary must show this wait.
  t.ok((summary.queued?.max ?? 0) > 300, `waited ${summary.queued?.max}`);
  t.ok((summary.ttft?.max ?? 0) > (summary.queued?.max ?? 0), 'latency includes the wait');
  t.ok(summary.client.lagP99 < 100, "waiting for a free slot doesn't count as client lag");
});

t.test('arrival processes have the expected rate and variation', (t) => {
  const gaps = (arrival: Parameters<typeof arrivalTimes>[0], count = 20_000): number[] => {
    const times = arrivalTimes(arrival, 3, () => null);
    const all = Array.from({ length: count + 1 }, () => times.next().value as number);
    return all.slice(1).map((at, i) => at - (all[i] as number));
  };
  const spread = (values: number[]): { mean: number; variation: number } => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return {
      mean,
      variation: Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length) / mean,
    };
  };
  const near = (value: number, wanted: number): boolean => Math.abs(value - wanted) < 0.03 * Math.max(wanted, 0.3);
  const poisson = spread(gaps({ kind: 'poisson', rate: 50 }));
  t.ok(near(poisson.mean, 20) && near(poisson.variation, 1), JSON.stringify(poisson));
  const bursty = spread(gaps({ kind: 'gamma', rate: 50, burstiness: 0.25 }));
  t.ok(near(bursty.mean, 20) && near(bursty.variation, 2), JSON.stringify(bursty));
  const smooth = spread(gaps({ kind: 'gamma', rate: 50, burstiness: 4 }));
  t.ok(near(smooth.mean, 20) && near(smooth.variation, 0.5), JSON.stringify(smooth));
  t.same(spread(gaps({ kind: 'constant', rate: 50 }, 10)), { mean: 20, variation: 0 });
  t.same(gaps({ kind: 'bursts', size: 3, everyMs: 100 }, 6), [0, 0, 100, 0, 0, 100]);
  t.same([...arrivalTimes({ kind: 'trace', speed: 2 }, 0, (n) => [0, 10, 50][n] ?? null)], [0, 5, 25]);
  t.end();
});

t.test('a load ends after its duration, and requests still running after the grace period are cancelled', async (t) => {
  const server = await standIn(t, {
    instead: (number, response) => number >= 6 && response.writeHead(200).flushHeaders() === undefined,
  });
  const run = loadOn(server, {
    arrival: { kind: 'constant', rate: 40 },
    warmup: { requests: null, durationMs: 50 },
    length: { requests: null, durationMs: 200 },
    graceMs: 150,
  });
  const result = await runLoad(run);
  t.equal(
    result.records.filter(({ phase }) => phase === 'warmup').length,
    2,
    'the warm-up requests are those at 0 and 25 ms',
  );
  const summary = summarize(result, run);
  t.match(summary.requests, { asked: 8, answered: 4, failed: 0, cancelled: 4 });
  t.match(summary.doubts, [/4 requests were still running/]);
  t.ok(result.endedMs < 1500);
});

t.test('failures are counted by kind', async (t) => {
  const server = await standIn(t, {
    instead: (number, response) => {
      if (number === 0) response.writeHead(429).end('{"error":{"message":"too many"}}');
      else if (number === 1)
        response
          .writeHead(200)
          .end('data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: {"error":{"message":"lost it"}}\n\n');
      else if (number === 2) response.writeHead(200).end('data: {"choices":[{"delta":{"content":"x"}}]}\n\n');
      else if (number === 3) response.writeHead(200).end('data: {"choi\n\n');
      else if (number === 4) response.writeHead(200).end('<html>');
      else if (number === 5) response.writeHead(200).flushHeaders();
      else if (number === 6) response.destroy();
      else return false;
      return true;
    },
  });
  const run = loadOn(server, {
    arrival: { kind: 'closed', concurrency: 8 },
    length: { requests: 8, durationMs: null },
    target: { timeoutMs: 300 },
  });
  const result = await runLoad(run);
  const { errors, requests, doubts } = summarize(result, run);
  t.match(requests, { asked: 8, answered: 1, failed: 7 });
  t.same(Object.fromEntries(Object.entries(errors).map(([kind, error]) => [kind, error?.count])), {
    http_429: 1,
    stream_error: 1,
    truncated: 1,
    malformed: 2,
    timeout: 1,
    connection: 1,
  });
  t.match(errors, {
    http_429: { example: 'too many' },
    stream_error: { example: 'lost it' },
    timeout: { example: /300 ms/ },
  });
  t.match(doubts[0], /7 of 8 requests failed/);
  await t.rejects(runLoad(loadOn(server, { arrival: { kind: 'poisson', rate: 0 } })), {
    name: 'LoadError',
    message: /rate/,
  });
  await t.rejects(runLoad(loadOn(server, { conversation: 'stored' })), { name: 'LoadError', message: /chat/ });
});

t.test('a stopped load returns the results so far', async (t) => {
  const server = await standIn(t, { firstMs: 30, gapMs: 5 });
  for (const threads of [1, 2]) {
    const stop = new AbortController();
    let seen = 0;
    const run = loadOn(server, { length: { requests: 10_000, durationMs: null }, threads });
    const result = await runLoad(run, {
      signal: stop.signal,
      onProgress: ({ answered }) => {
        seen = answered;
        if (answered > 0) stop.abort();
      },
    });
    t.ok(result.stopped && seen > 0);
    const { requests, doubts } = summarize(result, run);
    t.ok(
      requests.answered >= seen && requests.answered + requests.cancelled === requests.asked && requests.failed === 0,
      JSON.stringify(requests),
    );
    t.match(doubts[0], /stopped/);
  }
});

t.test('a load can be stopped while requests wait for a free slot', async (t) => {
  const server = await standIn(t, { instead: (_, response) => response.writeHead(200).flushHeaders() === undefined });
  const stop = new AbortController();
  const run = loadOn(server, {
    arrival: { kind: 'bursts', size: 5, everyMs: 60_000 },
    length: { requests: 100, durationMs: null },
    maxConcurrency: 1,
  });
  const result = await runLoad(run, {
    signal: stop.signal,
    onProgress: ({ running }) => {
      if (running > 0) stop.abort();
    },
  });
  t.match(
    result.records.map(({ error }) => error?.kind),
    ['cancelled', 'cancelled', 'cancelled', 'cancelled', 'cancelled'],
  );
});

t.test('sessions send their history or continue stored responses', async (t) => {
  const server = await standIn(t);
  const workload: WorkloadSpec = {
    ...SYNTHETIC,
    kind: 'synthetic',
    turns: { kind: 'fixed', tokens: 3 },
    prefixes: { count: 1, tokens: 30 },
    schema: { type: 'object' },
  } as WorkloadSpec;
  const once = {
    workload,
    arrival: { kind: 'closed', concurrency: 1 },
    extent: { requests: 3, durationMs: null },
  } as const;
  await runLoad(loadOn(server, once));
  const [first, , third] = server.bodies;
  t.equal(first?.messages?.length, 2);
  t.match(first, { ignore_eos: true, max_tokens: 8, response_format: { type: 'json_schema' } });
  t.same(
    third?.messages?.map(({ role }) => role),
    ['system', 'user', 'assistant', 'user', 'assistant', 'user'],
  );
  t.same(third?.messages?.slice(0, 2), first?.messages, 'a later turn starts with the same messages');
  t.match(third?.messages?.[2]?.content, /^ word0 word1 /);
  server.bodies.length = 0;
  await runLoad(loadOn(server, { ...once, target: { dialect: 'responses' }, conversation: 'stored' }));
  t.match(server.bodies, [
    { store: true, previous_response_id: undefined, text: { format: { type: 'json_schema' } } },
    { store: true, previous_response_id: /^resp_/ },
    { store: true, previous_response_id: /^resp_/ },
  ]);
  t.equal(server.bodies[2]?.input?.length, 1);
  server.bodies.length = 0;
  await runLoad(loadOn(server, { ...once, target: { dialect: 'completions' } }));
  t.ok((server.bodies[1]?.prompt ?? '').startsWith(`${server.bodies[0]?.prompt} word0`));
});
