// Runs a few rounds with three processes under faults (rounds.ts); one of the processes has several threads. A process,
// PostgreSQL and Redis are killed, connections fail, and the history must satisfy all rules. `npm run faults:processes`
// runs many rounds. Part of npm run test:slow.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { withoutPostgres } from '../support/postgres.js';
import { withoutRedis } from '../support/redis.js';
import { runRounds } from './rounds.js';

t.setTimeout(600_000); // the machine may be busy

t.test(
  'the history of three rounds satisfies all rules',
  { skip: [withoutPostgres, withoutRedis].find((reason) => reason !== false) ?? false },
  async (t) => {
    // In these rounds, a process, then PostgreSQL, then Redis is killed.
    const { problems, operations } = await runRounds({
      rounds: 3,
      first: 2,
      seed: 1,
      file: join(tmpdir(), 'monolith-rounds.jsonl'),
    });
    t.same(problems, []);
    for (const what of ['hold 200', 'ask 200', 'store 200', 'background 200']) t.ok((operations[what] ?? 0) > 0, what);
  },
);
