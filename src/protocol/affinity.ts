// A value that lets a load balancer route all requests of a conversation to the same process, because each process has
// its own prefix cache. The value is the same for every turn: it depends only on the start of the conversation, up to
// and including the first user message. It is a keyed hash, so that a guessed text cannot be checked against it without
// the key. No side effects.

import { createHmac } from 'node:crypto';
import type { Content, GenerationRequest } from '../generation/types.js';

export const AFFINITY_HEADER = 'x-monolith-affinity';

/** Only this many characters or tokens from the start are hashed. For most models, that fills a few KV-cache pages. */
const CHARACTERS = 4_096;
const TOKENS = 1_024;

export class Affinity {
  /** `key` must be the same in all processes. */
  constructor(private readonly key: Uint8Array) {}

  /** Returns 22 base64url characters. */
  of(organizationId: string, model: string, request: Pick<GenerationRequest, 'messages' | 'raw'>): string {
    const hash = createHmac('sha256', this.key).update(`${organizationId}\n${model}\n`).update(beginning(request));
    return hash.digest('base64url').slice(0, 22);
  }
}

function beginning({ raw, messages }: Pick<GenerationRequest, 'messages' | 'raw'>): string {
  if (raw !== undefined)
    return raw.kind === 'text' ? raw.text.slice(0, CHARACTERS) : raw.tokens.slice(0, TOKENS).join();
  let text = '';
  for (const { role, content } of messages) {
    text += `\n${role}\n${textOf(content).slice(0, CHARACTERS - text.length)}`;
    if (role === 'user' || text.length >= CHARACTERS) break;
  }
  return text;
}

/** An image contributes only a marker that an image is present. */
function textOf(content: Content | null): string {
  if (content === null || typeof content === 'string') return content ?? '';
  let text = '';
  for (const part of content) {
    text += part.type === 'text' ? part.text : `\n${part.type}\n`;
    if (text.length >= CHARACTERS) break;
  }
  return text;
}
