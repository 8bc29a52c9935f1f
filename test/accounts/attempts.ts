// Tests with a wrong clock that every implementation of Attempts must pass.
import t, { type Test } from 'tap';
import { ATTEMPTS_MS, MAX_ATTEMPTS } from '../../src/accounts/attempts.js';
import type { Attempts } from '../../src/accounts/attempts.js';

export function attemptsClockTests(open: (t: Test, now: () => number) => Promise<Attempts>): void {
  for (const [kind, how] of [
    ['login', 'count()'],
    ['operator', 'counted()'],
  ] as const) {
    t.test(`a lockout that starts while the clock is a day ahead lasts no longer than the rule (${how})`, async (t) => {
      let now = Date.parse('2026-01-02T00:00:00Z');
      const attempts = await open(t, () => now);
      for (let n = 0; n < MAX_ATTEMPTS[kind]; n++) await attempts.count(kind, ['somebody']);
      now -= 86_400_000;
      if (how === 'count()')
        await t.rejects(attempts.count(kind, ['somebody']), {
          code: 'too_many_attempts',
          message: 'Too many attempts. Try again in 15 minutes.',
        });
      else t.match(await attempts.counted(kind, 'somebody'), { count: MAX_ATTEMPTS[kind], until: now + ATTEMPTS_MS });
      now += ATTEMPTS_MS - 60_000;
      await t.rejects(attempts.count(kind, ['somebody']), {
        code: 'too_many_attempts',
        message: 'Too many attempts. Try again in 1 minute.',
      });
      now += 60_000;
      await attempts.count(kind, ['somebody']);
      t.match(await attempts.counted(kind, 'somebody'), { count: 1, until: now + ATTEMPTS_MS });
    });
  }
}
