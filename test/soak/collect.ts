// Preloaded into a server that is soaked: at SIGUSR2 every isolate of it collects all its garbage, and what each keeps then is
// written into the file that MONOLITH_TEST_COLLECTED names. Memory between collections says how V8 paces them, not what is kept.
import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';
import type { Isolate } from './sample.js';

/** For the other threads to collect: a busy one, on a busy machine, comes to it late. */
const WAIT_MS = 30_000;

/** Threads beside the main one. */
const OTHERS = Number(process.env['MONOLITH_HTTP_THREADS']);
const file = process.env['MONOLITH_TEST_COLLECTED'];
if (file !== undefined) {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const collected = (): Isolate => {
    gc();
    gc(); // what finalizers let go
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
