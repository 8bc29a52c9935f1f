// Reads server-sent events from a fetch body. Used where EventSource is not suitable: for POST requests, and where the
// response status matters. Does not need the DOM.

import { SseParser } from '../../../../shared/sse-parser.js';

export interface ServerEvent {
  event: string;
  data: string;
}

/** Maximum length of an event. The server never sends an event this long. */
const MAX_EVENT_CHARACTERS = 16 * 1024 * 1024;

export class StreamError extends Error {
  override readonly name = 'StreamError';
}

export interface ReadOptions {
  /** The connection counts as lost after this long without data or keep-alive comments. Absent means no limit. */
  idleMs?: number;
}

/**
 * Yields the events in a body until it ends. Throws StreamError if no data arrives for too long, and passes on errors
 * thrown by fetch.
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
    // This also runs if the consumer stops early, so that the server notices the disconnect.
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
    promise.catch(() => undefined); // it may still reject after the timeout
  }
}
