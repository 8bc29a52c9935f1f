// Server-sent events read from a fetch body: what EventSource does, for requests that are POSTs or must be
// able to see a status. Needs no DOM.

export interface ServerEvent {
  event: string;
  data: string;
}

/** An event this long is none of ours. */
const MAX_EVENT_CHARACTERS = 16 * 1024 * 1024;

export class StreamError extends Error {
  override readonly name = 'StreamError';
}

/** Takes text in any pieces and gives back the events that are complete. Comments are dropped. */
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
    let seen = this.#rest.endsWith('\r') ? this.#rest.length - 1 : this.#rest.length; // has no line end
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
      throw new StreamError('An event of the stream is too long.');
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

/** Where the line ends; -1: not yet. A CR that is the last character may be half of a CRLF. */
function lineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 10 || (code === 13 && at + 1 < text.length)) return at;
  }
  return -1;
}

export interface ReadOptions {
  /** Silence, keep-alive comments included, after which the connection counts as lost; none if absent. */
  idleMs?: number;
}

/** The events of a body until it ends. Throws StreamError after too long a silence, else what fetch throws. */
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
    // Also when the reader of the events stops early: the server then sees that nobody listens.
    await reader.cancel().catch(() => undefined);
  }
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new StreamError(`The server has been silent for ${Math.round(ms / 1000)} seconds.`));
    }, ms);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => undefined); // its rejection may come after the silence
  }
}
