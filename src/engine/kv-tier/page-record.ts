// One record of the page files: a header in plain text, and the positions' content and the data, encrypted. The
// authentication tag covers all of it and is the record's checksum.
//
//   magic, version, part │ engine key │ organization │ digest │ parent │ page │ length │ nonce │ (content, data) │ tag
//
// The fields are repeated in the header and in the encrypted content, and are compared when the record is read, so that
// a digest alone never decides which page is used.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { CONTENT_BYTES, DIGEST_BYTES, type ChainPage, type OrganizationKeys } from './page-content.js';

/** Increased when the format changes. Records of another version are dropped. */
const VERSION = 1;
const MAGIC = 0x50564b4d; // "MKVP"
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const ENGINE_KEY_BYTES = 32;
const ORGANIZATION_BYTES = 64;
const HEADER_BYTES = 4 + 2 + 1 + 1 + ENGINE_KEY_BYTES + ORGANIZATION_BYTES + 2 * DIGEST_BYTES + 4 + 4 + NONCE_BYTES;

/** The parts of a page. Each part has its own record. */
export const PARTS = ['full', 'window', 'snapshot'] as const;
export type PagePart = (typeof PARTS)[number];

export interface RecordName {
  readonly engine: Buffer;
  readonly organization: OrganizationKeys;
  readonly page: ChainPage;
  readonly part: PagePart;
}

export const recordBytes = (dataBytes: number): number => HEADER_BYTES + CONTENT_BYTES + dataBytes + TAG_BYTES;

function header({ engine, organization, page, part }: RecordName, dataBytes: number, nonce: Uint8Array): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  let at = bytes.writeUInt32LE(MAGIC, 0);
  at = bytes.writeUInt16LE(VERSION, at);
  at = bytes.writeUInt8(PARTS.indexOf(part), at);
  at = bytes.writeUInt8(page.parent.length, at);
  at += engine.copy(bytes, at, 0, ENGINE_KEY_BYTES);
  bytes.write(organization.id, at, ORGANIZATION_BYTES, 'latin1');
  at += ORGANIZATION_BYTES;
  page.digest.copy(bytes, at);
  page.parent.copy(bytes, at + DIGEST_BYTES);
  at += 2 * DIGEST_BYTES;
  at = bytes.writeUInt32LE(page.index, at);
  at = bytes.writeUInt32LE(dataBytes, at);
  bytes.set(nonce, at);
  return bytes;
}

/** Writes a record into `into`. The rest of `into` is filled with zeros. `encrypts` is false only in tests. */
export function sealRecord(name: RecordName, data: Uint8Array, into: Buffer, encrypts = true): void {
  const nonce = randomBytes(NONCE_BYTES);
  const head = header(name, data.length, nonce);
  const cipher = createCipheriv('aes-256-gcm', name.organization.encryption, nonce);
  cipher.setAAD(encrypts ? head : Buffer.concat([head, name.page.content, data]));
  let at = head.copy(into);
  for (const part of [name.page.content, data]) {
    if (encrypts) into.set(cipher.update(part), at);
    else into.set(part, at);
    at += part.length;
  }
  cipher.final();
  at += cipher.getAuthTag().copy(into, at);
  into.fill(0, at);
}

/** Returns the data of a record, or null if the record is incomplete, corrupt or not the expected one. */
export function openRecord(name: RecordName, record: Buffer, encrypts = true): Buffer | null {
  if (record.length < recordBytes(0) || record.readUInt32LE(0) !== MAGIC) return null;
  const head = record.subarray(0, HEADER_BYTES);
  const dataBytes = head.readUInt32LE(HEADER_BYTES - NONCE_BYTES - 4);
  const nonce = head.subarray(HEADER_BYTES - NONCE_BYTES);
  if (record.length < recordBytes(dataBytes) || !head.equals(header(name, dataBytes, nonce))) return null;
  const end = HEADER_BYTES + CONTENT_BYTES + dataBytes;
  const body = record.subarray(HEADER_BYTES, end);
  try {
    const cipher = createDecipheriv('aes-256-gcm', name.organization.encryption, nonce);
    cipher.setAAD(encrypts ? head : Buffer.concat([head, body]));
    cipher.setAuthTag(record.subarray(end, end + TAG_BYTES));
    const plain = encrypts ? cipher.update(body) : Buffer.from(body);
    cipher.final();
    return plain.subarray(0, CONTENT_BYTES).equals(name.page.content) ? plain.subarray(CONTENT_BYTES) : null;
  } catch {
    return null;
  }
}
