// Tests of AlertStore that every implementation must pass.

import t, { type Test } from 'tap';
import { MAX_INCIDENTS } from '../../src/alerts/alert-store.js';
import type { AlertStore } from '../../src/alerts/alert-store.js';
import { incidentId, pendingDelivery } from '../../src/alerts/incident.js';
import type { Incident } from '../../src/alerts/incident.js';

export const incidentAt = (at: number, more: Partial<Incident> = {}): Incident => ({
  id: incidentId(at),
  key: `disk ${at}`,
  kind: 'disk',
  title: 'Little disk space',
  what: '1 GiB is free.',
  process: 'a machine',
  lookAt: 'the disk',
  value: 1,
  threshold: 2,
  beganAt: at,
  endedAt: null,
  end: null,
  deliveries: [],
  ...more,
});

export function alertStoreTests(open: (t: Test) => Promise<AlertStore>): void {
  t.test('only one incident per key is active', async (t) => {
    const store = await open(t);
    const first = incidentAt(1, { key: 'k' });
    t.same(await Promise.all([store.begin(first), store.begin(incidentAt(2, { key: 'k' }))]), [true, false]);
    t.same(await store.newest(10), [first]);
    t.equal(await store.change('inc_unknown', (one) => one), null);
    t.equal(await store.change(first.id, () => null), null);
    const ended = await store.change(first.id, (one) => ({ ...one, endedAt: 3, end: 'over' }));
    t.match(ended, { endedAt: 3 });
    const third = incidentAt(4, { key: 'k' });
    t.equal(await store.begin(third), true, 'an incident with the key of an ended one may begin');
    t.same(await store.newest(10), [third, ended], 'newest first');
    t.same(await store.newest(1), [third]);
  });

  t.test('an ended incident is open while a delivery is pending', async (t) => {
    const store = await open(t);
    const delivery = pendingDelivery({ id: 'mail_1', label: 'a@example.com' }, 'ended', 5);
    const one = incidentAt(1, { deliveries: [delivery] });
    await store.begin(one);
    await store.change(one.id, (before) => ({ ...before, endedAt: 5 }));
    t.equal((await store.open()).length, 1);
    await store.change(one.id, (before) => ({ ...before, deliveries: [{ ...delivery, state: 'delivered' }] }));
    t.same(await store.open(), []);
    t.equal((await store.newest(10)).length, 1);
  });

  t.test('the oldest incidents are erased, except open ones', async (t) => {
    const store = await open(t);
    const active = incidentAt(1);
    await store.begin(active);
    const last = MAX_INCIDENTS + 5;
    for (let from = 2; from < last; from += 50)
      await Promise.all(
        Array.from({ length: Math.min(50, last - from) }, (_, at) =>
          store.begin(incidentAt(from + at, { endedAt: from + at })),
        ),
      );
    await store.begin(incidentAt(last, { endedAt: last }));
    const left = await store.newest(MAX_INCIDENTS * 2);
    t.equal(left.length, MAX_INCIDENTS + 1);
    t.same(left.at(-1), active);
    t.equal(left.at(-2)?.beganAt, 6);
  });
}
