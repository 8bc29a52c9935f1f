// Reads LMDB's file format without using LMDB. LMDB maps the file and trusts it, so a truncated or overwritten file
// crashes the process (SIGBUS, SIGSEGV). This reader validates every number before use. The format is LMDB data version
// 2 as written by the `lmdb` library on little-endian 64-bit machines.
//
//   page      number u64, transaction u64, pad u16, flags u16, then lower u16 and upper u16, or a count of pages u32;
//             followed by the nodes' offsets, u16 each; these, lower and upper count from the end of the header
//   pages 0, 1  meta pages of the last two transactions; a third in the middle of page 0: the last synced one
//   node      size u32 (or page, 48 bits), flags u16, key size u16, key, value
//   tree      pad u32, flags u16, depth u16, branch, leaf and overflow pages u64, entries u64, root u64

import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { showBytes } from '../../config/kinds.js';

const HEADER = 24;
const NODE = 8;
const TREE = 48;
const META = 144; // number of bytes read after a meta page's header
// Offsets within the META bytes. FREE and MAIN are trees; their first fields also hold the page size and the file's
// flags.
const FREE = 24,
  MAIN = 72,
  LAST_PAGE = 120,
  TRANSACTION = 128,
  BOOT = 136;
const ROOT = 40; // offset within a tree
const MAGIC = 0xbeef_c0de;
const VERSION = 2;
const IS = { branch: 0x01, leaf: 0x02, overflow: 0x04, meta: 0x08 } as const;
const NODE_IS = { big: 0x01, tree: 0x02 } as const;
const NONE = Infinity; // root of an empty tree (all bits set)
const PAGE = 4096; // page size for a new file
const INTEGER_KEYS = 0x08; // flag of the free-page tree
const DEEPEST = 32; // LMDB's maximum depth
/**
 * Maximum number of times that a file is read while it is being written. Its newest transaction may have changed in the
 * meantime, so several reads may be needed.
 */
const LOOKS = 5;

/** The message describes the damage. It completes a sentence that starts with the file name. */
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
  /**
   * Whether all pages had been synced when the meta page was written, and the machine's boot ID at that time, which
   * LMDB compares with the current boot ID.
   */
  flushed: boolean;
  boot: bigint;
}

/**
 * Throws DamagedFile if LMDB must not map the file. Reads only a few pages: the meta pages and each table's root. A
 * file may be shorter than its recorded size, because the last pages may be free.
 */
export function checkHead(path: string): void {
  withFile(path, (file) => {
    const look = (): void => {
      const newest = file.newest();
      file.walk(newest, (newest.lastPage + 1) * newest.pageSize > file.bytes() ? Infinity : 1);
    };
    // Only damage is confirmed by a second read, because a second read of an intact file could mean reading all of it
    // again.
    if (readingOf(look) instanceof DamagedFile) agreed(look);
  });
}

/**
 * Throws DamagedFile if the meta pages are invalid. Does not follow page references, because pages of a file that is
 * being written may be reused in the meantime.
 */
export function checkMeta(path: string): void {
  withFile(path, (file) => file.newest());
}

/**
 * Walks all reachable pages. Throws DamagedFile. If the file is being written, must be called within a read
 * transaction.
 */
export function checkWhole(path: string): Figures {
  return withFile(path, (file) => file.walk(file.newest(), Infinity));
}

/** Returns the two pages of an empty database, as written by the library. `mapBytes`: maximum size of the database. */
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

/**
 * Repeats a read of a file that may be written concurrently, until two consecutive reads agree or the maximum number is
 * reached. A read that throws DamagedFile also counts as a result.
 */
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

/** Values needed on every page during the walk of one tree. */
interface TreeWalk {
  /** For error messages. */
  readonly name: string;
  readonly seen: Seen;
  /** Number of levels to follow. */
  readonly levels: number;
  readonly depth: number;
  /** Called for each tree that is nested in the walked tree. */
  readonly table: ((name: string, tree: Tree) => void) | null;
}

class DatabaseFile {
  private pageSize = PAGE;

  constructor(private readonly descriptor: number) {}

  bytes(): number {
    return fstatSync(this.descriptor).size;
  }

  /** The meta page of the last transaction. */
  newest(): Meta {
    return agreed(() => this.metas());
  }

  private metas(): Meta {
    if (this.bytes() === 0) throw new DamagedFile('is empty');
    this.pageSize = this.meta(0, 0).pageSize;
    // LMDB also reads the third meta page, which is never newer than the others, because they are read after it.
    const third = this.read(this.pageSize / 2 + HEADER, META);
    const first = this.meta(0, 0);
    const second = this.meta(first.pageSize, 1);
    if (second.pageSize !== first.pageSize) throw new DamagedFile('has inconsistent page sizes');
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

  /** Follows each tree to `depth` levels, and the tree of tables completely. */
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
      if (entries !== 0) throw new DamagedFile(`is damaged: ${name} has no root`);
      return;
    }
    const found = this.node(root, 1, { name, seen, levels: Math.min(levels, DEEPEST), depth, table });
    if (levels >= depth && found !== entries)
      throw new DamagedFile(`is damaged: ${name} has ${found} entries but should have ${entries}`);
  }

  /** Returns the number of entries below the page. */
  private node(number: number, level: number, walk: TreeWalk): number {
    const { name, seen, levels, depth, table } = walk;
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
        if (level < levels) entries += this.node(child, level + 1, walk);
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

  /** Checks a value that is stored on overflow pages. */
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
        number === 0 ? 'is not a database, or is damaged in its first page' : 'is damaged in its second page',
      );
    }
    const version = body.readUInt32LE(4) & 0xffff;
    if (version !== VERSION) throw new DamagedFile(`has format version ${version}; this release requires ${VERSION}`);
    const pageSize = body.readUInt32LE(FREE);
    if (pageSize < 512 || pageSize > 32_768 || (pageSize & (pageSize - 1)) !== 0)
      throw new DamagedFile(`is damaged: invalid page size of ${pageSize} bytes`);
    const lastPage = u64(body, LAST_PAGE);
    if (lastPage < 1 || lastPage * pageSize > Number.MAX_SAFE_INTEGER / 2)
      throw new DamagedFile('is damaged: invalid recorded file size');
    return metaAt(body);
  }

  private read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
      const got = readSync(this.descriptor, bytes, at, length - at, offset + at);
      if (got === 0) throw new DamagedFile(`is truncated: it has ${showBytes(this.bytes())}`);
      at += got;
    }
    return bytes;
  }

  private cutOff(name: string): DamagedFile {
    return new DamagedFile(`is truncated: it has ${showBytes(this.bytes())}, but ${name} continues after that`);
  }

  private bad(number: number, name: string): DamagedFile {
    return new DamagedFile(`is damaged: page ${number} of ${name} has unexpected content`);
  }
}

/** The pages visited so far. Each page may belong to only one tree. */
class Seen {
  taken = 0;
  private readonly bits: Uint8Array;

  /** `pages`: number of pages in the file. */
  constructor(
    private readonly lastPage: number,
    pages: number,
  ) {
    this.bits = new Uint8Array(Math.ceil(pages / 8));
  }

  /** Throws DamagedFile unless the page is in the file. */
  check(number: number, name: string): void {
    if (!(number >= 2 && number <= this.lastPage))
      throw new DamagedFile(`is damaged: ${name} refers to page ${number} of ${this.lastPage + 1}`);
  }

  /** Marks pages as visited, after checking that the file contains them. */
  take(first: number, count: number, name = 'its beginning'): void {
    for (let number = first; number < first + count; number++) {
      const bit = 1 << (number & 7);
      const at = Math.floor(number / 8);
      if (((this.bits[at] as number) & bit) !== 0)
        throw new DamagedFile(`is damaged: page ${number} is used twice, also by ${name}`);
      this.bits[at] = (this.bits[at] as number) | bit;
    }
    this.taken += count;
  }
}

function treeAt(bytes: Buffer, at: number): Tree {
  return { depth: bytes.readUInt16LE(at + 6), entries: u64(bytes, at + 32), root: u64(bytes, at + ROOT) };
}

/** Values that a double cannot represent exactly become Infinity. */
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
 * Returns the one of two meta pages that LMDB uses (the library's mdb_pick_meta()): normally the newer one. If the
 * machine has been rebooted since then and the newer one was not synced, its pages may never have reached the disk, so
 * the older one is used.
 */
function taken(one: Meta, other: Meta, boot: bigint | null): Meta {
  if (other.transaction === 0) return one;
  const [older, newer] = one.transaction >= other.transaction ? [other, one] : [one, other];
  return newer.flushed || boot === null || newer.boot === boot ? newer : older;
}

/** The first part of the machine's boot ID, as LMDB reads it. Null if it is not available on this system. */
function bootId(): bigint | null {
  try {
    const [digits] = /^[0-9a-f]+/i.exec(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')) ?? [];
    return digits === undefined ? null : BigInt(`0x${digits}`);
  } catch {
    return null;
  }
}
