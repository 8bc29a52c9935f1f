import assert from 'node:assert/strict';
import t from 'tap';
import { Admission } from '../../src/admission/admission.js';
import { duration } from '../../src/admission/headers.js';
import { configWith } from '../../src/config.js';
import { ApiError } from '../../src/errors.js';

const ORG = { organizationId: 'org_a' };

/** An admission whose clock the test turns. */
function gate(limits: object): { admission: Admission; pass(ms: number): void } {
  let now = 5_000_000_000_000n;
  const admission = new Admission(configWith({ limits }).limits, { now: () => now });
  return { admission, pass: (ms) => { now += BigInt(Math.round(ms * 1e6)); } };
}

function refusal(work: () => unknown): ApiError {
  try {
    work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('was admitted');
}

const ask = (more: object = {}): Parameters<Admission['reserve']>[0] => ({ identity: ORG, model: 'm', promptTokens: 100, statedCap: 500, modelMaximum: 8192, n: 1, ...more });
const values = (admission: Admission): Record<string, string> => Object.fromEntries(admission.headers('org_a', 'm', 'chat'));

t.test('the contract\'s example: reserve 620, use 207, 413 come back', (t) => {
  const { admission } = gate({});
  const reservation = admission.reserve(ask({ promptTokens: 120 }));
  t.same(Object.fromEntries(reservation.headers('chat')), {
    'x-ratelimit-limit-requests': '9999', 'x-ratelimit-remaining-requests': '9998', 'x-ratelimit-reset-requests': '7ms',
    'x-ratelimit-limit-tokens': '999999', 'x-ratelimit-remaining-tokens': '999379', 'x-ratelimit-reset-tokens': '38ms',
    'x-ratelimit-limit-concurrency': '99', 'x-ratelimit-remaining-concurrency': '98',
  });
  reservation.settle(207);
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '999792');
  t.equal(values(admission)['x-ratelimit-remaining-concurrency'], '99');
  t.equal(values(admission)['x-ratelimit-remaining-requests'], '9998', 'the request stays counted');
  reservation.settle(207);
  reservation.refund();
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '999792', 'settling again does nothing');
  t.equal(values(admission)['x-ratelimit-remaining-concurrency'], '99');
  t.end();
});

t.test('what is reserved for an unstated cap', (t) => {
  const reserved = (more: object): number => 999_999 - Number(Object.fromEntries(gate({ tpm_default_reservation: 1000 }).admission.reserve(ask(more)).headers('chat'))['x-ratelimit-remaining-tokens']);
  t.equal(reserved({ statedCap: null }), 1100);
  t.equal(reserved({ statedCap: null, modelMaximum: 300 }), 400);
  t.equal(reserved({ n: 4 }), 2100);
  t.end();
});

t.test('a refund leaves no trace', (t) => {
  const { admission } = gate({});
  const before = values(admission);
  admission.reserve(ask()).refund();
  t.same(values(admission), before);
  t.end();
});

t.test('1,000 refused requests leave every counter unchanged', (t) => {
  for (const [limits, code] of [
    [{ concurrency: 1 }, 'concurrency_limit_exceeded'], [{ rpm: 1 }, 'rpm_limit_exceeded'],
    [{ tpm: 700 }, 'tpm_limit_exceeded'], [{ tpm: 50 }, 'request_exceeds_tpm_limit'],
  ] as const) {
    const { admission } = gate(limits);
    if (code !== 'request_exceeds_tpm_limit') admission.reserve(ask());
    const before = values(admission);
    for (let i = 0; i < 1000; i++) assert.equal(refusal(() => admission.reserve(ask())).code, code);
    t.same(values(admission), before, code);
  }
  t.end();
});

t.test('waits: exactly until the bucket holds the request', (t) => {
  const { admission, pass } = gate({ rpm: 60, tpm: 6000, concurrency: null });
  for (let i = 0; i < 6; i++) admission.reserve(ask({ promptTokens: 500 })).settle(1000);
  const error = refusal(() => admission.reserve(ask({ promptTokens: 500 })));
  t.match(error, { status: 429, code: 'tpm_limit_exceeded', retryAfterMs: 10_000, param: null, shouldRetry: undefined });
  pass(9_999);
  t.equal(refusal(() => admission.reserve(ask({ promptTokens: 500 }))).code, 'tpm_limit_exceeded');
  pass(2);
  admission.reserve(ask({ promptTokens: 500 }));
  t.end();
});

t.test('rpm refills at limit / 60 per second', (t) => {
  const { admission, pass } = gate({ rpm: 60, tpm: null });
  for (let i = 0; i < 60; i++) admission.reserve(ask()).settle(1);
  t.equal(refusal(() => admission.reserve(ask())).retryAfterMs, 1000);
  pass(1001);
  admission.reserve(ask());
  t.equal(refusal(() => admission.reserve(ask())).code, 'rpm_limit_exceeded');
  t.end();
});

t.test('a request larger than the bucket takes all of it; a larger prompt is refused for good', (t) => {
  const { admission } = gate({ tpm: 1000 });
  t.equal(refusal(() => admission.reserve(ask({ promptTokens: 1001 }))).shouldRetry, false);
  const large = admission.reserve(ask({ promptTokens: 900, statedCap: 5000 }));
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '0');
  large.settle(3000);
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '0', 'below zero: shown as none');
  t.equal(values(admission)['x-ratelimit-reset-tokens'], '3m0s', 'and later requests wait for it');
  t.end();
});

t.test('n counts as n in concurrency and as one request', (t) => {
  const { admission } = gate({ concurrency: 4 });
  const three = admission.reserve(ask({ n: 3 }));
  t.equal(values(admission)['x-ratelimit-remaining-concurrency'], '1');
  t.equal(values(admission)['x-ratelimit-remaining-requests'], '9998');
  t.match(refusal(() => admission.reserve(ask({ n: 2 }))), { code: 'concurrency_limit_exceeded', retryAfterMs: 1000 });
  three.settle(1);
  admission.reserve(ask({ n: 4 }));
  t.end();
});

t.test('limits that are off send no headers; overrides go from special to general', (t) => {
  const { admission } = gate({ rpm: null, tpm: null, overrides: { org_a: { big: { tpm: 10 } }, '*': { big: { rpm: 5, concurrency: null } } } });
  t.same(Object.keys(values(admission)), ['x-ratelimit-limit-concurrency', 'x-ratelimit-remaining-concurrency']);
  t.same(admission.limitsOf('org_a', 'big'), { rpm: 5, tpm: 10, concurrency: null });
  t.same(admission.limitsOf('org_b', 'big'), { rpm: 5, tpm: null, concurrency: null });
  for (let i = 0; i < 5; i++) admission.reserve(ask({ model: 'big', n: 99, promptTokens: 1, identity: { organizationId: 'org_b' } }));
  t.equal(refusal(() => admission.reserve(ask({ model: 'big', identity: { organizationId: 'org_b' } }))).code, 'rpm_limit_exceeded');
  t.end();
});

t.test('organizations and models are counted apart; refusals carry the headers of both formats', (t) => {
  const { admission } = gate({ rpm: 1 });
  admission.reserve(ask());
  admission.reserve(ask({ model: 'other' }));
  admission.reserve(ask({ identity: { organizationId: 'org_b' } }));
  const error = refusal(() => admission.reserve(ask()));
  t.equal(Object.fromEntries(error.headers?.('chat') ?? [])['x-ratelimit-remaining-requests'], '0');
  const messages = Object.fromEntries(error.headers?.('messages') ?? []);
  t.equal(messages['anthropic-ratelimit-requests-limit'], '1');
  t.match(messages['anthropic-ratelimit-requests-reset'], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.end();
});

t.test('durations', (t) => {
  t.same([0, 12, 999.2, 6000, 59_001, 60_000, 90_500].map(duration), ['0ms', '12ms', '1s', '6s', '1m0s', '1m0s', '1m31s']);
  t.end();
});
