// Tool calls and reasoning blocks that a model generated, with their token IDs, and the keys under which they are
// stored. Pure.
import { hash } from 'node:crypto';

/** Maximum number of tokens of a tool call section or reasoning block. Longer items are not stored. */
export const MAX_ITEM_TOKENS = 32_768;

/**
 * call: a section with one or more tool calls. `index`: the index of the section's first call within the choice.
 * reasoning: a reasoning block from its opening to its closing marker. `text`: the reasoning as sent to the client.
 */
export type WrittenItem =
  | { readonly kind: 'call'; readonly index: number; readonly ids: Int32Array }
  | { readonly kind: 'reasoning'; readonly text: string; readonly ids: Int32Array };

const CALL_ID = /^(?:call|toolu)_([0-9A-Za-z]{24})$/;

/** Returns the key of a tool call. `random`: the random part of the call's ID. */
export const callKey = (random: string): string => `c${random}`;

/**
 * Returns the key of a tool call for an ID sent by a client. Returns null if the ID does not have the form of this
 * server's IDs.
 */
export function keyOfCallId(id: string): string | null {
  const random = CALL_ID.exec(id)?.[1];
  return random === undefined ? null : callKey(random);
}

/** Returns the key of a reasoning block: a hash of its text. */
export const reasoningKey = (text: string): string => `r${hash('sha256', text, 'base64url')}`;

/**
 * Encodes token IDs as LEB128: seven bits per byte, least significant first. The highest bit of a byte is set if more
 * bytes of the same ID follow.
 */
export function packTokens(ids: Int32Array): Uint8Array {
  const bytes = new Uint8Array(5 * ids.length);
  let at = 0;
  for (let id of ids) {
    for (; id > 0x7f; id >>>= 7) bytes[at++] = (id & 0x7f) | 0x80;
    bytes[at++] = id;
  }
  return bytes.slice(0, at);
}

/** Decodes the result of packTokens(). Returns null if the bytes are invalid. */
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
