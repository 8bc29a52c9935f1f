// kill -9 under load, a few rounds of npm run kills: what was acknowledged is there after the restart as it was seen, what was
// deleted or revoked stays so, background responses have ended, and nothing is there in part.
import t from 'tap';
import { killRounds } from '../kills/rounds.js';

t.setTimeout(600_000); // for a busy machine

const ROUNDS = 3;

t.test('killed while clients stream, store, delete, and make keys', async (t) => {
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
