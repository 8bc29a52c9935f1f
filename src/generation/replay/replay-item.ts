// Tool calls and reasoning blocks that a model wrote, with the token IDs that it wrote them with, and the keys under
// which they are kept. Pure.
import { hash } from 'node:crypto';

/** Longer calls and reasoning blocks are not kept. */
export const MAX_ITEM_TOKENS = 32_768;

/**
 * call: a section with one or more calls. `index`: the index of its first call within the choice.
 * reasoning: a reasoning block from its opening to its closing marker. `text`: as the client received it.
 */
export type WrittenItem =
  | { readonly kind: 'call'; readonly index: number; readonly ids: Int32Array }
  | { readonly kind: 'reasoning'; readonly text: string; readonly ids: Int32Array };

const CALL_ID = /^(?:call|toolu)_([0-9A-Za-z]{24})$/;

/** The key of a call by the random part of its ID. */
export const callKey = (random: string): string => `c${random}`;

/** The key of a call by the ID that a client sent. Null: this server did not create the ID. */
export function keyOfCallId(id: string): string | null {
  const random = CALL_ID.exec(id)?.[1];
  return random === undefined ? null : callKey(random);
}

/** The key of a reasoning block by its text. */
export const reasoningKey = (text: string): string => `r${hash('sha256', text, 'base64url')}`;

/** Seven bits per byte, lowest first; the highest bit of a byte is set if more follow. */
export function packTokens(ids: Int32Array): Uint8Array {
  const bytes = new Uint8Array(5 * ids.length);
  let at = 0;
  for (let id of ids) {
    for (; id > 0x7f; id >>>= 7) bytes[at++] = (id & 0x7f) | 0x80;
    bytes[at++] = id;
  }
  return bytes.slice(0, at);
}

/** Null if the bytes are not the result of packTokens(). */
export function unpackTokens(bytes: Uint8Array): Int32Array | null {
  const ids: number[] = [];
  let id = 0;
  let shift = 0;
  for (const byte of bytes) {
    if (shift > 28) return null;
    id |= (byte & 0x7f) << shift;
    if (byte > 0x7f) {
      shift += 7;
      continue;
    }
    if (id < 0) return null;
    ids.push(id);
    id = shift = 0;
  }
  return shift === 0 ? Int32Array.from(ids) : null;
}
