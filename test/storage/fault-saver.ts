// Saves and deletes responses one after another and prints what the store has acknowledged. Run as a separate process
// in tests of failing disk writes. Argument: data directory. Output lines: "made", "saved ID PREVIOUS", "deleting ID",
// "deleted ID", "refused". A response's content is derived from its id (saver.ts), and the ids are derived from
// consecutive numbers.
import { createHash } from 'node:crypto';
import { writeSync } from 'node:fs';
import { makeDatabase, openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import { expected } from './saver.js';

const ROUNDS = 6;
/**
 * Printed once the database file has its final name. Until then, the file has a temporary name, and nothing reads it.
 */
export const MADE = 'made';

const idOf = (number: number): string =>
  `resp_${createHash('sha256').update(`fault ${number}`).digest('hex').slice(0, 48)}`;

if (process.argv[2] !== undefined && import.meta.filename === process.argv[1]) {
  const say = (text: string): void => {
    writeSync(1, `${text}\n`);
  };
  makeDatabase(process.argv[2]);
  say(MADE);
  const store = await openStore(process.argv[2]);
  const responses = openResponseStore(store, { retention_days: 30 });
  let previous: string | null = null;
  for (let round = 0; round < ROUNDS; round++) {
    const id = idOf(round);
    const before = previous;
    await responses.save(expected(id, before)).then(
      () => {
        say(`saved ${id} ${before ?? ''}`);
        previous = id;
      },
      () => {
        say('refused');
      },
    );
    if (round % 3 === 2 && previous !== null) {
      const gone: string = previous;
      say(`deleting ${gone}`);
      await responses.delete('org_a', gone).then(
        () => {
          say(`deleted ${gone}`);
        },
        () => {
          say('refused');
        },
      );
      previous = null;
    }
  }
  await responses.close();
  await store.close();
  say('closed');
}
