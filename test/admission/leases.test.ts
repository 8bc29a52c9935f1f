// Tests that the queue of messages for an unreachable Redis is bounded. Does not need Redis.
import t from 'tap';
import { Leases, type Lease } from '../../src/admission/shared/leases.js';
import { ConnectionLost, RedisConnection } from '../../src/admission/shared/redis-connection.js';

const never = new RedisConnection({
  url: 'redis://127.0.0.1:1',
  timeoutMs: 1_000,
  attach: () => Promise.resolve(),
  lost: () => undefined,
});
const none = { keys: ['m'], tokens: 0, tookMs: -1, scopes: [] };

t.test(
  'the end of a request is reported only if Redis knows the request, and is queued while Redis is unreachable',
  async (t) => {
    const leases = new Leases(() => never, 'p-', 1_000);
    const [first, second] = [leases.nextId(), leases.nextId()];
    t.same([first, second], ['p-0', 'p-1']);
    const lease = (id: string, told: boolean): Lease => ({ id, n: 1, keys: ['c'], reported: told, place: null });
    const [told, untold] = [lease(first, true), lease(second, false)];
    leases.open(told);
    leases.open(untold);
    t.equal(leases.size, 2);
    leases.end(untold, none);
    t.same([leases.size, leases.unsettled], [1, 0]);
    leases.end(told, none);
    t.same([leases.size, leases.unsettled], [0, 1]);
    await t.rejects(leases.settleAll(), ConnectionLost);
    t.equal(leases.unsettled, 1);
    leases.open(lease('p-2', false));
    await t.rejects(leases.renew(), ConnectionLost);
    t.equal(never.connected, false);
    t.equal(never.up, false);
  },
);

t.test('beyond the maximum, the oldest queued ends are dropped and their leases expire', async (t) => {
  const told: string[] = [];
  const link = {
    connected: false,
    run: (_script: string, _keys: readonly string[], [id]: readonly (string | number)[]): Promise<void> => {
      told.push(String(id));
      return Promise.resolve();
    },
  };
  const leases = new Leases(() => link as unknown as RedisConnection, 'p-', 1_000);
  for (let at = 0; at < 50_003; at++) leases.doubt({ id: `p-${at}`, n: 1, ...none });
  t.equal(leases.unsettled, 50_000);
  await leases.settleAll();
  t.equal(leases.unsettled, 0);
  t.same(
    [told.length, ['p-0', 'p-1', 'p-2', 'p-3'].filter((id) => told.includes(id))],
    [50_000, ['p-3']],
    'the three oldest ends were dropped',
  );
});

t.test('an end that occurs during a full report is reported only once', async (t) => {
  const told: string[] = [];
  const answers: (() => void)[] = [];
  const link = {
    connected: true,
    run: (_script: string, _keys: readonly string[], [id]: readonly (string | number)[]): Promise<void> => {
      told.push(String(id));
      return new Promise((done) => {
        answers.push(done);
      });
    },
  };
  const leases = new Leases(() => link as unknown as RedisConnection, 'p-', 1_000);
  for (let at = 0; at < 251; at++) leases.doubt({ id: `p-${at}`, n: 1, ...none });
  const lease: Lease = { id: 'q', n: 1, keys: ['c'], reported: true, place: null };
  leases.open(lease);
  const settling = leases.settleAll();
  leases.end(lease, none);
  for (let done = answers.shift(); done !== undefined; done = answers.shift()) {
    done();
    await new Promise((turn) => {
      setImmediate(turn);
    });
  }
  await settling;
  t.equal(leases.unsettled, 0);
  t.equal(told.filter((id) => id === 'q').length, 1);
  t.equal(new Set(told).size, told.length);
});
