// Tests limit states as reported by Redis, and how they change over time.
import t from 'tap';
import { recordKey } from '../../src/admission/record-key.js';
import { costUs, headersOf, readSnapshots, stateOf, waitMs } from '../../src/admission/shared/limit-snapshot.js';

const gate = (limits: { rpm: number | null; tpm: number | null; concurrency: number | null }) => ({
  owner: 'organization' as const,
  key: recordKey('organization', 'a', 'm'),
  limits,
});

t.test('readSnapshots() reads four values per limit scope from an offset', (t) => {
  t.same(readSnapshots(['admitted', 0, 3, -1, '1.500', '2', 3, 4, '5', '6', 7, 8], 4), [
    { rpmUs: 1.5, tpmUs: 2, count: 3, meanMs: 4 },
    { rpmUs: 5, tpmUs: 6, count: 7, meanMs: 8 },
  ]);
  t.same(readSnapshots(['1', '2', '3', '4'], 0), [{ rpmUs: 1, tpmUs: 2, count: 3, meanMs: 4 }]);
  t.same(readSnapshots([], 0), []);
  t.same(readSnapshots(['1', '2', '3'], 0), [], 'incomplete values are ignored');
  t.end();
});

t.test('waitMs() is the time until a bucket holds an amount', (t) => {
  t.equal(costUs(1, 60), 1_000_000);
  t.equal(costUs(7, 7), 60_000_000);
  t.equal(waitMs(0, 60, 60), 0, 'a full bucket needs no wait');
  t.equal(waitMs(0, 1, 60), 0);
  t.equal(waitMs(60_000_000, 1, 60), 1_000);
  t.equal(waitMs(59_000_000, 1, 60), 0, 'the bucket holds exactly enough');
  t.equal(waitMs(59_000_001, 1, 60), 0, 'a shortfall of one microsecond is tolerated, as in the Lua script');
  t.equal(waitMs(59_000_002, 1, 60), 1, 'a shortfall of two microseconds gives a wait of at least one millisecond');
  t.equal(waitMs(61_000_000, 30, 60), 31_000);
  t.end();
});

t.test('stateOf() adds the refill since the report and omits disabled limits', (t) => {
  const seen = { rpmUs: 30_000_000, tpmUs: 60_000_000, count: 3, meanMs: 0 };
  t.same(stateOf(gate({ rpm: 60, tpm: 600, concurrency: 5 }), seen, 0), {
    requests: { limit: 60, remaining: 30, resetMs: 30_000 },
    tokens: { limit: 600, remaining: 0, resetMs: 60_000 },
    concurrency: { limit: 5, remaining: 2 },
  });
  t.match(stateOf(gate({ rpm: 60, tpm: 600, concurrency: 2 }), seen, 10_000_000), {
    requests: { remaining: 40 },
    tokens: { remaining: 100 },
    concurrency: { limit: 2, remaining: 0 },
  });
  t.match(stateOf(gate({ rpm: 60, tpm: null, concurrency: null }), seen, 50_000_000), {
    requests: { remaining: 60, resetMs: 0 },
    tokens: null,
    concurrency: null,
  });
  t.match(stateOf(gate({ rpm: null, tpm: 600, concurrency: null }), seen, 0), { requests: null });
  t.end();
});

t.test('headers show one scope, or the tighter of two', (t) => {
  const [wide, narrow] = [
    gate({ rpm: 100, tpm: null, concurrency: null }),
    gate({ rpm: 10, tpm: null, concurrency: null }),
  ];
  const full = { rpmUs: 0, tpmUs: 0, count: 0, meanMs: 0 };
  t.match(Object.fromEntries(headersOf([wide], [full], 0, 'chat')), {
    'x-ratelimit-limit-requests': '100',
    'x-ratelimit-remaining-requests': '100',
  });
  t.match(Object.fromEntries(headersOf([wide, narrow], [full, full], 0, 'chat')), {
    'x-ratelimit-limit-requests': '10',
    'x-ratelimit-remaining-requests': '10',
  });
  t.match(Object.fromEntries(headersOf([wide, narrow], [{ ...full, rpmUs: 57_000_000 }, full], 0, 'chat')), {
    'x-ratelimit-limit-requests': '100',
    'x-ratelimit-remaining-requests': '5',
  });
  t.end();
});
