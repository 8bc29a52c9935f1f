// Tests which limits apply to a requester, and the scopes that count its requests.
import t from 'tap';
import { LimitScopes } from '../../src/admission/limit-scopes.js';
import { keyLimits, organizationLimits } from '../../src/admission/limits.js';
import { configWith } from '../../src/config/load.js';

t.test('each limit of a key applies by itself, and a key with all limits disabled has none', (t) => {
  const off = { rpm: null, tpm: null, concurrency: null };
  for (const one of ['rpm', 'tpm', 'concurrency'] as const)
    t.same(keyLimits({ m: { [one]: 0 } }, 'm'), { ...off, [one]: 0 }, one);
  t.equal(keyLimits(null, 'm'), null);
  t.equal(keyLimits(undefined, 'm'), null);
  t.equal(keyLimits({}, 'm'), null);
  t.equal(keyLimits({ m: off, '*': { rpm: null } }, 'm'), null);
  t.equal(keyLimits({ other: { rpm: 5 } }, 'm'), null, "another model's limit does not apply");
  t.end();
});

t.test('overrides apply per field, for a model before general ones, and may disable a limit', (t) => {
  t.same(keyLimits({ m: { rpm: null, tpm: 3 }, '*': { rpm: 7, tpm: 8, concurrency: 9 } }, 'm'), {
    rpm: null,
    tpm: 3,
    concurrency: 9,
  });
  const { limits } = configWith({
    limits: {
      rpm: 1,
      tpm: 2,
      concurrency: 3,
      overrides: { org_a: { m: { rpm: 4 } }, '*': { m: { rpm: 5, tpm: null }, '*': { concurrency: 6 } } },
    },
  });
  t.same(organizationLimits(limits, 'org_a', undefined, 'm'), { rpm: 4, tpm: null, concurrency: 6 });
  t.same(organizationLimits(limits, 'org_b', undefined, 'm'), { rpm: 5, tpm: null, concurrency: 6 });
  t.same(organizationLimits(limits, 'org_b', undefined, 'other'), { rpm: 1, tpm: 2, concurrency: 6 });
  t.same(organizationLimits(limits, 'org_a', { '*': { rpm: null, tpm: 9 } }, 'm'), {
    rpm: null,
    tpm: 9,
    concurrency: 6,
  });
  t.end();
});

t.test('a key has its own scope only if it has a limit, and no two scopes share a count', (t) => {
  const gates = new LimitScopes(configWith({ limits: { rpm: 10, tpm: null, concurrency: null } }).limits);
  const who = {
    organizationId: 'same',
    limits: {},
    keyId: 'same',
    keyLimits: { m: { tpm: 5 } },
    monthlyTokenCap: null,
  };
  const [organization, key, ...more] = gates.of(who, 'm');
  t.equal(more.length, 0);
  t.match(organization, { owner: 'organization', limits: { rpm: 10, tpm: null, concurrency: null } });
  t.match(key, { owner: 'API key', limits: { rpm: null, tpm: 5, concurrency: null } });
  t.notSame([...organization!.key], [...key!.key]);
  t.same(
    gates.of(who, 'other').map(({ owner }) => owner),
    ['organization'],
  );
  const halves = new LimitScopes(configWith({ limits: { rpm: 10 } }).limits, ({ rpm, ...rest }) => ({
    ...rest,
    rpm: rpm === null ? null : rpm / 2,
  }));
  t.equal(halves.organization(who, 'm').limits.rpm, 5, 'the limit enforced by this process is its share');
  t.equal(halves.limitsOf(who, 'm').rpm, 10, 'clients are shown the whole limit');
  t.end();
});
