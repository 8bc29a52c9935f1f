// A small client for POST /v1/chat/completions that streams one response as text deltas.

import { SseParser } from '../shared/sse-parser.js';

/** Maximum length of an event, in characters. */
const LONGEST_EVENT = 64 * 1024 * 1024;

export type ContentPart = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } };

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string | readonly ContentPart[];
}

export interface ChatPiece {
  content: string;
  reasoning: string;
  /** Number of generated tokens. Set only in the last delta; null if the server does not report it. */
  tokens: number | null;
}

interface ChunkBody {
  error?: { message?: string };
  usage?: { completion_tokens?: number } | null;
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null } }[];
}

/** Describes why a server is unreachable. fetch() throws only "fetch failed"; the reason is in the error's `cause`. */
export function unreachable(url: string, error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { message, code } = cause as NodeJS.ErrnoException;
  // if several addresses refused the connection, the error has no message
  return `${url} cannot be reached: ${message || code || String(cause)}`;
}

/** Throws an Error that gives the reason if the server refuses the request, fails, or disconnects. */
export async function* streamChat(
  peer: { url: string; key: string },
  request: { model: string; messages: readonly ChatMessage[] } & Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): AsyncGenerator<ChatPiece> {
  const response = await fetch(`${peer.url}/v1/chat/completions`, {
    method: 'POST',
    signal,
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${peer.key}` },
  });
  if (!response.ok || response.body === null) {
    const body = (await response.json().catch(() => ({}))) as ChunkBody;
    throw new Error(body.error?.message ?? `the server returned status ${response.status}`);
  }
  let arrived: string[] = [];
  const events = new SseParser({
    maxLength: LONGEST_EVENT,
    tooLong: () => new Error('the server sent an event that is too long'),
    onEvent: ({ data }) => arrived.push(data),
  });
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    events.push(bytes);
    for (const data of arrived) {
      if (data === '[DONE]') continue;
      const chunk = JSON.parse(data) as ChunkBody;
      if (chunk.error !== undefined) throw new Error(chunk.error.message ?? 'the server failed');
      const delta = chunk.choices?.[0]?.delta;
      const tokens = chunk.usage?.completion_tokens ?? null;
      if (delta !== undefined || tokens !== null)
        yield { content: delta?.content ?? '', reasoning: delta?.reasoning_content ?? '', tokens };
    }
    arrived = [];
  }
}
