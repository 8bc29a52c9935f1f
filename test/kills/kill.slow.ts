// Runs a few rounds of `npm run kills`, which kills the server with SIGKILL under load. After the restart, everything
// acknowledged must be there as clients saw it. Deleted objects and revoked keys must stay gone, background responses
// must have ended, and nothing may be stored partially. Part of npm run test:slow.
import t from 'tap';
import { killRounds } from './rounds.js';

t.setTimeout(600_000); // the machine may be busy

const ROUNDS = 3;

t.test('loses no acknowledged change when killed while clients stream, store, delete and create keys', async (t) => {
  const seed = Math.floor(Math.random() * 1_000_000);
  const { rounds, failures, counts } = await killRounds({
    rounds: ROUNDS,
    seed,
    say: (text) => {
      t.comment(text);
    },
  });
  t.same(failures, [], `seed ${seed}: ${counts.join('; ')}`);
  t.equal(rounds, ROUNDS);
});
