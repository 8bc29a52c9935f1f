// Measures the CPU time per request that an HTTP worker spends on authentication and admission: looking up the key,
// reserving a concurrency slot, a request and tokens, building the rate-limit headers, and settling the reservation.
// Recording the usage is measured separately. The accounts are real and stored in a real database, requests pick
// organizations in random order, and there are many short runs.
//
//   npm run bench -- admission --json OUT
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import type { Accounts } from '../src/accounts/accounts.js';
import { openAccounts } from '../src/storage/lmdb/accounts/directory.js';
import type { Organization } from '../src/accounts/keys.js';
import type { Reservation, ReserveRequest } from '../src/admission/admission.js';
import { LocalAdmission } from '../src/admission/local-admission.js';
import { configWith } from '../src/config/load.js';
import { identify } from '../src/http/authentication.js';
import type { Identity } from '../src/shared/identity.js';
import { newAccountId } from '../src/shared/ids.js';
import { openStore } from '../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../src/storage/store.js';
import type { Log } from '../src/telemetry/types.js';
import { LmdbUsageStore } from '../src/storage/lmdb/usage/usage-store.js';
import { UsageRecorder } from '../src/usage/usage-recorder.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- admission [options]

  --organizations LIST   numbers of organizations to measure with (default 1,1000,10000)
  --runs N               measured runs per number of organizations (default 300), after 10 warm-up runs
  --requests N           requests per run (default 50)
  --json OUT             write all results to OUT
`;

const STEPS = ['key', 'reserve', 'headers', 'settle', 'together', 'usage'] as const;
type Step = (typeof STEPS)[number];
const MODEL = 'tycho-1.0';
const SILENT: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

export async function admissionBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { organizations: text, runs: text, requests: text, json: text, help: { type: 'boolean' } },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const runs = positive(values.runs ?? '300', '--runs');
  const requests = positive(values.requests ?? '50', '--requests');
  const counts = (values.organizations ?? '1,1000,10000').split(',').map((count) => positive(count, '--organizations'));
  process.stdout.write(
    `µs per request, medians of ${runs} runs\n${'organizations'.padEnd(15)}${STEPS.map((step) => step.padStart(10)).join('')}\n`,
  );
  const results: { organizations: number; figures: Record<Step, { median: number; min: number; max: number }> }[] = [];
  for (const organizations of counts) {
    const figures = await measure(organizations, runs, requests);
    results.push({ organizations, figures });
    process.stdout.write(
      `${organizations.toLocaleString('en-US').padEnd(15)}${STEPS.map((step) => figures[step].median.toFixed(2).padStart(10)).join('')}\n`,
    );
  }
  if (values.json !== undefined) {
    writeFileSync(
      values.json,
      `${JSON.stringify({ bench: 'admission', at: new Date().toISOString(), runs, requests, unit: 'µs per request', results }, null, 2)}\n`,
    );
  }
}

async function measure(
  organizations: number,
  runs: number,
  requests: number,
): Promise<Record<Step, { median: number; min: number; max: number }>> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const store = await openStore(data);
  const accounts = openAccounts(store);
  try {
    const secrets = await keysOf(store, accounts, organizations);
    const admission = new LocalAdmission(
      configWith({ limits: { rpm: 1_000_000, tpm: 1_000_000_000, concurrency: 1_000_000 } }).limits,
    );
    const writing = timed(store);
    const usage = new UsageRecorder(new LmdbUsageStore(writing.store), SILENT);
    const times: Record<Step, number[]> = { key: [], reserve: [], headers: [], settle: [], together: [], usage: [] };
    for (let run = -10; run < runs; run++) {
      // Each step is timed once for all requests of a run, because reading the clock takes as long as a single step.
      const chosen = Array.from(
        { length: requests },
        () => `Bearer ${secrets[Math.floor(Math.random() * secrets.length)] ?? ''}`,
      );
      const began = performance.now();
      const identities: Identity[] = [];
      for (const authorization of chosen) {
        const known = identify(
          (name) => (name === 'authorization' ? authorization : ''),
          { remoteAddress: '127.0.0.1' },
          (key) => accounts.authenticate(key),
        );
        identities.push(known instanceof Promise ? await known : known);
      }
      const known = performance.now();
      const reservations = identities.map((identity) =>
        atOnce(admission, {
          identity,
          model: MODEL,
          promptTokens: { tokens: 120, exact: true },
          statedCap: 500,
          modelMaximum: 8_192,
          n: 1,
        }),
      );
      const reserved = performance.now();
      for (const reservation of reservations) reservation.headers('chat');
      const shown = performance.now();
      for (const reservation of reservations) reservation.settle(207);
      const settled = performance.now();
      for (const { organizationId, keyId } of identities) {
        usage.finished({
          requestId: 'req_000000000000000000000000',
          organizationId,
          keyId,
          model: MODEL,
          endpoint: '/v1/chat/completions',
          stream: true,
          status: 'completed',
          receivedAt: 1,
          startedAt: 2,
          firstTokenAt: 3,
          endedAt: Date.now(),
          inputTokens: 120,
          cachedTokens: 16,
          outputTokens: 87,
          reasoningTokens: 0,
          images: 0,
          finishReason: 'end_of_turn',
          errorCode: null,
        });
      }
      const told = performance.now();
      await usage.flush();
      const written = writing.take();
      if (run < 0) continue;
      const push = (step: Step, ms: number): void => {
        times[step].push((ms * 1000) / requests);
      };
      push('key', known - began);
      push('reserve', reserved - known);
      push('headers', shown - reserved);
      push('settle', settled - shown);
      push('together', settled - began);
      push('usage', told - settled + written);
    }
    await usage.close();
    if (admission.unfinished() !== 0) throw new Error('some reservations were not settled');
    return Object.fromEntries(
      STEPS.map((step) => {
        const { median, min, max } = spreadOf(times[step]);
        return [step, { median, min, max }];
      }),
    ) as Record<Step, { median: number; min: number; max: number }>;
  } finally {
    await accounts.close();
    await store.close();
    rmSync(data, { recursive: true, force: true });
  }
}

/** Reserves synchronously: without a monthly cap, a reservation never waits. */
function atOnce(admission: LocalAdmission, request: ReserveRequest): Reservation {
  const reservation = admission.reserve(request);
  if (reservation instanceof Promise) throw new Error('the reservation is asynchronous');
  return reservation;
}

/** Creates `count` organizations, each with one key, and returns the keys. */
async function keysOf(store: Store, accounts: Accounts, count: number): Promise<string[]> {
  const secrets: string[] = [];
  await accounts.bootstrap(null);
  const table = store.table<Organization>('organizations');
  for (let made = 0; made < count; made += 500) {
    const some = Array.from(
      { length: Math.min(500, count - made) },
      (_, at): Organization => ({
        id: newAccountId('org'),
        tenant: made + at + 2,
        name: `Organization ${made + at}`,
        status: 'active',
        createdAt: new Date().toISOString(),
      }),
    );
    await store.transaction(() => {
      for (const one of some) void table.put(one.id, one);
    });
    const keys = await Promise.all(some.map(({ id }) => accounts.createKey({ name: 'bench' }, id)));
    secrets.push(...keys.map(({ secret }) => secret));
  }
  return secrets;
}

/**
 * Wraps the store. take() returns the number of milliseconds for which the store's transactions have blocked this
 * thread since the last call.
 */
function timed(store: Store): { store: Store; take(): number } {
  let busy = 0;
  return {
    store: {
      table: (name) => store.table(name),
      refresh: () => store.refresh(),
      close: () => store.close(),
      transaction: (work) =>
        store.transaction(() => {
          const began = performance.now();
          try {
            return work();
          } finally {
            busy += performance.now() - began;
          }
        }),
    },
    take: () => {
      const ms = busy;
      busy = 0;
      return ms;
    },
  };
}

function positive(text: string, name: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must have integers of at least 1`);
  return value;
}
