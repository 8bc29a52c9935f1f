// Kills a process with SIGKILL while its engine's pages are being written; see kill-rounds.ts. engine-kill.slow.ts runs
// 200 rounds.
import t from 'tap';
import { killRounds } from './kill-rounds.js';

t.setTimeout(300_000); // the machine may be busy

const ROUNDS = 5;

t.test(`pages on disk survive ${ROUNDS} rounds of kill -9`, async (t) => {
  const { failures, settled, read } = await killRounds(ROUNDS);
  t.same(failures, []);
  t.equal(settled, Math.floor(ROUNDS / 2));
  t.ok(read > 0, 'some prompts were read from disk');
});
