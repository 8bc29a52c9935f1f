// What a balancer in front of several processes can send a conversation's requests to one of them by: a prefix cache is each
// process's own. The same for every turn of a conversation, because it goes by how that begins: everything up to the first
// user's message, of which no more than this file says. A keyed hash: without the key nobody can try texts against it.
// Pure.

import { createHmac } from 'node:crypto';
import type { Content, GenerationRequest } from '../generation/types.js';

export const AFFINITY_HEADER = 'x-monolith-affinity';

/** Of the text that a conversation begins with; some pages of most models' caches. */
const CHARACTERS = 4_096;
const TOKENS = 1_024;

export class Affinity {
  /** `key`: of all processes alike. */
  constructor(private readonly key: Uint8Array) {}

  /** 22 characters of base64url. */
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

/** Of an image, that there is one. */
function textOf(content: Content | null): string {
  if (content === null || typeof content === 'string') return content ?? '';
  let text = '';
  for (const part of content) {
    text += part.type === 'text' ? part.text : `\n${part.type}\n`;
    if (text.length >= CHARACTERS) break;
  }
  return text;
}
