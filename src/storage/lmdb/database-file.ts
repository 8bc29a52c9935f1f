// LMDB's file, read without LMDB: LMDB maps it and trusts it, so that a file that was cut off or written over ends
// the process (SIGBUS, SIGSEGV). Here every number is checked before it is followed. The format is that of LMDB's
// data version 2 as the library `lmdb` writes it, on little-endian machines of 64 bits.
//
//   page      number u64, transaction u64, pad u16, flags u16, then lower u16 and upper u16, or a count of pages u32;
//             behind it the places of the nodes, u16 each; these, lower and upper count from the header's end
//   pages 0, 1  what the two last transactions say of the file (meta); in the middle of page 0 a third, the last synced
//   node      size u32 (or page, 48 bits), flags u16, key size u16, key, value
//   tree      pad u32, flags u16, depth u16, branch, leaf and overflow pages u64, entries u64, root u64

import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { showBytes } from '../../config/kinds.js';

const HEADER = 24;
const NODE = 8;
const TREE = 48;
const META = 144; // what of a meta page is read, behind its header
// Where in that: two trees, whose first fields hold the size of pages and flags of the file.
const FREE = 24,
  MAIN = 72,
  LAST_PAGE = 120,
  TRANSACTION = 128,
  BOOT = 136;
const ROOT = 40; // in a tree
const MAGIC = 0xbeef_c0de;
const VERSION = 2;
const IS = { branch: 0x01, leaf: 0x02, overflow: 0x04, meta: 0x08 } as const;
const NODE_IS = { big: 0x01, tree: 0x02 } as const;
const NONE = Infinity; // the root of an empty tree: all bits set
const PAGE = 4096; // of a new file
const INTEGER_KEYS = 0x08; // of the tree of free pages
const DEEPEST = 32; // LMDB's own bound
/** A file that is being written may be looked at while its newest transaction changes. */
const LOOKS = 5;

/** What is wrong with the file, as the end of a sentence that begins with its name. */
export class DamagedFile extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = 'DamagedFile';
  }
}

export interface Figures {
  bytes: number;
  pages: number;
  usedPages: number;
  tables: { name: string; entries: number }[];
}

interface Tree {
  entries: number;
  root: number;
  depth: number;
}
interface Meta {
  pageSize: number;
  free: Tree;
  main: Tree;
  lastPage: number;
  transaction: number;
  /** Synced with all its pages when it was written; and since which start of the machine, as LMDB tells them apart. */
  flushed: boolean;
  boot: bigint;
}

/**
 * Throws DamagedFile if LMDB must not map the file. Looks at what says where everything is, down to the root of each
 * table: a few pages. Of a file shorter than it says to be everything: its last pages may all be free ones.
 */
export function checkHead(path: string): void {
  withFile(path, (file) => {
    const look = (): void => {
      const newest = file.newest();
      file.walk(newest, (newest.lastPage + 1) * newest.pageSize > file.bytes() ? Infinity : 1);
    };
    // What is well needs no second look, which may be one at everything.
    if (readingOf(look) instanceof DamagedFile) agreed(look);
  });
}

/** Throws DamagedFile if the file does not say where everything is. No page is followed: in a file that is being written any may be another by then. */
export function checkMeta(path: string): void {
  withFile(path, (file) => file.newest());
}

/** Walks everything that can be reached. Throws DamagedFile. Of a file that is being written: within a read transaction. */
export function checkWhole(path: string): Figures {
  return withFile(path, (file) => file.walk(file.newest(), Infinity));
}

/** The two pages of a file with nothing in it, as the library writes them. `mapBytes`: up to which it may grow. */
export function emptyDatabase(mapBytes: number): Buffer {
  const file = Buffer.alloc(2 * PAGE);
  for (const number of [0, 1]) {
    const page = file.subarray(number * PAGE, (number + 1) * PAGE);
    page.writeBigUInt64LE(BigInt(number), 0);
    page.writeUInt16LE(IS.meta, 18);
    const body = page.subarray(HEADER);
    body.writeUInt32LE(MAGIC, 0);
    body.writeUInt32LE(VERSION, 4);
    body.writeBigUInt64LE(BigInt(mapBytes), 16);
    body.writeUInt32LE(PAGE, FREE);
    body.writeUInt16LE(INTEGER_KEYS, FREE + 4);
    for (const tree of [FREE, MAIN]) body.fill(0xff, tree + ROOT, tree + ROOT + 8);
    body.writeBigUInt64LE(1n, LAST_PAGE);
  }
  return file;
}

/** What two readings in a row agree on, or the last of a few: what is read may be written meanwhile. A reading that throws DamagedFile is one too. */
export function agreed<T>(read: () => T): T {
  let last = readingOf(read);
  for (let look = 1; look < LOOKS; look++) {
    const now = readingOf(read);
    if (isDeepStrictEqual(now, last)) break;
    last = now;
  }
  if (last instanceof DamagedFile) throw last;
  return last;
}

function readingOf<T>(read: () => T): T | DamagedFile {
  try {
    return read();
  } catch (error) {
    if (error instanceof DamagedFile) return error;
    throw error;
  }
}

function withFile<T>(path: string, work: (file: DatabaseFile) => T): T {
  const descriptor = openSync(path, 'r');
  try {
    return work(new DatabaseFile(descriptor));
  } finally {
    closeSync(descriptor);
  }
}

class DatabaseFile {
  private pageSize = PAGE;

  constructor(private readonly descriptor: number) {}

  bytes(): number {
    return fstatSync(this.descriptor).size;
  }

  /** What the last transaction says. */
  newest(): Meta {
    return agreed(() => this.metas());
  }

  private metas(): Meta {
    if (this.bytes() === 0) throw new DamagedFile('is empty');
    this.pageSize = this.meta(0, 0).pageSize;
    // LMDB looks at the third too. It is never ahead of what is read after it.
    const third = this.read(this.pageSize / 2 + HEADER, META);
    const first = this.meta(0, 0);
    const second = this.meta(first.pageSize, 1);
    if (second.pageSize !== first.pageSize) throw new DamagedFile('contradicts itself about the size of its pages');
    const newest = first.transaction >= second.transaction ? first : second;
    if (
      u64(third, TRANSACTION) > newest.transaction ||
      (u64(third, TRANSACTION) > first.transaction && third.readUInt32LE(FREE) !== first.pageSize)
    ) {
      throw new DamagedFile('is damaged in its first page');
    }
    const boot = bootId();
    return taken(taken(first, second, boot), metaAt(third), boot);
  }

  /** Follows `depth` levels of each tree, and the tree of tables whole. */
  walk({ lastPage, free, main, pageSize }: Meta, depth: number): Figures {
    const seen = new Seen(lastPage, Math.ceil(this.bytes() / pageSize));
    seen.take(0, 2);
    const tables: Figures['tables'] = [];
    this.tree(free, 'the list of free pages', seen, depth, null);
    this.tree(main, 'the list of tables', seen, Infinity, (name, table) => {
      this.tree(table, `table ${name}`, seen, depth, null);
      tables.push({ name, entries: table.entries });
    });
    return { bytes: this.bytes(), pages: lastPage + 1, usedPages: seen.taken, tables };
  }

  private tree(
    { root, entries, depth }: Tree,
    name: string,
    seen: Seen,
    levels: number,
    table: ((name: string, tree: Tree) => void) | null,
  ): void {
    if (root === NONE) {
      if (entries !== 0) throw new DamagedFile(`is damaged: ${name} has no beginning`);
      return;
    }
    const found = this.node(root, name, seen, 1, Math.min(levels, DEEPEST), depth, table);
    if (levels >= depth && found !== entries)
      throw new DamagedFile(`is damaged: ${name} has ${found} entries and should have ${entries}`);
  }

  /** How many entries are below the page. */
  private node(
    number: number,
    name: string,
    seen: Seen,
    level: number,
    levels: number,
    depth: number,
    table: ((name: string, tree: Tree) => void) | null,
  ): number {
    seen.check(number, name);
    const page = this.page(number, name);
    seen.take(number, 1, name);
    const flags = page.readUInt16LE(18);
    const leaf = (flags & IS.leaf) !== 0;
    if (leaf === ((flags & IS.branch) !== 0) || leaf !== (level === depth)) throw this.bad(number, name);
    const lower = page.readUInt16LE(20);
    const upper = page.readUInt16LE(22);
    if (lower === 0 || lower > upper || HEADER + upper > this.pageSize || lower % 2 !== 0) throw this.bad(number, name);
    const count = lower / 2;
    let entries = 0;
    for (let i = 0; i < count; i++) {
      const at = HEADER + page.readUInt16LE(HEADER + 2 * i);
      if (at < HEADER + upper || at + NODE > this.pageSize) throw this.bad(number, name);
      const keyEnd = at + NODE + page.readUInt16LE(at + 6);
      if (keyEnd > this.pageSize) throw this.bad(number, name);
      if (!leaf) {
        const child = page.readUInt32LE(at) + page.readUInt16LE(at + 4) * 2 ** 32;
        if (level < levels) entries += this.node(child, name, seen, level + 1, levels, depth, table);
        else seen.check(child, name);
        continue;
      }
      entries++;
      const size = page.readUInt32LE(at);
      const nodeFlags = page.readUInt16LE(at + 4);
      const big = (nodeFlags & NODE_IS.big) !== 0;
      if (keyEnd + (big ? 8 : size) > this.pageSize) throw this.bad(number, name);
      if (big && levels === DEEPEST) this.overflow(u64(page, keyEnd), size, name, seen);
      if (table !== null && (nodeFlags & NODE_IS.tree) !== 0) {
        if (size !== TREE) throw this.bad(number, name);
        table(page.toString('utf8', at + NODE, keyEnd).replace(/[^\x20-\x7e]/g, ''), treeAt(page, keyEnd));
      }
    }
    return entries;
  }

  /** A value that lies in pages of its own. */
  private overflow(number: number, size: number, name: string, seen: Seen): void {
    seen.check(number, name);
    const page = this.page(number, name);
    const pages = page.readUInt32LE(20);
    if ((page.readUInt16LE(18) & IS.overflow) === 0 || pages * this.pageSize < HEADER + size)
      throw this.bad(number, name);
    if ((number + pages) * this.pageSize > this.bytes()) throw this.cutOff(name);
    seen.check(number + pages - 1, name);
    seen.take(number, pages, name);
  }

  private page(number: number, name: string): Buffer {
    if ((number + 1) * this.pageSize > this.bytes()) throw this.cutOff(name);
    const page = this.read(number * this.pageSize, this.pageSize);
    if (u64(page, 0) !== number) throw this.bad(number, name);
    return page;
  }

  private meta(offset: number, number: number): Meta {
    const page = this.read(offset, HEADER + META);
    const body = page.subarray(HEADER);
    if ((page.readUInt16LE(18) & IS.meta) === 0 || body.readUInt32LE(0) !== MAGIC) {
      throw new DamagedFile(
        number === 0 ? 'is not a database, or damaged in its first page' : 'is damaged in its second page',
      );
    }
    const version = body.readUInt32LE(4) & 0xffff;
    if (version !== VERSION) throw new DamagedFile(`has the format version ${version}; this release reads ${VERSION}`);
    const pageSize = body.readUInt32LE(FREE);
    if (pageSize < 512 || pageSize > 32_768 || (pageSize & (pageSize - 1)) !== 0)
      throw new DamagedFile(`is damaged: it says its pages have ${pageSize} bytes`);
    const lastPage = u64(body, LAST_PAGE);
    if (lastPage < 1 || lastPage * pageSize > Number.MAX_SAFE_INTEGER / 2)
      throw new DamagedFile('is damaged: it says it ends where it cannot');
    return metaAt(body);
  }

  private read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
      const got = readSync(this.descriptor, bytes, at, length - at, offset + at);
      if (got === 0) throw new DamagedFile(`is cut off: it has ${showBytes(this.bytes())}`);
      at += got;
    }
    return bytes;
  }

  private cutOff(name: string): DamagedFile {
    return new DamagedFile(`is cut off: it has ${showBytes(this.bytes())}, and ${name} goes on behind that`);
  }

  private bad(number: number, name: string): DamagedFile {
    return new DamagedFile(`is damaged: page ${number} of ${name} holds something else`);
  }
}

/** Which pages have been met: each is of one tree. */
class Seen {
  taken = 0;
  private readonly bits: Uint8Array;

  /** `pages`: what the file has. */
  constructor(
    private readonly lastPage: number,
    pages: number,
  ) {
    this.bits = new Uint8Array(Math.ceil(pages / 8));
  }

  /** Throws DamagedFile unless the file has the page. */
  check(number: number, name: string): void {
    if (!(number >= 2 && number <= this.lastPage))
      throw new DamagedFile(`is damaged: ${name} refers to page ${number} of ${this.lastPage + 1}`);
  }

  /** Pages that have been checked, and that the file has. */
  take(first: number, count: number, name = 'its beginning'): void {
    for (let number = first; number < first + count; number++) {
      const bit = 1 << (number & 7);
      const at = Math.floor(number / 8);
      if (((this.bits[at] as number) & bit) !== 0)
        throw new DamagedFile(`is damaged: page ${number} is used twice, by ${name} too`);
      this.bits[at] = (this.bits[at] as number) | bit;
    }
    this.taken += count;
  }
}

function treeAt(bytes: Buffer, at: number): Tree {
  return { depth: bytes.readUInt16LE(at + 6), entries: u64(bytes, at + 32), root: u64(bytes, at + ROOT) };
}

/** Beyond what is exact: Infinity. */
function u64(bytes: Buffer, at: number): number {
  const value = bytes.readBigUInt64LE(at);
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(value);
}

const UNFLUSHED = 0x1000;

function metaAt(body: Buffer): Meta {
  return {
    pageSize: body.readUInt32LE(FREE),
    free: treeAt(body, FREE),
    main: treeAt(body, MAIN),
    lastPage: u64(body, LAST_PAGE),
    transaction: u64(body, TRANSACTION),
    flushed: (body.readUInt16LE(FREE + 4) & UNFLUSHED) === 0,
    boot: body.readBigInt64LE(BOOT),
  };
}

/**
 * Which of two LMDB goes by (mdb_pick_meta() of the library): the newer one, but where the machine was started anew since
 * and it was not synced, what it refers to may never have reached the disk: then the older one.
 */
function taken(one: Meta, other: Meta, boot: bigint | null): Meta {
  if (other.transaction === 0) return one;
  const [older, newer] = one.transaction >= other.transaction ? [other, one] : [one, other];
  return newer.flushed || boot === null || newer.boot === boot ? newer : older;
}

/** As LMDB reads it: the first part of the machine's name of its start. Null: this system does not say. */
function bootId(): bigint | null {
  try {
    const [digits] = /^[0-9a-f]+/i.exec(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')) ?? [];
    return digits === undefined ? null : BigInt(`0x${digits}`);
  } catch {
    return null;
  }
}
