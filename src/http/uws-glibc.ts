// Patches the uWebSockets.js binary so that it loads with an older glibc. No side effects; safe to call from any
// thread.
//
// The binaries are built on Ubuntu 24.04, where <stdlib.h> maps strtol, strtoul and sscanf to their C23 versions
// (__isoc23_strtol, version GLIBC_2.38). These differ from the older functions only in accepting 0b101 for base 2 or 0,
// and the library parses no such number. With the older names, the binaries load with glibc 2.36 or newer (Debian 12).
//
//   .dynsym        name "__isoc23_strtol"      the same string from its tenth character: "strtol"
//   .gnu.version   GLIBC_2.38                  first glibc version of the processor (2.2.5; ARM: 2.17)
//   .gnu.version_r GLIBC_2.38                  the same: the versions required from the C library at load time
//
// If anything else requires glibc 2.38, the file is left unchanged.

import { readElf } from './elf.js';

const NEW = 'GLIBC_2.38';
/** The first glibc version for each processor, which is also the version of the older functions. */
const OLDEST: Readonly<Record<number, string>> = { 62: 'GLIBC_2.2.5', 183: 'GLIBC_2.17' };
const PREFIX = '__isoc23_';
const SAME = new Set(['strtol', 'strtoul', 'strtoll', 'strtoull', 'sscanf']);

/**
 * Returns a copy of the binary that requires glibc 2.36 instead of 2.38. Returns the original if there is nothing to
 * change or the change might not be safe.
 */
export function withOlderGlibc(original: Buffer): Buffer {
  const elf = readElf(original);
  if (elf === null) return original;
  const needs = elf.needs();
  const wanted = needs.filter(({ version }) => version === NEW);
  const [need] = wanted;
  const oldest = needs.find(({ library, version }) => library === need?.library && version === OLDEST[elf.machine]);
  if (need === undefined || wanted.length !== 1 || oldest === undefined) return original;
  const users = elf.symbols().filter(({ version }) => version === need.number);
  if (!users.every(({ name, foreign }) => foreign && name.startsWith(PREFIX) && SAME.has(name.slice(PREFIX.length))))
    return original;

  const binary = Buffer.from(original);
  for (const { nameAt, versionAt } of users) {
    binary.writeUInt32LE(binary.readUInt32LE(nameAt) + PREFIX.length, nameAt);
    binary.writeUInt16LE(oldest.number, versionAt);
  }
  binary.copy(binary, need.hashAt, oldest.hashAt, oldest.hashAt + 4);
  binary.copy(binary, need.nameAt, oldest.nameAt, oldest.nameAt + 4);
  return binary;
}
