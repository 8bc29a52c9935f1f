// Reads server-sent events from a fetch body. Replaces EventSource for requests that are POSTs or need the response
// status. Needs no DOM.

import { SseParser } from '../../../../shared/sse-parser.js';

export interface ServerEvent {
  event: string;
  data: string;
}

/** The server never sends an event this long. */
const MAX_EVENT_CHARACTERS = 16 * 1024 * 1024;

export class StreamError extends Error {
  override readonly name = 'StreamError';
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
  let events: ServerEvent[] = [];
  const parser = new SseParser({
    maxLength: MAX_EVENT_CHARACTERS,
    tooLong: () => new StreamError('The server sent an event that is too long.'),
    onEvent: ({ event, data }) => events.push({ event: event === '' ? 'message' : event, data }),
  });
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await (idleMs === undefined ? reader.read() : within(reader.read(), idleMs));
      if (done) return;
      parser.push(value);
      yield* events;
      events = [];
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
