// What waits for an engine that cannot be asked is bounded; no Redis is needed for that.
import t from 'tap';
import { Leases, type Lease } from '../../src/admission/shared/leases.js';
import { LinkDown, RedisLink } from '../../src/admission/shared/link.js';

const never = new RedisLink({ url: 'redis://127.0.0.1:1', timeoutMs: 1_000, attach: () => Promise.resolve(), lost: () => undefined });
const none = { keys: ['m'], tokens: 0, tookMs: -1, gates: [] };

t.test('an end is told only of what the engine was told of, and waits where it cannot be', async (t) => {
  const leases = new Leases(() => never, 'p-', 1_000);
  const [first, second] = [leases.nextId(), leases.nextId()];
  t.same([first, second], ['p-0', 'p-1']);
  const lease = (id: string, told: boolean): Lease => ({ id, n: 1, keys: ['c'], told });
  const [told, untold] = [lease(first, true), lease(second, false)];
  leases.open(told);
  leases.open(untold);
  t.equal(leases.size, 2);
  leases.end(untold, none);
  t.same([leases.size, leases.unsettled], [1, 0]);
  leases.end(told, none);
  t.same([leases.size, leases.unsettled], [0, 1]);
  await t.rejects(leases.settleAll(), LinkDown);
  t.equal(leases.unsettled, 1);
  leases.open(lease('p-2', false));
  await t.rejects(leases.renew(), LinkDown);
  t.equal(never.connected, false);
  t.equal(never.up, false);
});

t.test('of more ends than it keeps the oldest are left to time', (t) => {
  const leases = new Leases(() => never, 'p-', 1_000);
  for (let at = 0; at < 50_000; at++) leases.doubt({ id: `p-${at}`, n: 1, ...none });
  t.equal(leases.unsettled, 50_000);
  for (let at = 0; at < 3; at++) leases.doubt({ id: `q-${at}`, n: 1, ...none });
  t.equal(leases.unsettled, 50_000);
  leases.doubt({ id: 'p-3', n: 1, ...none });
  t.equal(leases.unsettled, 50_000, 'the fourth is there still, and is one');
  leases.doubt({ id: 'p-0', n: 1, ...none });
  t.equal(leases.unsettled, 50_000, 'the first was let go: it comes in place of another');
  t.end();
});
