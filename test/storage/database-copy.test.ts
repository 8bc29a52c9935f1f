// Tests the database file: damage is detected before LMDB maps the file, a full disk gives a clear error, and a copy
// made during writes contains everything acknowledged before it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { open } from 'lmdb';
import { backUp, checkDatabase, restore } from '../../src/storage/lmdb/database-copy.js';
import { checkHead, checkWhole } from '../../src/storage/lmdb/database-file.js';
import { lockDataDir } from '../../src/storage/data-dir-lock.js';
import { databasePath, openStore, SCHEMA_VERSION } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import { endsWithParent, eventually, main } from '../e2e/monolith.js';
import { randomFrom } from '../support/random.js';
import { expected } from './saver.js';

t.setTimeout(300_000); // the machine may be busy

const folder = mkdtempSync(join(tmpdir(), 'monolith-copy-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, 'data');
const copy = join(folder, 'copy.mdb');

t.test('a backup made while responses are saved contains every response acknowledged before it', async (t) => {
  const child = spawn(process.execPath, [...endsWithParent, join(import.meta.dirname, 'saver.js'), path, '8'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const saved = (): string[] => text.split('\n').slice(0, -1);
  const closed = once(child, 'close');
  t.teardown(() => child.kill('SIGKILL'));
  t.ok(await eventually(() => saved().length > 200));
  const lock = lockDataDir(path); // the lock that this directory's server would hold
  const before = saved();
  const made = await backUp(path, copy);
  t.ok(await eventually(() => saved().length > before.length), 'saving continued during the backup');
  t.equal((await checkDatabase(path)).schema, SCHEMA_VERSION, 'the database can be checked while it is being written');
  lock.release();
  child.kill('SIGKILL');
  await closed;
  t.equal(statSync(copy).mode & 0o777, 0o600, 'only the owner may read the copy');
  t.same(
    readdirSync(folder).filter((name) => name.includes('partial')),
    [],
  );
  t.match(await checkDatabase(copy), { path: copy, tables: made.tables });
  await t.rejects(backUp(path, copy), { name: 'StorageError', message: /already exists/ });

  const other = join(folder, 'other');
  t.equal((await restore(other, copy)).kept, null);
  const store = await openStore(other);
  const responses = openResponseStore(store, { retention_days: 30 });
  const ids = [...store.table('responses').keys()] as string[];
  const known = new Set(ids);
  t.same(
    before.filter((line) => !known.has(line.split(' ')[0] as string)),
    [],
    `${before.length} responses acknowledged before the backup are in the copy`,
  );
  const plain = (items: ReturnType<typeof expected>['input']): unknown =>
    items.map(({ item, images = [] }) => [item, images.map((bytes) => Buffer.from(bytes).toString('base64'))]);
  const chains = new Map(await Promise.all(ids.map(async (id) => [id, await responses.chain('org_a', id)] as const)));
  t.same(
    ids.filter((id) => {
      const record = chains.get(id)?.responses.at(-1);
      const should = expected(id, null);
      return (
        record === undefined ||
        JSON.stringify([plain(record.input), plain(record.output)]) !==
          JSON.stringify([plain(should.input), plain(should.output)])
      );
    }),
    [],
    `${ids.length} responses in the copy are complete`,
  );
  await responses.close();
  await store.close();
});

t.test('restoring a backup keeps the previous database, and an invalid backup is refused', async (t) => {
  const entries = (await checkDatabase(copy)).tables;
  const lock = lockDataDir(path);
  await t.rejects(restore(path, copy), { name: 'StorageError', message: /Another server is using the data directory/ });
  lock.release();
  await t.rejects(restore(path, databasePath(path)), { message: /is the database itself/ });
  const old = readFileSync(databasePath(path));
  const { kept } = await restore(path, copy);
  t.same(readFileSync(join(kept as string, 'data.mdb')), old);
  t.same((await checkDatabase(path)).tables, entries);
  const newer = join(folder, 'newer');
  const store = await openStore(newer);
  await store.table<number>('meta').put('schema', SCHEMA_VERSION + 1);
  await store.close();
  await t.rejects(restore(path, newer), {
    message: new RegExp(`schema version ${SCHEMA_VERSION + 1}; this release requires ${SCHEMA_VERSION}`),
  });
  const another = join(folder, 'another');
  const root = open({ path: another });
  await root.put('key', 'value');
  await root.close();
  t.match(await checkDatabase(another), { schema: null });
  await t.rejects(restore(path, another), {
    name: 'StorageError',
    message: /is an LMDB database that was not written by Monolith/,
  });
  await t.rejects(backUp(join(folder, 'nowhere'), join(folder, 'no.mdb')), {
    name: 'StorageError',
    message: /No database found in /,
  });
  t.same((await checkDatabase(path)).tables, entries, 'a refused restore changes nothing');
  t.same(
    readdirSync(path).filter((name) => name.startsWith('db-restored')),
    [],
  );
});

t.test('a damaged database file is refused with an error before LMDB maps it', async (t) => {
  const good = join(folder, 'good');
  const store = await openStore(good);
  const table = store.table('keys');
  await store.transaction(() => {
    for (let n = 0; n < 3_000; n++) void table.put(`key ${n}`, 'x'.repeat(n % 700));
  });
  await table.put('large', 'x'.repeat(50_000));
  await store.close();
  const bad = join(folder, 'bad');
  const file = databasePath(bad);
  const { bytes, pages } = checkWhole(databasePath(good));
  const fresh = (change: () => void): void => {
    mkdirSync(join(bad, 'db'), { recursive: true });
    copyFileSync(databasePath(good), file);
    change();
  };
  const overwrite = (at: number, content: Uint8Array): void => {
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, content, 0, content.length, at);
    closeSync(descriptor);
  };
  const random = randomFrom(7);
  const garbage = (length: number): Uint8Array => Uint8Array.from({ length }, () => random.below(256));
  const u64 = (value: bigint): Uint8Array => new Uint8Array(new BigUint64Array([value]).buffer);
  for (const [name, change, says] of [
    ['an empty file', () => truncateSync(file, 0), /is empty/],
    ['a file cut to 100 bytes', () => truncateSync(file, 100), /is truncated: it has 100 bytes/],
    ['a file cut to one page', () => truncateSync(file, 4096), /is truncated: it has 4 KiB/],
    [
      'a file cut to half its size',
      () => truncateSync(file, Math.floor(bytes / 2)),
      /is truncated: it has .* continues after that/,
    ],
    ['random bytes', () => writeFileSync(file, garbage(100_000)), /is not a database, or is damaged in its first page/],
    [
      'another format version',
      () => overwrite(28, new Uint8Array([9])),
      /has format version 9; this release requires 2/,
    ],
    ['a random first page', () => overwrite(0, garbage(4096)), /damaged in its first page/],
    ['a random second page', () => overwrite(4096, garbage(4096)), /damaged in its second page/],
    [
      'a page size of zero',
      () => {
        overwrite(48, new Uint8Array(4));
        overwrite(4096 + 48, new Uint8Array(4));
      },
      /invalid page size of 0 bytes/,
    ],
    [
      'a meta page in the middle of the first page that claims to be the newest',
      () => overwrite(2048 + 152, u64(1n << 60n)),
      /damaged in its first page/,
    ],
    [
      'a last page number beyond any valid size',
      () => {
        overwrite(144, u64(1n << 50n));
        overwrite(4096 + 144, u64(1n << 50n));
      },
      /invalid recorded file size/,
    ],
    [
      'a root page number beyond the end of the file',
      () => {
        overwrite(136, u64(1n << 40n));
        overwrite(4096 + 136, u64(1n << 40n));
      },
      /refers to page/,
    ],
    [
      'a missing root page',
      () => {
        overwrite(136, u64(~0n));
        overwrite(4096 + 136, u64(~0n));
      },
      /the list of tables has no root/,
    ],
    [
      'a wrong entry count',
      () => {
        overwrite(128, u64(999n));
        overwrite(4096 + 128, u64(999n));
      },
      /the list of tables has \d+ entries but should have 999/,
    ],
    [
      'a root page number that refers to another page',
      () => {
        overwrite(136, u64(1n));
        overwrite(4096 + 136, u64(1n));
      },
      /refers to page 1 of/,
    ],
  ] as const) {
    fresh(change);
    await t.rejects(openStore(bad), { name: 'StorageError', message: says }, name);
    await t.rejects(openStore(bad), {
      message: /Run "monolith data check" for details. "monolith data restore BACKUP" replaces it with a backup/,
    });
    await t.rejects(checkDatabase(bad), { name: 'StorageError', message: says }, `${name}, checked`);
  }
  // Gives the root page of the table list impossible node bounds. The check must validate each bound before using it.
  const content = readFileSync(databasePath(good));
  const meta = content.readBigUInt64LE(152) > content.readBigUInt64LE(4096 + 152) ? 0 : 4096;
  const root = Number(content.readBigUInt64LE(meta + 136));
  const [lower, upper] = [content.readUInt16LE(4096 * root + 20), content.readUInt16LE(4096 * root + 22)];
  for (const bounds of [
    [0, upper],
    [lower + 1, upper],
    [upper + 2, upper],
    [lower, 4096 - 24 + 1],
    [lower, 65_535],
  ] as const) {
    fresh(() => overwrite(4096 * root + 20, new Uint8Array(new Uint16Array(bounds).buffer)));
    for (const look of [checkHead, checkWhole])
      t.throws(
        () => look(file),
        { name: 'DamagedFile', message: `is damaged: page ${root} of the list of tables has unexpected content` },
        `from ${bounds[0]} to ${bounds[1]}`,
      );
  }
  // In LMDB's page flags, 1 means branch page and 2 means leaf page. With many tables, the root is a branch page.
  const rootFlags = content.readUInt16LE(4096 * root + 18);
  for (const flags of [0, 1, 2, 3].filter((one) => one !== rootFlags)) {
    fresh(() => overwrite(4096 * root + 18, new Uint8Array([flags])));
    for (const look of [checkHead, checkWhole])
      t.throws(
        () => look(file),
        { name: 'DamagedFile', message: `is damaged: page ${root} of the list of tables has unexpected content` },
        `flags ${flags}`,
      );
  }
  // The check must also report the damage while a server has the file open. Damage must not be mistaken for a page that
  // has been reused since.
  const served = lockDataDir(bad);
  await t.rejects(checkDatabase(bad), { name: 'StorageError', message: /is damaged/ });
  served.release();
  // Random damage to pages of any tree: the check may report damage or pass, but must not fail in any other way.
  let found = 0;
  for (let round = 0; round < 60; round++) {
    const page = 2 + random.below(pages - 2);
    fresh(() => overwrite(4096 * page + (round % 2 === 0 ? 0 : random.below(64)), garbage(round % 3 === 0 ? 4096 : 8)));
    for (const look of [checkHead, checkWhole]) {
      try {
        look(file);
      } catch (error) {
        if ((error as Error).name !== 'DamagedFile') throw error;
        if (look === checkWhole) found++;
      }
    }
  }
  t.ok(found > 10, `${found} of 60`);
  await restore(bad, copy);
  await (await openStore(bad)).close();
});

t.test('a truncated file is refused before it is mapped if any data is lost', async (t) => {
  const short = join(folder, 'short');
  const store = await openStore(short);
  const table = store.table('keys');
  await store.transaction(() => {
    for (let n = 0; n < 300; n++) void table.put(`key ${n}`, 'x'.repeat(500));
  });
  await store.transaction(() => {
    for (let n = 0; n < 100; n++) void table.remove(`key ${n}`);
  });
  // Places the root pages before the value pages, on pages that were free.
  for (let n = 0; n < 4; n++) await table.put('key 200', n);
  await store.close();
  const file = databasePath(short);
  const refuses = (look: (path: string) => unknown): boolean => {
    try {
      look(file);
      return false;
    } catch (error) {
      t.match(error, { name: 'DamagedFile', message: / continues after that$/ });
      return true;
    }
  };
  const { pages } = checkWhole(file);
  for (let left = pages; left >= 2; left--) {
    truncateSync(file, left * 4096);
    t.equal(refuses(checkHead), refuses(checkWhole), `${left} of ${pages} pages are left`);
  }
});

t.test('the database check reports a value that cannot be decoded', async (t) => {
  const odd = join(folder, 'odd');
  const store = await openStore(odd);
  const marker = 'a text that is found in the file, '.repeat(4);
  await store.table('organizations').put('key', { marker });
  await store.close();
  const file = databasePath(odd);
  const content = readFileSync(file);
  const at = content.lastIndexOf(marker);
  content[at - 1] = 0xc1; // 0xc1 is not a valid msgpack type
  content[at - 2] = 0xc1;
  writeFileSync(file, content);
  await t.rejects(checkDatabase(odd), { name: 'StorageError', message: /in table organizations, .* cannot be read/ });
});

t.test('the database check reports a check process that exits without a result', async (t) => {
  t.teardown(() => {
    delete process.env['NODE_OPTIONS'];
  });
  process.env['NODE_OPTIONS'] = '--require=/nowhere';
  await t.rejects(checkDatabase(copy), {
    name: 'StorageError',
    message: `${copy} cannot be read: the reading process exited with 1.`,
  });
});

const mount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', '-o', 'size=64k', 'none', folder], {
  encoding: 'utf8',
});
const skip =
  mount.status === 0 ? false : `cannot mount a small file system here: ${mount.error?.message ?? mount.stderr}`;

t.test('a full disk at startup gives a clear error', { skip }, (t) => {
  const small = join(folder, 'small');
  mkdirSync(small);
  {
    const { status, stdout, stderr } = spawnSync(
      'unshare',
      [
        '-rm',
        'sh',
        '-c',
        `mount -t tmpfs -o size=1100k none ${small} && head -c 900000 /dev/zero > ${small}/filler && exec ${process.execPath} ${main} serve --port 0 --log-level error --data-dir ${small}/data`,
      ],
      { encoding: 'utf8' },
    );
    t.match({ status, stdout }, { status: 1, stdout: '' });
    t.match(
      stderr,
      /^monolith: Not enough disk space for the database in the data directory \S+: [\d.]+ (bytes|KiB) free\. Free some space, or use another directory with --data-dir\.\n$/,
    );
  }
  t.end();
});

t.test('the data commands check, backup and restore work on the command line', (t) => {
  const run = (...args: string[]): { status: number | null; stdout: string; stderr: string } =>
    spawnSync(process.execPath, [main, 'data', ...args, '--data-dir', path], { encoding: 'utf8' });
  t.match(run('check'), { status: 0, stdout: /data\.mdb is intact: [\d,]+ entries in \d+ tables/ });
  const copies = join(folder, 'copies');
  mkdirSync(copies);
  t.match(run('backup', copies), { status: 0, stdout: /copies\/monolith-\d{8}T\d{6}Z\.mdb: / });
  t.match(run('restore', copies), { status: 1, stderr: /No database found at .*copies/ });
  t.match(run('restore', join(copies, readdirSync(copies)[0] as string)), {
    status: 0,
    stdout: /The previous database is in .*db-before-/,
  });
  // A trailing slash means a directory, which is created if it is missing. Two backups within a second are both kept.
  for (const round of [1, 2])
    t.match(run('backup', `${folder}/nightly/`), { status: 0, stdout: /nightly\/monolith-\S+\.mdb: / }, `${round}`);
  t.equal(readdirSync(join(folder, 'nightly')).length, 2);
  t.match(run('backup', '/proc/backups/'), {
    status: 1,
    stderr: /Cannot create the backup directory: \/proc\/backups: this file system does not allow/,
  });
  t.match(run('backup'), { status: 2, stderr: /data: backup needs a destination file/ });
  t.match(run('destroy'), { status: 2, stderr: /data: expected check, backup, restore or sweep, not "destroy"/ });
  const broken = join(folder, 'broken');
  cpSync(join(path, 'db'), join(broken, 'db'), { recursive: true });
  truncateSync(databasePath(broken), 20_000);
  t.match(run('check', broken), { status: 1, stdout: '', stderr: /broken\/db\/data\.mdb is truncated/ });
  t.notOk(existsSync(join(broken, 'lock')));
  t.end();
});
