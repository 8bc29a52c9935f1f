// Runs a few rounds of the slow test batch-kills.slow.ts, which kills a server while it runs batches.
import t from 'tap';
import { batchKillRounds } from './batch-rounds.js';

t.setTimeout(600_000); // the machine may be busy

const ROUNDS = 5;

t.test('every request of a batch gets exactly one result even if the server is killed', async (t) => {
  const seed = Math.floor(Math.random() * 1_000_000);
  const { problems, batches, stored, interrupted } = await batchKillRounds(ROUNDS, seed);
  t.same(problems, [], `seed ${seed}`);
  t.ok(interrupted > 0, `${interrupted} kills with running requests`);
  t.ok(stored > 0, `${batches} batches, ${stored} results stored before a kill`);
});
