// One stream of server-sent events or of JSON lines: framing, one write per engine step, timed keep-alives, and a
// bounded buffer for slow readers.
//
//   send() ──► queue ──(end of this tick)──► write to the socket ──► clean: next send() writes again
//                ▲                                │
//                └────── waits while the socket is full (onWritable) ──► over the limit: dropped
//
// uWebSockets.js buffers the part of a write that the socket did not accept. Nothing more is written until that buffer
// has drained, so a stream's memory is its queue plus at most one write. An event is accepted as long as the bytes
// queued before it are within the limit, so a single event above the limit can still reach a client that keeps up.

import type { TransportResponse } from './transport.js';
import type { ApiError } from '../shared/errors.js';
import type { EventStream } from './exchange.js';

/**
 * A keep-alive comment. No blank line follows it, because older versions of openai-go treat every blank line as the end
 * of an event, and an event without data ends their stream.
 */
export const COMMENT = ': keep-alive\n';

/** The wire format of a stream's events. */
export interface Framing {
  frame(data: string, event?: string): string;
  /** Sent to keep a silent connection alive. */
  readonly keepalive: string;
  /** Sent to make the library write the bytes that it still buffers. */
  readonly filler: string;
}

export const sseFraming = (keepalive: string): Framing => ({
  frame: (data, event) => (event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`),
  keepalive,
  filler: ':\n',
});

/**
 * One JSON text per line. JSON allows white space before a value, so a space keeps the connection alive and becomes the
 * beginning of the next line. A blank line would not work, because most clients parse every line.
 */
export const LINES: Framing = { frame: (data) => `${data}\n`, keepalive: ' ', filler: ' ' };

export interface StreamOptions {
  framing: Framing;
  /** A keep-alive is sent after this many milliseconds without a write. */
  keepaliveMs: number;
  bufferBytes: number;
  /** Writes the status and headers. Called inside the cork of the first write. */
  writeHead(): void;
  /**
   * Called when the response is complete, or when the client was too slow to read it (`dropped`). Called once, but not
   * after close().
   */
  onEnd(dropped: boolean): void;
}

/** All streams of this thread with pending data. One microtask writes them all. */
const due: SseStream[] = [];

function writeDue(): void {
  for (let i = 0; i < due.length; i++) {
    // Streams added during the loop are also written.
    try {
      (due[i] as SseStream).flushDue();
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      }); // rethrown as an uncaught exception, so that the other streams are still written
    }
  }
  due.length = 0;
}

export class SseStream implements EventStream {
  started = false;
  /** The error reported in the last events. */
  error: ApiError | null = null;
  private queue = '';
  private queueBytes = 0; // counted only while the socket is full
  private unsentBytes = 0; // upper bound on the bytes that the library still buffers
  private blocked = false; // the socket is full: wait for onWritable
  private overflowed = false;
  private scheduled = false;
  private ending = false;
  private closed = false;
  private readonly clock: NodeJS.Timeout;
  private readonly corked = (): void => this.write();

  constructor(
    private readonly res: TransportResponse,
    private readonly options: StreamOptions,
  ) {
    // Every write restarts the timer, so the timer measures silence on the connection and not a lack of progress in the
    // engine.
    this.clock = setTimeout(() => this.keepAlive(), options.keepaliveMs);
    this.clock.unref();
  }

  get bufferedBytes(): number {
    return this.blocked ? this.queueBytes + this.unsentBytes : Buffer.byteLength(this.queue);
  }

  /** `data` must not contain a line break (JSON has none). */
  send(data: string, event?: string): void {
    if (this.closed || this.ending || this.overflowed) return;
    const text = this.options.framing.frame(data, event);
    if (this.blocked) {
      this.overflowed = this.queueBytes > this.options.bufferBytes;
      this.queueBytes += Buffer.byteLength(text);
    }
    this.queue += text;
    if (!this.blocked || this.overflowed) this.schedule();
  }

  end(error: ApiError | null = null): void {
    if (this.closed || this.ending) return;
    this.ending = true;
    this.error = error;
    this.schedule();
  }

  abort(error: ApiError): void {
    if (this.closed || this.ending) return;
    this.error = error;
    this.close();
    this.res.close(); // calls the handler of a disconnect, which ends the request
  }

  /**
   * Immediately writes everything queued in this tick, for callers that need to know whether headers have been sent.
   */
  flush(): void {
    this.scheduled = false;
    if (this.closed) return;
    if (this.overflowed) {
      this.drop();
      return;
    }
    if (!this.blocked) this.res.cork(this.corked);
  }

  /** Called by writeDue(). Flushes the queue unless it has been flushed since schedule(). */
  flushDue(): void {
    if (this.scheduled) this.flush();
  }

  /** Called when the client has disconnected or another response was sent. Nothing more is written. */
  close(): void {
    this.closed = true;
    this.queue = '';
    this.queueBytes = 0;
    clearTimeout(this.clock);
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    // All events of one engine step are sent within one callback, and the microtask runs right after it.
    if (due.push(this) === 1) queueMicrotask(writeDue);
  }

  // Must run inside a cork.
  private write(): void {
    if (!this.started) {
      this.started = true;
      this.options.writeHead();
    }
    const { queue } = this;
    this.queue = '';
    this.queueBytes = 0;
    this.clock.refresh();
    if (this.ending) {
      this.close();
      if (queue !== '') this.res.write(queue); // calling only end(queue) would send a short stream with Content-Length
      this.res.end();
      this.options.onEnd(false);
      return;
    }
    if (queue === '' || this.res.write(queue)) return;
    this.blocked = true;
    this.unsentBytes = Buffer.byteLength(queue);
    this.res.onWritable(() => this.drained());
  }

  // Called when the socket accepts data again. The library sends its remaining buffered bytes only together with a new
  // write.
  private drained(): boolean {
    if (this.closed) return true;
    this.blocked = false;
    if (this.queue === '' && !this.ending) this.queue = this.options.framing.filler;
    this.res.cork(this.corked);
    return true;
  }

  private keepAlive(): void {
    if (this.closed) return;
    this.clock.refresh();
    if (this.blocked) return; // data is already waiting, which shows that the client is not reading
    this.queue += this.options.framing.keepalive;
    this.flush();
  }

  private drop(): void {
    this.close();
    this.options.onEnd(true);
    this.res.close();
  }
}
