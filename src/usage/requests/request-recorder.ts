// A RequestSink that batches: finished requests are collected for 250 ms and written together (BatchWriter). No request
// waits for the write. One per HTTP worker thread; used only on its event loop.

import type { Config } from '../../config/settings.js';
import type { RequestEntry, RequestSink } from '../../shared/request-entry.js';
import { BatchWriter } from '../../storage/batch-writer.js';
import type { Log } from '../../telemetry/types.js';
import type { RequestLog } from './request-log.js';

/** Maximum number of entries per write. A write of this size takes a few milliseconds. */
const BATCH = 100;
const MAX_WAITING = 20_000;
/** If more entries than this are waiting, prompts and responses are omitted, because they are large. */
const MAX_WAITING_WITH_TEXT = 500;

export class RequestRecorder implements RequestSink {
  readonly textCharacters: number;
  readonly #writer: BatchWriter<RequestEntry> | null;

  constructor(requests: Pick<RequestLog, 'add'>, { days, text_characters }: Config['requests'], log: Log) {
    this.textCharacters = text_characters;
    this.#writer =
      days === 0
        ? null
        : new BatchWriter({
            what: 'the request log',
            write: (batch) => requests.add(batch),
            log,
            batch: BATCH,
            maxWaiting: MAX_WAITING,
          });
  }

  add(entry: RequestEntry): void {
    if (this.#writer === null) return;
    this.#writer.add(
      entry.text !== null && this.#writer.waiting >= MAX_WAITING_WITH_TEXT ? { ...entry, text: null } : entry,
    );
  }

  flush(): Promise<void> {
    return this.#writer?.flush() ?? Promise.resolve();
  }

  close(): Promise<void> {
    return this.#writer?.close() ?? Promise.resolve();
  }
}
