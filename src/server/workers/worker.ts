// An HTTP worker: a thread with its own service, whose HTTP server does not listen but receives connections from the
// main thread's server. The messages between the worker and the main thread are declared here.
//
// A worker must not end while it has connections, because the HTTP library would then end the process. Therefore, it is
// never terminated directly, but first ordered to close.
import { getHeapStatistics } from 'node:v8';
import { MessagePort, parentPort, workerData } from 'node:worker_threads';
import { setImmediate as turn } from 'node:timers/promises';
import type { Config } from '../../config/settings.js';
import { openService } from '../service.js';
import type { SharedState } from '../shared-state.js';
import { wantsColor } from '../../shared/terminal-color.js';
import { DisposableStack } from '../disposable-stack.js';
import { createTelemetry } from '../../telemetry/telemetry.js';
import { HeapRest } from './heap-rest.js';
import { PortBus } from './hub-bus.js';

export interface WorkerStart {
  config: Config;
  /** Index of the worker, starting at 1. */
  index: number;
  /** Number of HTTP workers in the server; see thread-count.ts. */
  threads: number;
  shared: SharedState;
  bus: MessagePort;
}

/** Sent by the main thread. */
export type WorkerOrder = 'unready' | 'drain' | 'close';

/**
 * Sent to the main thread.
 * - `open`: ready for connections.
 * - `loaded`: attached to the engines.
 * - `idle`: drained; sent after `drain` was ordered.
 * - `log`: a log line for the main thread to write.
 * - `spent`: cannot continue; the main thread must send `close`.
 * - `failing`: its state is unknown; the main thread must send `drain`, then `close`.
 */
export type WorkerNews =
  | { type: 'open'; descriptor: unknown }
  | { type: 'loaded' }
  | { type: 'idle' }
  | { type: 'log'; line: string }
  | { type: 'spent'; reason: string }
  | { type: 'failing'; reason: string }
  | { type: 'failed'; reason: string };

/** A thread that uses more than this fraction of its heap limit is considered about to run out of memory. */
const HEAP_SHARE = 0.92;
const HEAP_LOOK_MS = 1_000;
/** Number of event-loop iterations after which all messages passed to this thread have been processed. */
const TURNS = 3;

async function turns(): Promise<void> {
  for (let left = TURNS; left > 0; left--) await turn();
}

const send = (news: WorkerNews): void => parentPort?.postMessage(news);

async function run({ config, index, threads, shared, bus: port }: WorkerStart, undo: DisposableStack): Promise<void> {
  const telemetry = createTelemetry({
    format: config.log,
    level: config.log_level,
    write: (line) => send({ type: 'log', line }),
    colors: wantsColor(2), // the main thread writes the lines to stderr
    thread: index,
    metricNames: config.metrics.names,
    traces: config.telemetry.traces,
  });
  undo.add(() => telemetry.close());
  const { log } = telemetry;
  let failing = false;
  process.on('uncaughtException', (error) => {
    log.error(
      { err: error },
      failing ? 'uncaught exception while draining' : 'uncaught exception: this HTTP worker is drained and replaced',
    );
    if (failing) return;
    failing = true;
    send({ type: 'failing', reason: `uncaught exception: ${error.message}` });
  });
  process.on('unhandledRejection', (error) => log.error({ err: error }, 'unhandled rejection'));
  const bus = new PortBus(index, port, {
    threads,
    onError: (err, topic) => log.error({ err, topic }, 'thread message failed'),
  });
  undo.add(() => bus.close());
  const service = await openService({ config, telemetry, bus, shared, primary: false });
  undo.add(() => service.close());
  undo.add(turns); // receives connections that were sent before the order, so that they are closed too
  const heap = setInterval(() => {
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
    if (used < HEAP_SHARE * limit) return;
    clearInterval(heap);
    send({ type: 'spent', reason: `heap is full: ${Math.round(used / 1e6)} of ${Math.round(limit / 1e6)} MB` });
  }, HEAP_LOOK_MS).unref();
  undo.add(() => clearInterval(heap));
  const rest = HeapRest.start(service.http);
  undo.add(() => rest?.close());

  parentPort?.on('message', (order: WorkerOrder) => {
    if (order === 'unready') {
      service.unready();
    } else if (order === 'drain') {
      service.drain();
      void service.idle().then(() => send({ type: 'idle' }));
    } else {
      void undo
        .run()
        .catch((err: unknown) => log.error({ err }, 'closing failed'))
        .finally(end);
    }
  });
  const descriptor = service.http.descriptor();
  const open: WorkerNews = { type: 'open', descriptor };
  parentPort?.postMessage(open, descriptor instanceof MessagePort ? [descriptor] : []);
  await service.pool.settled();
  service.failedModels();
  send({ type: 'loaded' });
}

/** Ends only this thread, after its resources have been closed. */
async function end(): Promise<void> {
  await turns();
  process.exit(0);
}

DisposableStack.opening((undo) => run(workerData as WorkerStart, undo)).catch((error: unknown) => {
  // The main thread terminates this worker only after it has received the message.
  send({ type: 'failed', reason: error instanceof Error ? error.message : String(error) });
});
