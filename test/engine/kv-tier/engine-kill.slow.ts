// Kills a process with SIGKILL while its engine's pages are being written; see kill-rounds.ts. Part of npm run
// test:slow.
import t from 'tap';
import { killRounds } from './kill-rounds.js';

t.setTimeout(3_600_000);

const ROUNDS = 200;

t.test(`pages on disk survive ${ROUNDS} rounds of kill -9`, async (t) => {
  const { failures, settled, answers, read } = await killRounds(ROUNDS);
  t.comment(`${answers} answers, ${read} prompts read from disk`);
  t.same(failures, []);
  t.equal(settled, ROUNDS / 2);
  t.ok(read > ROUNDS, 'prompts were read from disk in most rounds');
});
