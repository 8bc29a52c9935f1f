// Kills a server 100 times with SIGKILL while it runs batches. Part of npm run test:slow.
import t from 'tap';
import { batchKillRounds } from './batch-rounds.js';

t.setTimeout(14_400_000); // the machine may be busy

const ROUNDS = 100;

t.test('every request of a batch gets exactly one result even if the server is killed 100 times', async (t) => {
  const seed = Math.floor(Math.random() * 1_000_000);
  const { problems, batches, stored, interrupted } = await batchKillRounds(ROUNDS, seed);
  t.same(problems, [], `seed ${seed}`);
  t.ok(interrupted > ROUNDS / 4, `${interrupted} kills with running requests`);
  t.ok(stored > 0, `${batches} batches, ${stored} results stored before a kill`);
});
