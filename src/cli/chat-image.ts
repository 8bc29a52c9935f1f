// Reads an image file for a chat message.

import { readFileSync, statSync } from 'node:fs';
import { expanded } from '../config/home.js';

/** Maximum size of an image file. It only protects the chat process's memory; the server's limits are lower. */
const MAX_BYTES = 64 * 1024 * 1024;

const SIGNATURES: readonly (readonly [string, RegExp])[] = [
  ['image/png', /^\x89PNG/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8/],
  ['image/webp', /^RIFF.{4}WEBP/s],
];

export interface ChatImage {
  readonly url: string;
  readonly bytes: number;
}

/** Returns a data URL. Throws an Error that names the file and the problem. */
export function readImage(path: string): ChatImage {
  const file = expanded(path);
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) throw new Error(`${path}: no such file`);
  if (!stat.isFile()) throw new Error(`${path}: not a file`);
  if (stat.size > MAX_BYTES) throw new Error(`${path}: larger than ${MAX_BYTES / 1024 / 1024} MiB`);
  const content = readFileSync(file);
  const start = content.subarray(0, 16).toString('latin1');
  const type = SIGNATURES.find(([, signature]) => signature.test(start))?.[0];
  if (type === undefined) throw new Error(`${path}: not a PNG, JPEG, GIF or WebP image`);
  return { url: `data:${type};base64,${content.toString('base64')}`, bytes: content.length };
}
