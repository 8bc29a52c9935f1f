// 100 rounds in which a server is killed with SIGKILL while it runs batches. Part of npm run test:slow.
import t from 'tap';
import { batchKillRounds } from './batch-rounds.js';

t.setTimeout(3_600_000); // the machine may be busy

const ROUNDS = 100;

t.test('a killed server loses no request of a batch and answers none twice, 100 times', async (t) => {
  const seed = Math.floor(Math.random() * 1_000_000);
  const { problems, batches, stored, interrupted } = await batchKillRounds(ROUNDS, seed);
  t.same(problems, [], `seed ${seed}`);
  t.ok(interrupted > ROUNDS / 4, `${interrupted} kills with running requests`);
  t.ok(stored > 0, `${batches} batches, ${stored} results stored before a kill`);
});
