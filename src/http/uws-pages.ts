// Replaces the HTML error pages in the uWebSockets.js binary with JSON. No side effects; safe to call from any thread.
//
// When its parser rejects a request (malformed HTTP, oversized headers, HTTP/1.0), the library itself responds with
// HTML, and in one case with status 505, which the API does not use. The three pages are constants in one table in the
// binary:
//
//   .rodata   "HTTP/1.1 505 …" NUL "HTTP/1.1 431 …" NUL "HTTP/1.1 400 …" NUL       adjacent
//   .data     { length, address } × 3                                            addresses by relocation
//
// The new pages are written over the old ones, and the lengths and addresses are updated. Every byte is verified before
// it is changed.

import { readElf } from './elf.js';
import { errorPage, HEADERS_TOO_LARGE_PAGE } from './error-pages.js';

const PAGES = [
  'HTTP/1.1 505 HTTP Version Not Supported\r\n',
  'HTTP/1.1 431 Request Header Fields Too Large\r\n',
  'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<h1>',
];

const MALFORMED = errorPage('malformed_http', 'Not HTTP/1.1.');
const TOO_LARGE = HEADERS_TOO_LARGE_PAGE;

/** A text that occurs only in a binary whose error pages have been replaced with JSON. */
export const JSON_PAGES = MALFORMED + TOO_LARGE;

/** Returns a copy of the binary with JSON pages, or null if its layout differs from the one described above. */
export function withJsonPages(original: Buffer): Buffer | null {
  const binary = Buffer.from(original);
  const texts = PAGES.map((start) => {
    const at = binary.indexOf(start);
    return { at, length: binary.indexOf(0, at) - at, unique: at >= 0 && binary.indexOf(start, at + 1) < 0 };
  });
  const [first, second, third] = texts;
  if (first === undefined || second === undefined || third === undefined || texts.some(({ unique }) => !unique))
    return null;
  const adjacent = second.at === first.at + first.length + 1 && third.at === second.at + second.length + 1;
  const room = third.at + third.length - first.at;
  if (!adjacent || JSON_PAGES.length > room) return null;

  const elf = readElf(binary);
  if (elf === null) return null;
  const base = elf.addressOf(first.at);
  if (base === null) return null;
  // Both the 505 and the 400 page become "malformed", and the 431 page becomes "headers too large".
  const replacements = [
    { start: 0, text: MALFORMED },
    { start: MALFORMED.length, text: TOO_LARGE },
    { start: 0, text: MALFORMED },
  ];
  for (const [i, { at, length }] of texts.entries()) {
    const address = elf.addressOf(at);
    const entries = elf.relocationsTo(address ?? -1);
    const [entry] = entries;
    const replacement = replacements[i];
    if (entries.length !== 1 || entry === undefined || replacement === undefined) return null;
    const lengthAt = elf.offsetOf(entry.target - 8);
    if (lengthAt === null || binary.readBigUInt64LE(lengthAt) !== BigInt(length)) return null;
    binary.writeBigUInt64LE(BigInt(replacement.text.length), lengthAt);
    binary.writeBigUInt64LE(BigInt(base + replacement.start), entry.addendAt);
  }
  binary.fill(0, first.at, first.at + room);
  binary.write(JSON_PAGES, first.at, 'latin1');
  return binary;
}
