// Kills the server with kill -9 under load, for a few rounds of `npm run kills`. After the restart, everything
// acknowledged is there as clients saw it. Deleted objects and revoked keys stay gone, background responses have ended,
// and nothing is stored partially.
import t from 'tap';
import { killRounds } from '../kills/rounds.js';

t.setTimeout(600_000); // The timeout is long because the machine may be busy.

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
