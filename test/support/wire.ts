// Plain HTTP requests to a running server, for tests that check every byte of a response.
import type { Monolith } from '../e2e/monolith.js';

export interface WireEvent {
  event: string | null;
  data: string;
}
export interface Answer {
  status: number;
  headers: Headers;
  body: unknown;
  text: string;
}

export function post(
  server: Monolith,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal: AbortSignal | null = null,
): Promise<Response> {
  return fetch(`${server.url}${path}`, {
    method: 'POST',
    signal,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json', ...headers },
  });
}

/** Returns a complete response, parsed as JSON. */
export async function ask(
  server: Monolith,
  path: string,
  body: unknown,
  headers?: Record<string, string>,
): Promise<Answer> {
  return read(await post(server, path, body, headers));
}

export async function get(
  server: Monolith,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<Answer> {
  return read(
    await fetch(`${server.url}${path}`, { method, headers: { authorization: `Bearer ${server.key}`, ...headers } }),
  );
}

async function read(response: Response): Promise<Answer> {
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text === '' ? undefined : (JSON.parse(text) as unknown),
  };
}

/** Returns a stream's events in order, without comments. Throws if the response is not a stream. */
export async function events(response: Response): Promise<WireEvent[]> {
  const text = await response.text();
  if (response.headers.get('content-type') !== 'text/event-stream; charset=utf-8')
    throw new Error(`not a stream: ${response.status} ${text.slice(0, 300)}`);
  return text
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const lines = block.split('\n').filter((line) => !line.startsWith(':'));
      if (lines.length === 0) return [];
      const field = (name: string): string | null =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? null;
      return [{ event: field('event'), data: field('data') ?? '' }];
    });
}
