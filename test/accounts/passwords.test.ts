// Tests password hashing: format, accepted input, cost, and the limit on concurrent hashing.
import { scryptSync } from 'node:crypto';
import t from 'tap';
import { hashPassword, isOutdated, verifyPassword } from '../../src/accounts/passwords.js';
import { cpuTime } from '../support/cpu-time.js';

t.test('a password hash is salted and verifies only its password', async (t) => {
  const encoded = await hashPassword('a long enough password');
  t.match(encoded, /^\$scrypt\$ln=15,r=8,p=3\$[\w+/]{22}==\$[\w+/]{43}=$/);
  t.not(encoded, await hashPassword('a long enough password'), 'a hash has a random salt');
  t.ok(await verifyPassword('a long enough password', encoded));
  t.notOk(await verifyPassword('a long enough passworD', encoded));
  t.notOk(await verifyPassword('a long enough password', null));
  t.notOk(await verifyPassword('a long enough password', 'nonsense'));
  t.notOk(isOutdated(encoded));
});

t.test('equivalent Unicode spellings of a password match', async (t) => {
  t.ok(await verifyPassword('e\u0301te\u0301 \u2460 2 3 4 5', await hashPassword('\u00e9t\u00e9 1 2 3 4 5')));
});

t.test('a hash with other cost parameters is verified and reported as outdated', async (t) => {
  const salt = Buffer.alloc(16, 7);
  const old = `$scrypt$ln=14,r=8,p=1$${salt.toString('base64')}$${scryptSync('an old password', salt, 32, { N: 2 ** 14, r: 8, p: 1 }).toString('base64')}`;
  t.ok(await verifyPassword('an old password', old));
  t.notOk(await verifyPassword('an older password', old));
  t.ok(isOutdated(old));
});

t.test('checking a password takes as long for an unknown user as for a known one', async (t) => {
  const encoded = await hashPassword('a long enough password');
  const time = async (of: string | null): Promise<number> => {
    let best = Infinity;
    for (let i = 0; i < 3; i++) {
      const spent = cpuTime();
      await verifyPassword('not the password', of);
      best = Math.min(best, spent());
    }
    return best;
  };
  const [known, unknown] = [await time(encoded), await time(null)];
  t.ok(
    unknown > 0.5 * known && unknown < 2 * known,
    `${known.toFixed(0)} ms of CPU time for a known and ${unknown.toFixed(0)} ms`,
  );
});

t.test('hashing beyond the queue limit is refused, and the event loop stays responsive', async (t) => {
  let turns = 0;
  const clock = setInterval(() => turns++, 10);
  const encoded = '$scrypt$ln=14,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=';
  const answers = await Promise.allSettled(Array.from({ length: 60 }, async () => verifyPassword('x', encoded)));
  clearInterval(clock);
  const refused = answers.filter((answer) => answer.status === 'rejected');
  t.equal(refused.length, 60 - 34);
  t.match(refused[0], { reason: { code: 'capacity_exhausted', status: 503 } });
  t.ok(turns > 10, `${turns} event-loop turns during hashing`);
  t.notOk(await verifyPassword('x', encoded), 'hashing works again after the queue has drained');
});
