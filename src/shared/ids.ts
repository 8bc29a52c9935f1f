// Identifiers, which consist of a prefix and cryptographically random characters. They are opaque, and one ID reveals
// nothing about another. IDs of stored rows start with the time. Owns a small pool of random bytes; event-loop thread
// only.

import { hash, randomFillSync } from 'node:crypto';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

// The random generator is called once per pool rather than once per ID. 4096 bytes are enough for about 130 request
// IDs.
const pool = Buffer.alloc(4096);
let used = pool.length;

function randomByte(): number {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const byte = pool[used] as number;
  pool[used++] = 0; // erases bytes that have become part of an ID
  return byte;
}

/** `length` base62 characters. Bytes of 248 and above are rejected, so that every character is equally likely. */
export function base62(length: number): string {
  let text = '';
  while (text.length < length) {
    const byte = randomByte();
    if (byte < 248) text += BASE62[byte % 62];
  }
  return text;
}

/**
 * `length` hexadecimal digits; `length` must be even and at most twice the pool size. They are created in one call,
 * because joining single digits would allocate one string per digit.
 */
export function hex(length: number): string {
  const bytes = length / 2;
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const text = pool.toString('hex', used, used + bytes);
  pool.fill(0, used, used + bytes);
  used += bytes;
  return text;
}

/** Returns the ID of the response to a rerank or score request. */
export const newRankingId = (kind: 'rerank' | 'score'): string => `${kind}-${base62(24)}`;
export const newRequestId = (): string => `req_${base62(24)}`;
export const newChatCompletionId = (): string => `chatcmpl-${base62(29)}`;
export const newCompletionId = (): string => `cmpl-${base62(29)}`;
export const newMessageId = (): string => `msg_${base62(24)}`;
/** Returns the random part of a tool call's ID. */
export const newCallKey = (): string => base62(24);
export const newToolCallId = (key = newCallKey()): string => `call_${key}`;
export const newToolUseId = (key = newCallKey()): string => `toolu_${key}`;
export const newMcpToolUseId = (): string => `mcptoolu_${base62(24)}`;
export const newServerToolUseId = (): string => `srvtoolu_${base62(24)}`;
/**
 * 48 hexadecimal digits: twelve for the time in milliseconds, then 144 random bits. Therefore, rows that are stored and
 * expire together are adjacent in key order, and a database writes only a few pages for many of them.
 */
const timedHex = (ms = Date.now()): string => `${ms.toString(16).padStart(12, '0')}${hex(36)}`;
export const newResponseId = (): string => `resp_${timedHex()}`;
const RESPONSE_ID = /^resp_[0-9a-f]{48}$/;
/** Matches response IDs. Other strings may be too long for a storage key. */
export const isResponseId = (text: string): boolean => RESPONSE_ID.test(text);

/** Returns the ID of a chat completion that is stored. `ms`: its time, so that IDs sort by time. */
export const newStoredCompletionId = (ms = Date.now()): string => `chatcmpl-${timedHex(ms)}`;
const STORED_COMPLETION_ID = /^chatcmpl-[0-9a-f]{48}$/;
export const isStoredCompletionId = (text: string): boolean => STORED_COMPLETION_ID.test(text);

export const newConversationId = (): string => `conv_${timedHex()}`;
const CONVERSATION_ID = /^conv_[0-9a-f]{48}$/;
export const isConversationId = (text: string): boolean => CONVERSATION_ID.test(text);

const EVENT_ID = /^evt_[0-9a-f]{48}$/;
export const isEventId = (text: string): boolean => EVENT_ID.test(text);

/** Returns a webhook event's ID. */
export const newEventId = (): string => `evt_${timedHex()}`;
export const newFileId = (): string => `file-${timedHex()}`;
/** Returns the same file ID for the same arguments. `source` must not be guessable. `ms`: the time in the ID. */
export const derivedFileId = (ms: number, source: string): string =>
  `file-${ms.toString(16).padStart(12, '0')}${hash('sha256', source).slice(0, 36)}`;
const FILE_ID = /^file-[0-9a-f]{48}$/;
export const isFileId = (text: string): boolean => FILE_ID.test(text);
export const newUploadId = (): string => `upload_${timedHex()}`;
const UPLOAD_ID = /^upload_[0-9a-f]{48}$/;
export const isUploadId = (text: string): boolean => UPLOAD_ID.test(text);
export const newPartId = (): string => `part_${timedHex()}`;
const BATCH_PREFIX = { openai: 'batch', messages: 'msgbatch' } as const;
export const newBatchId = (kind: keyof typeof BATCH_PREFIX): string => `${BATCH_PREFIX[kind]}_${timedHex()}`;
const BATCH_ID = /^(msg)?batch_[0-9a-f]{48}$/;
export const isBatchId = (text: string): boolean => BATCH_ID.test(text);

export type ItemPrefix =
  | 'msg'
  | 'fc'
  | 'fco'
  | 'ctc'
  | 'ctco'
  | 'rs'
  | 'ws'
  | 'cmp'
  | 'mcpl'
  | 'mcp'
  | 'mcpr'
  | 'mcpa'
  | 'item';
export const newItemId = (prefix: ItemPrefix): string => `${prefix}_${timedHex()}`;

export type AccountPrefix = 'user' | 'org' | 'key' | 'sess' | 'inv' | 'aud' | 'pul' | 'tun' | 'sav' | 'svc' | 'wh';
export const newAccountId = (prefix: AccountPrefix): string => `${prefix}_${base62(24)}`;

/**
 * A new API key, `sk-<48 base62>`, and its public part, the first 8 characters after the prefix. There is no other
 * separator, so that a double click selects the whole key. Keys of earlier releases have a `-` after the public part.
 */
export function newApiKey(): { secret: string; publicId: string } {
  const publicId = base62(8);
  return { secret: `sk-${publicId}${base62(40)}`, publicId };
}
