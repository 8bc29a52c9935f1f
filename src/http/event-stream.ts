// One server-sent event stream: framing, one write per engine step, keep-alive by the clock, and a bounded
// buffer for slow readers.
//
//   send() ──► queue ──(end of this tick)──► write to the socket ──► clean: next send() writes again
//                ▲                                │
//                └────── waits while the socket is full (onWritable) ──► over the bound: dropped
//
// The server library keeps what one write leaves over; nothing more is written until it has drained, so
// the memory of a stream is its queue plus at most one write. An event is taken as long as what waits ahead
// of it is within the bound: one that is longer than all of it may still go to a reader who keeps up.

import type { HttpResponse } from 'uWebSockets.js';
import type { ApiError } from '../shared/errors.js';
import type { EventStream } from './exchange.js';

export interface StreamOptions {
  keepaliveMs: number;
  /** What is sent after that much silence. */
  keepalive: string;
  bufferBytes: number;
  /** Writes status and headers; called within the cork of the first write. */
  writeHead(): void;
  /** The answer is complete, or the reader was too slow (`dropped`). Called once, not after close(). */
  onEnd(dropped: boolean): void;
}

/** Streams that have something to write, of all this thread's: one microtask writes them all. */
const due: SseStream[] = [];

function writeDue(): void {
  for (let i = 0; i < due.length; i++) {
    // what is added meanwhile is written as well
    try {
      (due[i] as SseStream).flushDue();
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      }); // as an uncaught exception of its own: the others are written
    }
  }
  due.length = 0;
}

export class SseStream implements EventStream {
  started = false;
  /** What the last events tell of. */
  error: ApiError | null = null;
  private queue = '';
  private queueBytes = 0; // counted only while the socket is full
  private unsentBytes = 0; // upper bound of what the server library still holds
  private blocked = false; // the socket is full: wait for onWritable
  private overflowed = false;
  private scheduled = false;
  private ending = false;
  private closed = false;
  private readonly clock: NodeJS.Timeout;
  private readonly corked = (): void => this.write();

  constructor(
    private readonly res: HttpResponse,
    private readonly options: StreamOptions,
  ) {
    // The timer is re-armed by every write (refresh), so it measures silence, not progress of the engine.
    this.clock = setTimeout(() => this.keepAlive(), options.keepaliveMs);
    this.clock.unref();
  }

  get bufferedBytes(): number {
    return this.blocked ? this.queueBytes + this.unsentBytes : Buffer.byteLength(this.queue);
  }

  /** `data` must hold no line break (JSON has none). */
  send(data: string, event?: string): void {
    if (this.closed || this.ending || this.overflowed) return;
    const text = event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
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

  /** Writes at once what the tick has gathered; for callers that must know whether headers have left. */
  flush(): void {
    this.scheduled = false;
    if (this.closed) return;
    if (this.overflowed) {
      this.drop();
      return;
    }
    if (!this.blocked) this.res.cork(this.corked);
  }

  /** For writeDue(): flush(), unless it has come about in between. */
  flushDue(): void {
    if (this.scheduled) this.flush();
  }

  /** The client is gone or another answer was sent: nothing more is written. */
  close(): void {
    this.closed = true;
    this.queue = '';
    this.queueBytes = 0;
    clearTimeout(this.clock);
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    // All events of one engine step are sent within one callback; the microtask runs right after it.
    if (due.push(this) === 1) queueMicrotask(writeDue);
  }

  // Within a cork.
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
      if (queue !== '') this.res.write(queue); // end(queue) alone would make a short stream a body with a length
      this.res.end();
      this.options.onEnd(false);
      return;
    }
    if (queue === '' || this.res.write(queue)) return;
    this.blocked = true;
    this.unsentBytes = Buffer.byteLength(queue);
    this.res.onWritable(() => this.drained());
  }

  // The socket takes bytes again. The library sends what it still holds only along with a new write.
  private drained(): boolean {
    if (this.closed) return true;
    this.blocked = false;
    if (this.queue === '' && !this.ending) this.queue = ':\n\n';
    this.res.cork(this.corked);
    return true;
  }

  private keepAlive(): void {
    if (this.closed) return;
    this.clock.refresh();
    if (this.blocked) return; // bytes are waiting already: silence is the reader's
    this.queue += this.options.keepalive;
    this.flush();
  }

  private drop(): void {
    this.close();
    this.options.onEnd(true);
    this.res.close();
  }
}
