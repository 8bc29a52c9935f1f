// A process that saves responses until the disk is full and then continues. Run it where the file size is limited. It
// prints its results as JSON. Argument: data directory.
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import { ApiError } from '../../src/shared/errors.js';
import { DAY, record } from './records.js';

if (process.argv[2] !== undefined && import.meta.filename === process.argv[1]) {
  const errors: unknown[] = [];
  const logged: string[] = [];
  let unhandled = 0;
  process.on('SIGXFSZ', () => undefined);
  process.on('unhandledRejection', () => {
    unhandled++;
  });
  const store = await openStore(process.argv[2]);
  let now = record().createdAt;
  const responses = openResponseStore(
    store,
    { retention_days: 30 },
    { now: () => now, onWriteFailure: (error) => logged.push((error as Error).name) },
  );
  const saved: string[] = [];
  for (let n = 0; n < 20; n++) {
    const one = record({}, 'x'.repeat(200_000));
    await responses.save(one).then(
      () => saved.push(one.id),
      (error: unknown) => {
        errors.push(error instanceof ApiError ? [error.status, error.code, error.message] : String(error));
      },
    );
  }
  let readable = 0;
  for (const id of saved)
    if (((await responses.get('org_a', id))!.resource['output'] as object[]).length === 1) readable++;
  const deleted = await responses.delete('org_a', saved[0]!);
  let kept = saved.length - 1;
  await responses.save(record()).then(
    () => {
      kept++;
    },
    (error: unknown) => errors.push(error),
  );
  // Small responses still fit for a while. The store must not fill the disk to the last page, because erasing needs a
  // few pages too.
  for (let isFull = false; !isFull; )
    await responses.save(record({}, 'x'.repeat(3_000))).then(
      () => {
        kept++;
      },
      () => {
        isFull = true;
      },
    );
  now += 31 * DAY;
  const swept = await responses.sweep();
  const left = [...store.table('response-times').keys()].length + [...store.table('responses').keys()].length;
  const savedAgain = await responses.save(record({ createdAt: now }, 'x'.repeat(200_000))).then(
    () => true,
    () => false,
  );
  await responses.close();
  await store.close();
  process.stdout.write(
    `${JSON.stringify({ saved: saved.length, readable, deleted, swept: swept === kept ? 'all' : swept, left, savedAgain, errors, logged, unhandled })}\n`,
  );
}
