// Reads server-sent events from a fetch body. Replaces EventSource for requests that are POSTs or need the response
// status. Needs no DOM.

export interface ServerEvent {
  event: string;
  data: string;
}

/** The server never sends an event this long. */
const MAX_EVENT_CHARACTERS = 16 * 1024 * 1024;

export class StreamError extends Error {
  override readonly name = 'StreamError';
}

/** Takes text in chunks of any size and returns the events that are complete. Drops comments. */
export class EventParser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  #length = 0;
  #first = true;

  push(text: string): ServerEvent[] {
    if (this.#first && text !== '') {
      this.#first = false;
      if (text.startsWith('\uFEFF')) text = text.slice(1);
    }
    const events: ServerEvent[] = [];
    let from = 0;
    // the last line has no line end yet
    let seen = this.#rest.endsWith('\r') ? this.#rest.length - 1 : this.#rest.length;
    text = this.#rest + text;
    for (;;) {
      const end = lineEnd(text, Math.max(from, seen));
      if (end === -1) break;
      seen = 0;
      this.#line(text.slice(from, end), events);
      from = text[end] === '\r' && text[end + 1] === '\n' ? end + 2 : end + 1;
    }
    this.#rest = text.slice(from);
    if (this.#rest.length + this.#length > MAX_EVENT_CHARACTERS)
      throw new StreamError('The server sent an event that is too long.');
    return events;
  }

  #line(line: string, events: ServerEvent[]): void {
    if (line === '') {
      if (this.#data.length > 0)
        events.push({ event: this.#event === '' ? 'message' : this.#event, data: this.#data.join('\n') });
      this.#event = '';
      this.#data = [];
      this.#length = 0;
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'event') this.#event = value;
    if (field === 'data') {
      this.#data.push(value);
      this.#length += value.length + 1;
    }
  }
}

/** Index of the line end, or -1 if it has not arrived. A CR as the last character may be the first half of a CRLF. */
function lineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 10 || (code === 13 && at + 1 < text.length)) return at;
  }
  return -1;
}

export interface ReadOptions {
  /** The connection counts as lost after this long without data, keep-alive comments included. No limit if absent. */
  idleMs?: number;
}

/**
 * Yields the events of a body until it ends. Throws StreamError after too long a silence, or the error that fetch
 * throws.
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  { idleMs }: ReadOptions = {},
): AsyncGenerator<ServerEvent, void, undefined> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await (idleMs === undefined ? reader.read() : within(reader.read(), idleMs));
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // Also runs when the consumer stops early, so that the server sees the disconnect.
    await reader.cancel().catch(() => undefined);
  }
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new StreamError(`No data from the server for ${Math.round(ms / 1000)} seconds.`));
    }, ms);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => undefined); // it may reject after the timeout
  }
}
