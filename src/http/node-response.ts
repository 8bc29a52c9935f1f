// A transport's response on an http.ServerResponse.
//
// A write is passed to the kernel immediately, as uWebSockets.js does. Data that the kernel does not accept stays in
// the socket's buffer. In that case, the write returns false, and onWritable() calls back when the buffer is empty. A
// client that reads nothing for STALL_MS is disconnected.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { TakePiece, TransportResponse } from './transport.js';

/** A client is disconnected if it reads nothing for this many milliseconds while data is waiting for it. */
const STALL_MS = 10_000;
/** Maximum size of one write of a large response. The socket's buffer holds at most this much of the response. */
const PART_BYTES = 262_144;
const EMPTY = new Uint8Array(0);

export class NodeResponse implements TransportResponse {
  /** Whether the response is incomplete and the connection is open. */
  open = true;
  /** Whether the status and headers have been sent. */
  started = false;
  private status = 200;
  private reason = 'OK';
  private readonly headers: string[] = [];
  private aborted: (() => void) | null = null;
  private writable: ((offset: number) => boolean) | null = null;
  private blocked = false; // a write returned false
  private offset = 0; // bytes passed to tryEnd()
  private total = -1; // set by tryEnd()
  private takesBody = false;
  private closes = false;
  private readonly socket: Socket;
  private readonly flushed = (error?: Error | null): void => this.drained(error);

  constructor(
    private readonly incoming: IncomingMessage,
    private readonly res: ServerResponse,
    /**
     * Called when the response is complete, but not if the connection is closed first. `closes`: this is the last
     * response on the connection.
     */
    private readonly completed: (closes: boolean) => void,
  ) {
    this.socket = incoming.socket;
    res.on('error', () => undefined); // the connection was closed, which abort() reports
  }

  /** The request's body is incomplete, so arriving bytes belong to it. */
  get receiving(): boolean {
    return !this.incoming.complete;
  }

  onData(take: TakePiece): void {
    this.takesBody = true;
    const declared = Number(this.incoming.headers['content-length'] ?? NaN);
    let size = 0;
    this.incoming.on('data', (piece: Buffer) => {
      size += piece.length;
      take(piece, size === declared);
    });
    this.incoming.on('end', () => {
      if (size !== declared || size === 0) take(EMPTY, true);
    });
  }

  /** Discards the body if no handler reads it. Called after the request has been passed to its handler. */
  discardBody(): void {
    if (!this.takesBody) this.incoming.resume();
  }

  pause(): void {
    this.incoming.pause();
  }

  resume(): void {
    this.incoming.resume();
  }

  onAborted(callback: () => void): void {
    this.aborted = callback;
  }

  /** Node.js sends headers and data together anyway. */
  cork(work: () => void): void {
    work();
  }

  writeStatus(status: string): void {
    this.status = Number(status.slice(0, 3));
    this.reason = status.slice(4);
  }

  writeHeader(name: string, value: string): void {
    // Node.js decides whether a connection stays open: an HTTP/1.0 stream ends with its connection.
    if (name.toLowerCase() !== 'connection') this.headers.push(name, value);
  }

  /** The headers written so far, as lines. */
  headerLines(): string[] {
    return this.headers.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${this.headers[i + 1] ?? ''}`] : []));
  }

  write(text: string): boolean {
    if (!this.open) return true;
    this.sendHead();
    return this.push(text);
  }

  onWritable(callback: (offset: number) => boolean): void {
    this.writable = callback;
  }

  tryEnd(piece: Uint8Array, total: number): [ok: boolean, done: boolean] {
    if (!this.open) return [true, true];
    if (!this.started) {
      this.total = total;
      this.headers.push('Content-Length', String(total));
      this.sendHead();
    }
    for (let at = 0; at < piece.length; at += PART_BYTES) {
      const part = piece.subarray(at, at + PART_BYTES);
      this.offset += part.length;
      if (!this.push(part)) return [false, false];
    }
    if (this.offset < total) return [true, false];
    this.finish();
    return [true, true];
  }

  end(body?: string | Uint8Array, closeConnection = false): void {
    if (!this.open) return;
    if (!this.started) {
      if (closeConnection) this.sayClose();
      this.headers.push('Content-Length', String(body === undefined ? 0 : Buffer.byteLength(body)));
      this.sendHead();
    }
    this.finish(body);
  }

  endWithoutBody(length?: number, closeConnection = false): void {
    if (!this.open) return;
    if (closeConnection) this.sayClose();
    if (length !== undefined) this.headers.push('Content-Length', String(length));
    this.sendHead();
    this.finish();
  }

  close(): void {
    this.abort();
    this.socket.destroy();
  }

  /** Called when the connection was closed. Idempotent. */
  abort(): void {
    if (!this.open) return;
    this.open = false;
    this.aborted?.();
  }

  /** Called when the connection becomes a WebSocket. */
  release(): void {
    this.open = false;
    this.res.detachSocket(this.socket);
  }

  getRemoteAddressAsText(): string {
    return (this.socket.remoteAddress ?? '').replace(/^::ffff:(?=[\d.]+$)/, '');
  }

  private sayClose(): void {
    this.closes = true;
    this.headers.push('Connection', 'close');
  }

  private sendHead(): void {
    if (this.started) return;
    this.started = true;
    this.res.writeHead(this.status, this.reason, this.headers);
  }

  private finish(body?: string | Uint8Array): void {
    this.open = false;
    if (body === undefined) this.res.end();
    else this.res.end(body);
    // Node.js starts the timeout for idle connections when the client has received everything.
    if (this.socket.writableLength > 0) this.socket.setTimeout(STALL_MS);
    this.completed(this.closes);
  }

  /** Passes data to the kernel immediately. Returns false if some of it remains in the socket's buffer. */
  private push(data: string | Uint8Array): boolean {
    const { res, socket } = this;
    res.cork(); // otherwise Node.js sends the data at the end of the tick
    res.write(data, this.flushed);
    res.uncork();
    if (res.socket !== null && socket.writableLength === 0) return true;
    this.blocked = true;
    socket.setTimeout(STALL_MS); // destroys the socket; any progress restarts it
    return false;
  }

  private drained(error: Error | null | undefined): void {
    if (error || !this.open || !this.blocked || this.socket.writableLength > 0) return;
    this.blocked = false;
    this.socket.setTimeout(0);
    if (this.offset === this.total) this.finish();
    this.writable?.(this.offset);
  }
}
