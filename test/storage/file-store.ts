// Tests that every implementation of FileStore and UploadStore must pass.
import t from 'tap';
import { derivedFileId, newFileId, newUploadId } from '../../src/shared/ids.js';
import { MIN_COUNTED_BYTES, ROW_BYTES, UNFINISHED_S } from '../../src/storage/file-store.js';
import type { FileDescription, FileStore, FileWriter, StoredFile } from '../../src/storage/file-store.js';
import { ENDED_UPLOAD_S, MAX_UPLOADS, UPLOAD_S } from '../../src/storage/upload-store.js';
import type { NewUpload, StoredUpload, UploadPart, UploadStore } from '../../src/storage/upload-store.js';
import { DAY, START } from './records.js';

export const LIMITS = { max_bytes: 5 * ROW_BYTES, organization_bytes: 8 * ROW_BYTES, total_bytes: 14 * ROW_BYTES };

export interface OpenedFiles {
  files: FileStore;
  uploads: UploadStore;
  /** The stores' clock, in seconds since 1970. Assign `now` to change the time. */
  clock: { now: number };
  /** Returns the total number of rows in the stores' tables. */
  rows(): Promise<number>;
}

/** Returns test data. The period of 1,021 bytes does not divide ROW_BYTES, so all rows differ. */
const bytesOf = (length: number, seed = 1): Uint8Array =>
  Buffer.alloc(length, Buffer.from(Array.from({ length: 1_021 }, (_, at) => (at * 31 + seed) & 0xff)));

export function fileStoreTests({ files, uploads, clock, rows }: OpenedFiles): void {
  const description = (given: Partial<FileDescription> = {}): FileDescription => ({
    purpose: 'user_data',
    filename: 'a.txt',
    mediaType: 'text/plain',
    expiresAt: clock.now + 30 * DAY,
    ...given,
  });

  async function add(
    bytes: Uint8Array,
    { organizationId = 'org_a', ...given }: Partial<FileDescription> & { organizationId?: string } = {},
  ): Promise<StoredFile> {
    const writer = files.create(organizationId);
    for (let at = 0; at < bytes.length; at += 100_000) await writer.write(bytes.subarray(at, at + 100_000));
    return writer.finish(description(given));
  }

  async function contents(id: string, range: { start?: number; end?: number; holder?: string } = {}): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    for await (const piece of files.read('org_a', id, range)) {
      if (piece.length > ROW_BYTES) throw new Error('a piece is larger than a row');
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  const upload = (given: Partial<NewUpload> = {}): Promise<StoredUpload> =>
    uploads.create({
      id: newUploadId(),
      organizationId: 'org_a',
      purpose: 'batch',
      filename: 'b.jsonl',
      mediaType: 'application/jsonl',
      bytes: 3 * ROW_BYTES,
      createdAt: clock.now,
      fileLifetimeS: null,
      ...given,
    });

  async function part(to: StoredUpload, bytes: Uint8Array): Promise<UploadPart> {
    const writer = uploads.addPart(to);
    await writer.write(bytes);
    return writer.finish();
  }

  t.afterEach(async () => {
    clock.now = START + 400 * DAY;
    await files.sweep();
    await uploads.sweep();
    for (const organization of ['org_a', 'org_b']) await files.eraseOrganization(organization);
    if ((await rows()) > 0) throw new Error('rows were left behind');
    clock.now = START;
  });

  t.test('returns the stored contents, as a whole and in ranges', async (t) => {
    const bytes = bytesOf(2 * ROW_BYTES + 12_345);
    const file = await add(bytes);
    t.same(await files.get('org_a', file.id), file);
    t.match(file, { organizationId: 'org_a', bytes: bytes.length, createdAt: START, ...description() });
    t.ok((await contents(file.id)).equals(bytes));
    for (const [start, end] of [
      [0, 1],
      [ROW_BYTES - 1, ROW_BYTES + 1],
      [ROW_BYTES, 2 * ROW_BYTES],
      [10, bytes.length],
    ] as const)
      t.ok((await contents(file.id, { start, end })).equals(bytes.subarray(start, end)), `${start} to ${end}`);
    t.equal(await files.usedBytes('org_a'), bytes.length);
  });

  t.test('a file may be empty', async (t) => {
    const { id } = await add(new Uint8Array());
    t.equal((await contents(id)).length, 0);
    t.equal(await files.delete('org_a', id), true);
  });

  t.test('a file that is too large is discarded while it is being written', async (t) => {
    const writer = files.create('org_a');
    await writer.write(bytesOf(LIMITS.max_bytes));
    await t.rejects(writer.write(bytesOf(1)), { status: 413, code: 'file_too_large' });
    t.equal(await files.usedBytes('org_a'), 0);
    await t.rejects(writer.write(bytesOf(1)), 'nothing can be written to a discarded file');
  });

  t.test("limits the total size of an organization's files, including incomplete ones", async (t) => {
    const unfinished = files.create('org_a');
    await unfinished.write(bytesOf(4 * ROW_BYTES));
    const writer = files.create('org_a');
    await writer.write(bytesOf(4 * ROW_BYTES));
    await t.rejects(writer.write(bytesOf(ROW_BYTES)), { status: 400, code: 'storage_quota_exceeded' });
    t.equal(await files.usedBytes('org_a'), 4 * ROW_BYTES);
    await add(bytesOf(ROW_BYTES), { organizationId: 'org_b' });
    const results = files.create('org_a', { limited: false });
    await results.write(bytesOf(6 * ROW_BYTES));
    t.equal((await results.finish(description())).bytes, 6 * ROW_BYTES, 'files of the server are not refused');
    await unfinished.discard();
  });

  t.test('an empty file or part counts toward the limit of its organization', async (t) => {
    await add(bytesOf(5 * ROW_BYTES));
    const room = bytesOf(3 * ROW_BYTES - 2 * MIN_COUNTED_BYTES);
    await add(room);
    const { id } = await add(new Uint8Array());
    const open = await upload();
    await part(open, new Uint8Array());
    t.equal(await files.usedBytes('org_a'), LIMITS.organization_bytes);
    await t.rejects(add(new Uint8Array()), { status: 400, code: 'storage_quota_exceeded' });
    await t.rejects(part(open, new Uint8Array()), { status: 400, code: 'storage_quota_exceeded' });
    t.equal(await files.delete('org_a', id), true);
    t.equal((await add(new Uint8Array())).bytes, 0);
    await uploads.cancel(open);
    t.equal(await files.usedBytes('org_a'), LIMITS.organization_bytes - MIN_COUNTED_BYTES);
  });

  t.test("limits the number of an organization's uploads", async (t) => {
    for (let count = 0; count < MAX_UPLOADS; count += 250)
      await Promise.all(Array.from({ length: 250 }, () => upload()));
    await t.rejects(upload(), { status: 400, code: 'storage_quota_exceeded' });
    t.match(await upload({ organizationId: 'org_b' }), { status: 'pending' });
  });

  t.test('of several writers of the same file, only the first to finish creates it', async (t) => {
    const id = derivedFileId(START * 1_000, 'batch_1 output');
    const [first, second, crashed] = [1, 2, 3].map(() => files.create('org_a', { id })) as [
      FileWriter,
      FileWriter,
      FileWriter,
    ];
    await crashed.write(bytesOf(ROW_BYTES, 3));
    await first.write(bytesOf(ROW_BYTES, 1));
    await second.write(bytesOf(2 * ROW_BYTES, 2));
    const file = await first.finish(description());
    t.equal(file.id, id);
    t.same(await second.finish(description({ filename: 'other' })), file);
    t.ok((await contents(id)).equals(bytesOf(ROW_BYTES, 1)));
    t.equal((await files.list('org_a', { newestFirst: false, after: null, limit: 9 })).files.length, 1);
    t.equal(await files.usedBytes('org_a'), 2 * ROW_BYTES, 'the contents of the second writer are erased');
    await crashed.discard();
    await files.delete('org_a', id);
    t.equal(await rows(), 0);
  });

  t.test('removes the holds that are no longer needed', async (t) => {
    const [one, two] = [await add(bytesOf(10)), await add(bytesOf(10))];
    await files.hold('org_a', one.id, 'batch_ended');
    await files.hold('org_a', two.id, 'batch_ended');
    await files.hold('org_a', two.id, 'batch_running');
    for (const { id } of [one, two]) await files.delete('org_a', id);
    const asked: string[] = [];
    await files.releaseUnneeded(async (organization, holder) => {
      asked.push(`${organization} ${holder}`);
      return holder === 'batch_running';
    });
    t.same(asked.sort(), ['org_a batch_ended', 'org_a batch_ended', 'org_a batch_running']);
    t.equal(await files.get('org_a', one.id, 'batch_ended'), null);
    t.equal(await files.get('org_a', two.id, 'batch_ended'), null);
    t.equal((await contents(two.id, { holder: 'batch_running' })).length, 10);
    await files.release('org_a', two.id, 'batch_running');
    t.equal(await rows(), 0, 'a deleted file is erased with its last hold');
  });

  t.test('limits the total size of all files, including those that the server creates', async (t) => {
    const { id } = await add(bytesOf(5 * ROW_BYTES));
    await add(bytesOf(5 * ROW_BYTES), { organizationId: 'org_b' });
    for (const limited of [true, false]) {
      const writer = files.create('org_c', { limited });
      await writer.write(bytesOf(4 * ROW_BYTES));
      await t.rejects(writer.write(bytesOf(ROW_BYTES)), { status: 503, code: 'capacity_exhausted' });
    }
    await files.delete('org_a', id);
    const { id: theirs } = await add(bytesOf(5 * ROW_BYTES), { organizationId: 'org_c' });
    t.equal(await files.delete('org_c', theirs), true);
    await files.eraseOrganization('org_c');
  });

  t.test('files are listed in both orders, by purpose and in pages', async (t) => {
    const ids: string[] = [];
    for (const purpose of ['batch', 'user_data', 'batch', 'user_data', 'batch'])
      ids.push((await add(bytesOf(1), { purpose })).id);
    ids.sort();
    await add(bytesOf(1), { organizationId: 'org_b' });
    const list = async (query: Partial<Parameters<FileStore['list']>[1]>): Promise<unknown> => {
      const page = await files.list('org_a', { newestFirst: false, after: null, limit: 100, ...query });
      return [page.files.map(({ id }) => id), page.more];
    };
    t.same(await list({}), [ids, false]);
    t.same(await list({ newestFirst: true }), [ids.toReversed(), false]);
    t.same(await list({ limit: 2 }), [ids.slice(0, 2), true]);
    t.same(await list({ limit: 2, after: ids[1]! }), [ids.slice(2, 4), true]);
    t.same(await list({ limit: 2, after: ids[3]!, newestFirst: true }), [[ids[2], ids[1]], true]);
    t.same(await list({ limit: 5, after: ids[0]! }), [ids.slice(1), false]);
    const batch = (await files.list('org_a', { purpose: 'batch', newestFirst: false, after: null, limit: 9 })).files;
    t.equal(batch.length, 3);
    await files.delete('org_a', ids[2]!);
    t.same(await list({ limit: 2, after: ids[2]! }), [ids.slice(3), false], 'a deleted file can be a cursor');
  });

  t.test('finds nothing for other organizations and unknown IDs', async (t) => {
    const { id } = await add(bytesOf(10));
    for (const [organization, name] of [
      ['org_b', id],
      ['org_a', newFileId()],
      ['org_a', 'x'.repeat(5_000)],
    ] as const) {
      t.equal(await files.get(organization, name), null);
      t.equal(await files.delete(organization, name), false);
      t.equal(await files.hold(organization, name, 'batch_1'), null);
      await files.release(organization, name, 'batch_1');
      await t.rejects(files.read(organization, name)[Symbol.asyncIterator]().next(), {
        status: 404,
        code: 'file_not_found',
      });
    }
    t.not(await files.get('org_a', id), null);
  });

  t.test('keeps a deleted file until its last hold is released', async (t) => {
    const bytes = bytesOf(1_000);
    const { id } = await add(bytes);
    await files.hold('org_a', id, 'batch_1');
    await files.hold('org_a', id, 'batch_1');
    await files.hold('org_a', id, 'batch_2');
    t.equal(await files.delete('org_a', id), true);
    t.equal(await files.get('org_a', id), null);
    t.equal(await files.delete('org_a', id), false);
    t.equal((await files.list('org_a', { newestFirst: false, after: null, limit: 9 })).files.length, 0);
    t.equal((await files.get('org_a', id, 'batch_1'))!.id, id);
    t.ok((await contents(id, { holder: 'batch_2' })).equals(bytes));
    await files.release('org_a', id, 'batch_1');
    t.equal(await files.get('org_a', id, 'batch_1'), null);
    t.not(await files.get('org_a', id, 'batch_2'), null);
    t.equal(await files.usedBytes('org_a'), MIN_COUNTED_BYTES);
    await files.release('org_a', id, 'batch_2');
    t.equal(await rows(), 0);
  });

  t.test('a file expires, but stays readable for its holder until it is released', async (t) => {
    const { id } = await add(bytesOf(10));
    const { id: held } = await add(bytesOf(10));
    await files.hold('org_a', held, 'batch_1');
    clock.now = START + 30 * DAY - 1;
    t.equal(await files.sweep(), 0);
    t.not(await files.get('org_a', id), null);
    clock.now = START + 30 * DAY;
    t.equal(await files.get('org_a', id), null, 'it cannot be read even before the sweep');
    t.equal(await files.sweep(), 1);
    t.not(await files.get('org_a', held, 'batch_1'), null);
    t.equal((await contents(held, { holder: 'batch_1' })).length, 10);
    await files.release('org_a', held, 'batch_1');
    t.equal(await rows(), 0);
  });

  t.test('reading rejects if the file is deleted while it is being read', async (t) => {
    const { id } = await add(bytesOf(3 * ROW_BYTES));
    const reading = files.read('org_a', id)[Symbol.asyncIterator]();
    t.equal((await reading.next()).value!.length, ROW_BYTES);
    await files.delete('org_a', id);
    await t.rejects(reading.next(), { code: 'file_not_found' });
  });

  t.test('a sweep erases an abandoned incomplete file', async (t) => {
    const writer = files.create('org_a');
    await writer.write(bytesOf(2 * ROW_BYTES));
    t.ok((await rows()) > 0);
    clock.now = START + UNFINISHED_S - 1;
    await files.sweep();
    t.equal(await files.usedBytes('org_a'), 2 * ROW_BYTES);
    clock.now = START + UNFINISHED_S;
    await files.sweep();
    t.equal(await rows(), 0);
    await writer.write(bytesOf(ROW_BYTES)).then(
      () => t.fail('the writer must notice'),
      (error: unknown) => t.match(error, { code: 'file_not_found' }),
    );
    t.equal(await rows(), 0);
  });

  t.test('erasing an organization erases its files, uploads and unfinished files', async (t) => {
    await add(bytesOf(ROW_BYTES));
    const { id } = await add(bytesOf(10));
    await files.hold('org_a', id, 'batch_1');
    await files.delete('org_a', id);
    const unfinished = files.create('org_a');
    await unfinished.write(bytesOf(ROW_BYTES));
    await part(await upload(), bytesOf(ROW_BYTES));
    const { id: theirs } = await add(bytesOf(10), { organizationId: 'org_b' });
    await uploads.eraseOrganization('org_a');
    await files.eraseOrganization('org_a');
    t.equal(await files.usedBytes('org_a'), 0);
    await t.rejects(unfinished.finish(description()), { code: 'file_not_found' });
    t.not(await files.get('org_b', theirs), null);
    await files.delete('org_b', theirs);
    t.equal(await rows(), 0);
  });

  t.test('completing an upload joins its parts to a file in the given order', async (t) => {
    const open = await upload();
    const [first, second, third] = [bytesOf(ROW_BYTES, 1), bytesOf(1_500_000, 2), bytesOf(3 * ROW_BYTES, 3)];
    const parts = await Promise.all([second, third, first].map((bytes) => part(open, bytes)));
    t.same((await uploads.parts(open)).map(({ bytes }) => bytes).sort(), parts.map(({ bytes }) => bytes).sort());
    const used = [parts[2]!, parts[0]!];
    const read: Uint8Array[] = [];
    for await (const piece of uploads.read(used)) read.push(piece);
    t.ok(Buffer.concat(read).equals(Buffer.concat([first, second])));
    const file = await uploads.complete(open, used, description({ purpose: 'batch' }));
    t.ok((await contents(file.id)).equals(Buffer.concat([first, second])));
    t.ok(
      (await contents(file.id, { start: ROW_BYTES - 5, end: ROW_BYTES + 5 })).equals(
        Buffer.concat([first.subarray(-5), second.subarray(0, 5)]),
      ),
    );
    t.equal(await files.usedBytes('org_a'), first.length + second.length, 'the third part is erased');
    t.match(await uploads.get('org_a', open.id), { status: 'completed', fileId: file.id });
    await t.rejects(uploads.complete(open, used, description()), { status: 422, code: 'invalid_value' });
    await t.rejects(part(open, first), { status: 422, code: 'invalid_value' });
    await t.rejects(uploads.cancel(open), { status: 422, code: 'invalid_value' });
    clock.now = START + UPLOAD_S + ENDED_UPLOAD_S;
    await uploads.sweep();
    await files.sweep();
    t.equal(await uploads.get('org_a', open.id), null);
    t.equal((await contents(file.id)).length, file.bytes, 'the file outlives its upload');
  });

  t.test('cancelling an upload erases its parts', async (t) => {
    const open = await upload();
    await part(open, bytesOf(ROW_BYTES));
    t.match(await uploads.cancel(open), { id: open.id, status: 'cancelled' });
    t.equal(await files.usedBytes('org_a'), 0);
    await t.rejects(part(open, bytesOf(1)), { status: 422, code: 'invalid_value' });
    t.equal(await uploads.get('org_b', open.id), null);
  });

  t.test('an upload expires after an hour, and its parts are erased', async (t) => {
    const open = await upload();
    const one = await part(open, bytesOf(ROW_BYTES));
    clock.now = START + UPLOAD_S;
    t.match(await uploads.get('org_a', open.id), { status: 'expired', expiresAt: START + UPLOAD_S });
    await t.rejects(uploads.complete(open, [one], description()), { status: 422, code: 'invalid_value' });
    await files.sweep();
    t.equal(await files.usedBytes('org_a'), 0);
  });

  t.test('a part must not be larger than its upload', async (t) => {
    await t.rejects(part(await upload({ bytes: 10 }), bytesOf(11)), {
      status: 413,
      code: 'file_too_large',
      message: 'The part is larger than the 10 bytes with which the upload was created.',
    });
    t.equal(await files.usedBytes('org_a'), 0);
  });
}
