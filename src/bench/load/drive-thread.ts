// Runs a Drive in a worker thread that is controlled by messages. This file contains both ends of the channel.

import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { Drive } from './drive.js';
import type { DriveResult, Share } from './drive.js';
import type { LedgerMemory } from './ledger.js';
import type { LoadRun } from './types.js';

interface Task {
  readonly loadtest: true;
  readonly run: LoadRun;
  readonly memory: LedgerMemory;
  readonly share: Share;
}

/** The calling thread's end. */
export class DriveThread {
  readonly #worker: Worker;

  constructor(run: LoadRun, memory: LedgerMemory, share: Share) {
    const task: Task = { loadtest: true, run, memory, share };
    this.#worker = new Worker(fileURLToPath(import.meta.url), { workerData: task, name: `load-${share.index}` });
  }

  /** Resolves when the thread is ready to start. */
  async ready(): Promise<void> {
    await this.#next();
  }

  async go(startedAt: number): Promise<DriveResult> {
    this.#worker.postMessage(startedAt);
    return (await this.#next()) as DriveResult;
  }

  stop(): void {
    this.#worker.postMessage('stop');
  }

  end(): void {
    this.#worker.postMessage('end');
  }

  #next(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#worker.once('message', resolve);
      this.#worker.once('error', reject);
      this.#worker.once('exit', (code) => reject(new Error(`a load generator thread exited with code ${code}`)));
    });
  }
}

const task = workerData as Partial<Task> | null;
if (!isMainThread && parentPort !== null && task?.loadtest === true) {
  const { run, memory, share } = task as Task;
  const port = parentPort;
  const drive = new Drive(run, memory, share);
  port.on('message', (message: 'stop' | 'end' | number) => {
    if (message === 'stop') drive.stop();
    else if (message === 'end') port.close();
    else void drive.go(message).then((result) => port.postMessage(result));
  });
  port.postMessage('ready');
}
