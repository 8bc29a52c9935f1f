// Tests two-factor authentication codes, and the tickets that connect the steps of a sign-in, with real tables and a
// clock that the test controls.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { MAX_ATTEMPTS } from '../../src/accounts/attempts.js';
import type { Actor } from '../../src/accounts/audit.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { RECOVERY_CODES, SecondFactorCodes } from '../../src/accounts/second-factor-codes.js';
import { MfaChallenges, TICKET_MS } from '../../src/accounts/mfa-challenges.js';
import { codeAt, stepAt } from '../../src/accounts/totp.js';
import type { User } from '../../src/accounts/users.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { SecretBox } from '../../src/accounts/sealing/secret-box.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

const OLD = new Uint8Array(32).fill(1);
const NEW = new Uint8Array(32).fill(2);
const CLIENT = { ip: '192.0.2.1', userAgent: 'a test' };

interface Bench {
  directory: LmdbDirectory;
  user: User;
  session: string;
  actor: Actor;
  codes: SecondFactorCodes;
  box: SecretBox;
  pass(ms: number): void;
  code(beside?: number): string;
  read(text: string): void;
  clock(): number;
}

async function bench(t: Test): Promise<Bench> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-codes-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const directory = new LmdbDirectory(store);
  const { user, cookie } = await directory.signUps.signUp(
    { open: true, local: true },
    { email: 'a@example.com', name: 'a', organizationName: null, invite: null, code: null },
    'hash',
    CLIENT,
  );
  let now = Date.now();
  let secret: Uint8Array = new Uint8Array(0);
  const box = new SecretBox(new KeyRing([OLD]));
  return {
    directory,
    user,
    session: (await directory.signIns.find(cookie))!.session.id,
    actor: { type: 'user', id: user.id, email: user.email, ip: CLIENT.ip },
    box,
    codes: new SecondFactorCodes(directory.secondFactors, directory.attempts, box, () => now),
    pass: (ms) => {
      now += ms;
    },
    clock: () => now,
    read: (text) => {
      secret = fromBase32(text);
    },
    code: (beside = 0) => codeAt(secret, stepAt(now) + beside),
  };
}

function fromBase32(text: string): Buffer {
  const bits = [...text]
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((eight) => Number.parseInt(eight, 2)));
}

const other = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');

t.test('a code from the latest secret enables the second factor, and each code works once', async (t) => {
  const { directory, user, session, actor, codes, pass, code, read } = await bench(t);
  const first = await codes.propose(user, 'Monolith');
  const last = await codes.propose(user, 'Monolith');
  t.match(last.uri, `secret=${last.secret}`);
  t.equal(fromBase32(last.secret).length, 20);
  await t.rejects(
    codes.use(user, '000000', CLIENT.ip),
    { code: 'invalid_value', message: /turned off in the meantime/ },
    'no second factor is enabled yet',
  );
  read(first.secret);
  await t.rejects(codes.enable(user, code(), session, actor), { code: 'invalid_code', status: 401 });
  read(last.secret);
  const recovery = await codes.enable(user, ` ${code().slice(0, 3)}-${code().slice(3)} `, session, actor);
  t.equal(recovery.length, RECOVERY_CODES);
  t.equal(new Set(recovery).size, RECOVERY_CODES);
  for (const one of recovery) t.match(one, /^[A-Z2-7]{4}(-[A-Z2-7]{4}){3}$/);
  await t.rejects(codes.enable(user, code(1), session, actor), { code: 'invalid_value', message: /Start again/ });
  await t.rejects(
    codes.use(user, code(), CLIENT.ip),
    { code: 'invalid_code', message: /already been used/ },
    'the code that enabled the second factor cannot be reused',
  );
  await t.rejects(codes.use(user, other(code(1)), CLIENT.ip), { code: 'invalid_code', message: /wrong/ });
  t.equal(await codes.use(user, code(1), CLIENT.ip), RECOVERY_CODES);
  pass(30_000);
  await t.rejects(codes.use(user, code(), CLIENT.ip), { code: 'invalid_code', message: /already been used/ });
  pass(30_000);
  t.equal(await codes.use(user, code(), CLIENT.ip), RECOVERY_CODES);

  t.equal(await codes.use(user, recovery[0]!.toLowerCase().replaceAll('-', ' '), CLIENT.ip), RECOVERY_CODES - 1);
  await t.rejects(codes.use(user, recovery[0]!, CLIENT.ip), { code: 'invalid_code', message: /recovery/ });
  await t.rejects(
    codes.use(user, '1234567', CLIENT.ip),
    { code: 'invalid_code', message: /recovery/ },
    'longer input is treated as a recovery code',
  );
  const again = await codes.replaceRecovery(user, actor);
  t.equal(again.length, RECOVERY_CODES);
  await t.rejects(
    codes.use(user, recovery[1]!, CLIENT.ip),
    { code: 'invalid_code' },
    'earlier recovery codes are invalid',
  );
  t.equal(await codes.use(user, again[9]!, CLIENT.ip), RECOVERY_CODES - 1);
  await directory.secondFactors.disable(user, actor);
  await t.rejects(codes.replaceRecovery(user, actor), { code: 'invalid_value' });
});

t.test('a proposed secret expires and must be requested again', async (t) => {
  const { user, session, actor, codes, code, read, directory } = await bench(t);
  read((await codes.propose(user, 'Monolith')).secret);
  await directory.secondFactors.propose(user.id, 'of another key');
  await t.rejects(
    codes.enable(user, code(), session, actor),
    { code: 'invalid_value', message: /Start again/ },
    'a secret that can no longer be decrypted is refused',
  );
});

t.test('wrong codes are counted per user, and a correct code resets the count', async (t) => {
  const { user, session, actor, codes, code, read, pass } = await bench(t);
  read((await codes.propose(user, 'Monolith')).secret);
  await codes.enable(user, code(), session, actor);
  for (let i = 0; i < MAX_ATTEMPTS.code - 1; i++)
    await t.rejects(codes.use(user, other(code()), CLIENT.ip), { code: 'invalid_code' });
  pass(30_000);
  await codes.use(user, code(), CLIENT.ip);
  for (let i = 0; i < MAX_ATTEMPTS.code; i++)
    await t.rejects(codes.use(user, other(code()), CLIENT.ip), { code: 'invalid_code' });
  pass(30_000);
  await t.rejects(
    codes.use(user, code(), CLIENT.ip),
    { code: 'too_many_attempts', status: 429 },
    'even the correct code is refused while the limit is exceeded',
  );
});

t.test('secrets are re-encrypted while the old key is configured; if it is missing, this is reported', async (t) => {
  const { directory, user, session, actor, codes, code, read, pass, clock } = await bench(t);
  read((await codes.propose(user, 'Monolith')).secret);
  await codes.enable(user, code(), session, actor);
  const sealed = async (): Promise<string | undefined> => (await directory.secondFactors.get(user.id))?.sealed;
  const of = (...keys: Uint8Array[]): SecondFactorCodes =>
    new SecondFactorCodes(directory.secondFactors, directory.attempts, new SecretBox(new KeyRing(keys)), clock);
  const lost: string[] = [];
  const before = await sealed();
  await of(OLD, NEW).reseal((id) => lost.push(id));
  t.equal(await sealed(), before, 'a secret encrypted with the current key is not changed');
  await of(NEW).reseal((id) => lost.push(id));
  t.same(lost, [user.id]);
  t.equal(await sealed(), before);
  await t.rejects(of(NEW).use(user, code(1), CLIENT.ip), {
    code: 'invalid_value',
    message: /can no longer be checked/,
  });
  await of(NEW, OLD).reseal((id) => lost.push(id));
  t.same(lost, [user.id]);
  t.not(await sealed(), before);
  pass(60_000);
  t.equal(await of(NEW).use(user, code(), CLIENT.ip), RECOVERY_CODES);
});

t.test('a ticket is valid for ten minutes, for one user and password', async (t) => {
  const { directory, user, box, pass, clock, actor } = await bench(t);
  const tickets = new MfaChallenges(box, directory.users, clock);
  const { ticket, expiresAt } = tickets.issue(user);
  t.equal(expiresAt, clock() + TICKET_MS);
  t.match(await tickets.open(ticket), { id: user.id });
  for (const wrong of [
    '',
    'x',
    `${ticket}A`,
    box.seal('second factor', '', '{}'),
    box.seal('sign-in ticket', 'x', '{}'),
  ])
    await t.rejects(tickets.open(wrong), { code: 'invalid_token', status: 400 });
  pass(TICKET_MS - 1);
  t.match(await tickets.open(ticket), { id: user.id });
  pass(1);
  await t.rejects(tickets.open(ticket), { code: 'invalid_token' });
  const next = tickets.issue(user).ticket;
  await directory.signIns.changePassword(user, 'another hash', '', actor);
  await t.rejects(tickets.open(next), { code: 'invalid_token' });
  t.match(await tickets.open(tickets.issue((await directory.users.get(user.id))!).ticket), { id: user.id });
  await t.rejects(tickets.open(tickets.issue({ ...user, id: 'user_none' }).ticket), { code: 'invalid_token' });
});
