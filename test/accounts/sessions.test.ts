// Tests sessions with a clock that the test controls: expiry, last use and eviction, and the expiry of links and
// attempts.
import t from 'tap';
import { ATTEMPTS_MS, MAX_ATTEMPTS, tooMany } from '../../src/accounts/attempts.js';
import { LmdbAttempts } from '../../src/storage/lmdb/accounts/attempts.js';
import { SessionTable } from '../../src/storage/lmdb/accounts/session-table.js';
import { TokenTable } from '../../src/storage/lmdb/accounts/token-table.js';
import {
  csrfToken,
  isCookie,
  MAX_SESSIONS,
  newCookie,
  sessionEnd,
  shownUserAgent,
} from '../../src/accounts/sessions.js';
import { pageOf } from '../../src/accounts/page.js';
import { eventually } from '../e2e/monolith.js';
import { ownStore } from '../support/own-store.js';

const store = await ownStore(t, 'sessions');
let now = Date.parse('2026-01-01T00:00:00Z');
const clock = (): number => now;
const [HOUR, DAY] = [3_600_000, 24 * 3_600_000];
const sessions = new SessionTable(store, clock);
const begin = (user: string, agent = 'a test') => store.transaction(() => sessions.begin(user, '192.0.2.1', agent));
const rows = (): number => [...store.table('sessions').keys()].length;

t.test('a session ends twelve hours after its last use and thirty days after its start', async (t) => {
  const { secret, session } = await begin('user_a');
  t.match(session, {
    id: /^sess_/,
    userId: 'user_a',
    createdAt: now,
    lastSeenAt: now,
    ip: '192.0.2.1',
    userAgent: 'a test',
  });
  t.equal(sessionEnd(session), now + 12 * HOUR);
  t.equal(sessionEnd({ ...session, lastSeenAt: now + 30 * DAY - HOUR }), now + 30 * DAY);
  now += 12 * HOUR - 1;
  t.same(sessions.find(secret), session);
  now += 1;
  t.equal(sessions.find(secret), undefined, 'the session has ended at exactly that time');
  t.same(sessions.list('user_a'), []);
  t.equal(rows(), 2);
  await sessions.sweep();
  t.equal(rows(), 0);
});

t.test('the last use is recorded once a minute and extends the session', async (t) => {
  const { secret, session } = await begin('user_b');
  const began = now;
  now += 59_999;
  sessions.seen(secret, session);
  await store.transaction(() => undefined);
  t.equal(sessions.find(secret)?.lastSeenAt, began);
  now += 1;
  sessions.seen(secret, session);
  t.ok(await eventually(() => sessions.find(secret)?.lastSeenAt === now));
  const noted = now;
  now -= 30_000;
  sessions.seen(secret, { ...session, lastSeenAt: now - 60_000 });
  await store.transaction(() => undefined);
  t.equal(sessions.find(secret)?.lastSeenAt, noted, 'an older last use does not overwrite a newer one');
  now = noted + 12 * HOUR - 1;
  t.ok(sessions.find(secret));
  await store.transaction(() => sessions.endAll('user_b'));
  sessions.seen(secret, session);
  await store.transaction(() => undefined);
  t.equal(sessions.find(secret), undefined, 'using an ended session does not revive it');
});

t.test('the fifty-first session replaces the least recently used one', async (t) => {
  const all: Awaited<ReturnType<typeof begin>>[] = [];
  for (let at = 0; at < MAX_SESSIONS; at++) {
    now += 1_000;
    all.push(await begin('user_c'));
  }
  const other = await begin('user_d');
  t.equal(sessions.list('user_c').length, MAX_SESSIONS);
  now += 60_000;
  sessions.seen(all[0]!.secret, all[0]!.session);
  t.ok(await eventually(() => sessions.find(all[0]!.secret)?.lastSeenAt === now));
  now += 1_000;
  const last = await begin('user_c');
  t.equal(sessions.list('user_c').length, MAX_SESSIONS);
  t.equal(sessions.find(all[1]!.secret), undefined);
  t.ok(sessions.find(all[0]!.secret), 'a session used since then is kept');
  t.ok(sessions.find(other.secret), "other users' sessions stay");
  t.same(
    sessions
      .list('user_c')
      .slice(0, 3)
      .map(({ id }) => id),
    [last.session.id, all[0]!.session.id, all.at(-1)!.session.id],
    'sessions are listed most recently used first',
  );

  t.equal(
    await store.transaction(() => sessions.end('user_d', last.session.id)),
    false,
    "a user cannot end another user's session",
  );
  t.equal(await store.transaction(() => sessions.end('user_c', last.session.id)), true);
  t.equal(await store.transaction(() => sessions.end('user_c', last.session.id)), false);
  t.equal(sessions.find(last.secret), undefined);
  await store.transaction(() => sessions.endAll('user_c', all[5]!.session.id));
  t.same(
    sessions.list('user_c').map(({ id }) => id),
    [all[5]!.session.id],
  );
  await sessions.sweep();
  t.ok(sessions.find(all[5]!.secret), 'valid sessions are not removed');
});

t.test('malformed cookies are rejected, and CSRF tokens are derived from the cookie', (t) => {
  const cookie = newCookie();
  t.ok(isCookie(cookie));
  for (const other of ['', cookie.slice(1), `${cookie}A`, `${cookie.slice(1)}=`, `${cookie}\n`]) {
    t.notOk(isCookie(other), other);
    t.equal(sessions.find(other), undefined);
  }
  t.not(csrfToken(cookie), csrfToken(newCookie()));
  t.equal(csrfToken(cookie), csrfToken(cookie));
  t.not(csrfToken(cookie), cookie);
  t.equal(shownUserAgent('x'.repeat(300)).length, 256);
  t.end();
});

t.test('a link works once within one hour, and only the latest one works', async (t) => {
  const tokens = new TokenTable(store, clock);
  const create = (user: string) => store.transaction(() => tokens.create(user, 'new-email', false, 'new@example.com'));
  const first = await create('user_a');
  const token = await create('user_a');
  const other = await create('user_b');
  t.throws(() => tokens.find(first, 'new-email'), { code: 'invalid_token' });
  t.throws(() => tokens.find(token, 'password'), { code: 'invalid_token' }, 'a link works only for its purpose');
  t.match(tokens.find(token, 'new-email'), {
    userId: 'user_a',
    email: 'new@example.com',
    mailed: false,
    expiresAt: now + HOUR,
  });
  now += HOUR - 1;
  await tokens.sweep();
  t.match(await store.transaction(() => tokens.use(token, 'new-email')), { userId: 'user_a' });
  await t.rejects(
    store.transaction(() => tokens.use(token, 'new-email')),
    { code: 'invalid_token' },
  );
  now += 1;
  t.throws(() => tokens.find(other, 'new-email'), { code: 'invalid_token' });
  await tokens.sweep();
  t.equal([...store.table('tokens').keys()].length, 0);
});

t.test(
  'attempts are limited for fifteen minutes from the first one, and refunded attempts are available again',
  async (t) => {
    const attempts = new LmdbAttempts(store, clock);
    const began = now;
    for (let i = 0; i < MAX_ATTEMPTS.code; i++) {
      await attempts.count('code', ['x']);
      now += 60_000;
    }
    t.same(await attempts.counted('code', 'x'), { count: MAX_ATTEMPTS.code, until: began + ATTEMPTS_MS });
    await t.rejects(attempts.count('code', ['x', 'y']), {
      code: 'too_many_attempts',
      retryAfterMs: began + ATTEMPTS_MS - now,
      message: /in 10 minutes/,
    });
    t.match(await attempts.counted('code', 'y'), { count: 0, until: now + ATTEMPTS_MS });
    now = began + ATTEMPTS_MS - 1;
    await t.rejects(attempts.count('code', ['x']), {
      code: 'too_many_attempts',
      retryAfterMs: 1,
      message: /in 1 minute\./,
    });
    await store.transaction(() => attempts.resetAttempts('code', 'x'));
    t.match(await attempts.counted('code', 'x'), { count: MAX_ATTEMPTS.code - 1 });
    await attempts.count('code', ['x']);
    await store.transaction(() => attempts.clearAttempts('code', 'x'));
    t.match(await attempts.counted('code', 'x'), { count: 0 });
    await store.transaction(() => attempts.resetAttempts('code', 'x'));
    t.match(await attempts.counted('code', 'x'), { count: 0 }, 'the count is never negative');
    await attempts.count('code', ['z']);
    now += ATTEMPTS_MS - 1;
    await attempts.sweep();
    t.match(await attempts.counted('code', 'z'), { count: 1 });
    now += 1;
    t.match(await attempts.counted('code', 'z'), { count: 0 });
    await attempts.sweep();
    t.equal([...store.table('attempts').keys()].length, 0);
    t.match(tooMany(60_001), { message: /in 2 minutes\./, retryAfterMs: 60_001 });
    t.match(tooMany(60_000), { message: /in 1 minute\./ });
  },
);

t.test('pageOf() splits a list into pages', (t) => {
  const list = ['a', 'b', 'c'];
  const part = (limit: number, after: string | null) => pageOf(list, limit, after, (one) => one);
  t.same(part(2, null), { data: ['a', 'b'], next: 'b' });
  t.same(part(2, 'b'), { data: ['c'], next: null });
  t.same(part(3, null), { data: list, next: null });
  t.same(part(1, 'a'), { data: ['b'], next: 'b' });
  t.same(part(5, 'c'), { data: [], next: null });
  t.equal(part(5, 'd'), null);
  t.same(pageOf([], 2, null, String), { data: [], next: null });
  t.end();
});
