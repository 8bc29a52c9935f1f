// The C library that uWebSockets.js asks for, made older. Pure; any thread.
//
// Its binaries are made on Ubuntu 24.04, where <stdlib.h> gives strtol, strtoul and sscanf the names of C23
// (__isoc23_strtol, version GLIBC_2.38). They differ from those of old in one thing: they read 0b101 where the base is
// 2 or 0. The library reads no such number. With the names of old the binaries load from glibc 2.36 on (Debian 12).
//
//   .dynsym        name "__isoc23_strtol"      the same text from its tenth character on: "strtol"
//   .gnu.version   GLIBC_2.38                  the first version on that processor (2.2.5; on ARM 2.17), which the file names already
//   .gnu.version_r GLIBC_2.38                  so too: what is asked of the C library, before anything is called
//
// Whatever else asks for 2.38 leaves the file as it is.

import { readElf } from './elf.js';

const NEW = 'GLIBC_2.38';
/** What the C library began with on each processor: there these functions have this version. */
const OLDEST: Readonly<Record<number, string>> = { 62: 'GLIBC_2.2.5', 183: 'GLIBC_2.17' };
const PREFIX = '__isoc23_';
const SAME = new Set(['strtol', 'strtoul', 'strtoll', 'strtoull', 'sscanf']);

/** A copy that needs glibc 2.36 instead of 2.38; the original itself where there is nothing to do, or nothing that is known to be safe. */
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
