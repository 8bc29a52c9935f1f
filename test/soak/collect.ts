// Preloaded into the server under a soak test. On SIGUSR2, every isolate runs a full garbage collection, and the memory
// that each isolate retains is written to the file MONOLITH_TEST_COLLECTED. Between collections, memory usage shows
// only how V8 schedules its collections, not how much memory is retained.
import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';
import type { Isolate } from './sample.js';

/**
 * How long to wait until the other threads have run their collections. On a busy machine, a busy thread may be late.
 */
const WAIT_MS = 30_000;

/** Number of threads in addition to the main thread. */
const OTHERS = Number(process.env['MONOLITH_HTTP_THREADS']);
const file = process.env['MONOLITH_TEST_COLLECTED'];
if (file !== undefined) {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const collected = (): Isolate => {
    gc();
    gc(); // a second call collects objects released by finalizers
    const {
      used_heap_size: used,
      total_physical_size: heap,
      external_memory: external,
      malloced_memory: malloced,
    } = getHeapStatistics();
    const spaces = Object.fromEntries(
      getHeapSpaceStatistics().map(({ space_name: name, space_used_size: size }) => [name, size]),
    );
    return { thread: threadId, used, heap, external, malloced, spaces };
  };
  const asks = new BroadcastChannel('soak-collect');
  const answers = new BroadcastChannel('soak-collected');
  for (const channel of [asks, answers]) (channel as unknown as { unref(): void }).unref();
  if (isMainThread) {
    let others: Isolate[] = [];
    answers.onmessage = (event) => {
      others.push((event as { data: Isolate }).data);
    };
    const collect = async (): Promise<void> => {
      others = [];
      asks.postMessage(null);
      for (let waited = 0; others.length < OTHERS && waited < WAIT_MS; waited += 20) await sleep(20);
      writeFileSync(`${file}.next`, JSON.stringify([collected(), ...others]));
      renameSync(`${file}.next`, file);
    };
    process.on('SIGUSR2', () => {
      void collect();
    });
  } else {
    asks.onmessage = () => {
      answers.postMessage(collected());
    };
  }
}
