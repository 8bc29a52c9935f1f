// Measures how much the server writes to disk when stored responses expire, and how long other requests wait in the
// meantime. It fills a new database through the response and usage stores, then advances the clock past the retention
// period.
//
//   npm run bench -- expiry
//   npm run bench -- expiry --responses 1000000 --turns 4
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { percentileOf } from '../src/bench/load/distribution.js';
import { hex, newItemId, newRequestId, newResponseId } from '../src/shared/ids.js';
import { openResponseStore } from '../src/storage/lmdb/responses/open-response-store.js';
import { databasePath, openStore } from '../src/storage/lmdb/lmdb-store.js';
import type { ResponseRecord, ResponseStore, StoredItem } from '../src/storage/response-store.js';
import { LmdbUsageStore } from '../src/storage/lmdb/usage/usage-store.js';
import type { UsageEntry } from '../src/usage/usage-store.js';
import { commit, machine } from './lib/machine.js';

const USAGE = `npm run bench -- expiry [options]

  --responses N    responses that expire (default 100000)
  --kept N         responses stored after them that do not expire (default 0)
  --turns N        responses per conversation (default 1)
  --bytes N        bytes of text per response (default 2000)
  --ids KIND       timed, as the server creates them, or random, as earlier releases did (default timed)
  --every MS       interval at which responses are created meanwhile (default 20)
  --dir PATH       folder for the database (default: a temporary folder); removed at the end
  --json OUT       write all results to OUT
`;

const DAY_S = 86_400,
  RETENTION_DAYS = 30,
  START_S = 1_789_000_000;
const AT_ONCE = 256;

interface Waits {
  creates: number;
  p50: number;
  p99: number;
  max: number;
}

export async function expiryBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      responses: text,
      kept: text,
      turns: text,
      bytes: text,
      ids: text,
      every: text,
      dir: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const whole = (name: 'responses' | 'kept' | 'turns' | 'bytes' | 'every', otherwise: number): number => {
    const value = Number(values[name] ?? otherwise);
    if (!Number.isInteger(value) || value < 0)
      throw new Error(`--${name} must be a whole number (got ${values[name]}).`);
    return value;
  };
  const expiring = whole('responses', 100_000),
    kept = whole('kept', 0),
    turns = Math.max(1, whole('turns', 1)),
    bytes = whole('bytes', 2_000),
    every = whole('every', 20);
  const ids = values.ids ?? 'timed';
  if (ids !== 'timed' && ids !== 'random') throw new Error(`--ids must be timed or random (got ${ids}).`);
  if (values.dir !== undefined) mkdirSync(values.dir, { recursive: true });
  const dir = mkdtempSync(join(values.dir ?? tmpdir(), 'monolith-expiry-'));
  try {
    const figures = await measure(dir, { expiring, kept, turns, bytes, every, isRandom: ids === 'random' });
    process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        JSON.stringify({ bench: 'expiry', commit: commit(), machine: machine(), ...figures }, null, 2),
      );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

interface Shape {
  expiring: number;
  kept: number;
  turns: number;
  bytes: number;
  every: number;
  isRandom: boolean;
}

async function measure(dir: string, { expiring, kept, turns, bytes, every, isRandom }: Shape): Promise<object> {
  const clock = { now: START_S };
  const store = await openStore(dir);
  const failures: unknown[] = [];
  const responses = openResponseStore(
    store,
    { retention_days: RETENTION_DAYS },
    { now: () => clock.now, onError: (error) => failures.push(error) },
  );
  const usage = new LmdbUsageStore(store);
  const filled = performance.now();
  const previous = new Map<number, string>();
  const total = expiring + kept;
  for (let at = 0; at < total; at += AT_ONCE) {
    const batch = Array.from({ length: Math.min(AT_ONCE, total - at) }, (_, index) => at + index);
    clock.now = START_S + at / 1_000;
    await Promise.all(
      batch.map((index) => {
        const keeps = index >= expiring,
          chain = (index % AT_ONCE) + (keeps ? AT_ONCE : 0);
        const one = response(
          clock.now + (keeps ? RETENTION_DAYS * DAY_S : 0),
          bytes,
          isRandom,
          Math.floor(index / AT_ONCE) % turns === 0 ? null : (previous.get(chain) ?? null),
        );
        previous.set(chain, one.id);
        return responses.save(one);
      }),
    );
    await usage.record(batch.map(() => used(clock.now * 1_000)));
  }
  const fillSeconds = (performance.now() - filled) / 1_000,
    databaseBytes = statSync(databasePath(dir)).size;

  const alone = await creates(responses, clock, { bytes, every, isRandom }, sleep(5_000));
  clock.now += RETENTION_DAYS * DAY_S + 60;
  await sleep(500);
  const before = written(),
    loop = monitorEventLoopDelay({ resolution: 1 });
  loop.enable();
  const begun = performance.now();
  const sweep = responses.sweep();
  const meanwhile = await creates(responses, clock, { bytes, every, isRandom }, sweep);
  const expired = await sweep;
  const seconds = (performance.now() - begun) / 1_000;
  loop.disable();
  await sleep(500);
  const sweepBytes = written() - before - meanwhile.creates * alone.bytesEach;
  const usageBefore = written();
  const usageErased = await usage.erase({ rows: (clock.now + DAY_S) * 1_000, sums: 0 }, new AbortController().signal);
  await sleep(500);
  const usageBytes = written() - usageBefore;
  const left = [...store.table('responses').keys()].length;
  await responses.close();
  await store.close();
  if (failures.length > 0) throw failures[0];
  return {
    responses: expiring,
    kept,
    turns,
    ids: isRandom ? 'random' : 'timed',
    databaseBytes,
    fillSeconds,
    expired,
    left,
    seconds,
    sweepBytes,
    bytesPerResponse: sweepBytes / Math.max(1, expired),
    usageErased,
    usageBytes,
    eventLoopDelayMs: { p50: loop.percentile(50) / 1e6, p99: loop.percentile(99) / 1e6, max: loop.max / 1e6 },
    createMsAlone: alone.waits,
    createMsMeanwhile: meanwhile.waits,
  };
}

/** Saves one response after another until `end`. */
async function creates(
  responses: ResponseStore,
  clock: { now: number },
  { bytes, every, isRandom }: Pick<Shape, 'bytes' | 'every' | 'isRandom'>,
  end: Promise<unknown>,
): Promise<{ creates: number; bytesEach: number; waits: Waits }> {
  let ended = false;
  void end
    .finally(() => {
      ended = true;
    })
    .catch(() => undefined);
  const took: number[] = [];
  const before = written();
  while (!ended) {
    const begun = performance.now();
    // created in the future, so it does not expire during the benchmark
    await responses.save(response(clock.now + 3_600, bytes, isRandom, null));
    took.push(performance.now() - begun);
    await sleep(every);
  }
  const sorted = took.sort((a, b) => a - b);
  const waits = {
    creates: sorted.length,
    p50: percentileOf(sorted, 50),
    p99: percentileOf(sorted, 99),
    max: sorted.at(-1) ?? 0,
  };
  return { creates: sorted.length, bytesEach: (written() - before) / Math.max(1, sorted.length), waits };
}

/**
 * Returns the number of bytes that this process has written to files. The `write_bytes` field of the same file cannot
 * be used: on file systems with large folios, it counts a whole folio for each page, ten times what reaches the disk.
 */
const written = (): number => Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);

function response(createdAt: number, bytes: number, isRandom: boolean, previousId: string | null): ResponseRecord {
  const id = isRandom ? `resp_${hex(48)}` : newResponseId();
  const message = (role: string, part: object): StoredItem => {
    const itemId = isRandom ? `msg_${hex(48)}` : newItemId('msg');
    return { id: itemId, item: { id: itemId, type: 'message', status: 'completed', role, content: [part] } };
  };
  const half = 'word '.repeat(Math.ceil(bytes / 10));
  const input = [message('user', { type: 'input_text', text: half })],
    output = [message('assistant', { type: 'output_text', text: half, annotations: [], logprobs: [] })];
  const resource = {
    id,
    object: 'response',
    created_at: createdAt,
    status: 'completed',
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    model: 'tycho-1.0',
    output: output.map(({ item }) => item),
    parallel_tool_calls: true,
    temperature: 1,
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    background: false,
    max_output_tokens: null,
    previous_response_id: previousId,
    reasoning: { effort: null, summary: null },
    text: { format: { type: 'text' } },
    truncation: 'disabled',
    usage: {
      input_tokens: 200,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 200,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 400,
    },
  };
  return {
    id,
    organizationId: 'org_bench',
    model: 'tycho-1.0',
    createdAt,
    status: 'completed',
    background: false,
    previousId,
    resource,
    input,
    output,
  };
}

function used(at: number): UsageEntry {
  return {
    at,
    usage: {
      requestId: newRequestId(),
      organizationId: 'org_bench',
      keyId: 'key_bench',
      model: 'tycho-1.0',
      endpoint: '/v1/responses',
      status: 'completed',
      stream: true,
      receivedAt: at - 900,
      startedAt: at - 890,
      firstTokenAt: at - 800,
      endedAt: at,
      inputTokens: 200,
      cachedTokens: 0,
      outputTokens: 200,
      reasoningTokens: 0,
      images: 0,
      finishReason: 'stop',
      errorCode: null,
    },
  };
}
