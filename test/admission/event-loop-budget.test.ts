import t from 'tap';
import { EventLoopBudget } from '../../src/admission/event-loop-budget.js';
import { ApiError } from '../../src/shared/errors.js';

/** Returns a refusal's Retry-After in milliseconds; 0 if the request is admitted. */
function wait(time: EventLoopBudget, organizationId: string): number {
  try {
    time.check(organizationId);
    return 0;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 429) throw error;
    return error.retryAfterMs ?? -1;
  }
}

// A monotonic clock may start at any value, depending on the machine.
for (const [name, zero] of [
  ['zero', 0],
  ['days', 9e8],
  ['centuries', 1e13],
] as const) {
  t.test(`limits event loop time with a clock that starts at ${name}`, (t) => {
    let now = zero;
    const time = new EventLoopBudget(250, () => now);
    t.equal(wait(time, 'a'), 0, 'the budget is full at the start');
    time.charge('a', 2_499);
    t.equal(wait(time, 'a'), 0, 'a burst of ten seconds of budget is admitted');
    time.charge('a', 1);
    t.equal(wait(time, 'a'), 1, 'one millisecond beyond the budget is refused');
    t.equal(wait(time, 'b'), 0, 'other organizations are not affected');
    time.charge('a', 500);
    t.equal(wait(time, 'a'), 2_000, 'an overdraft is repaid at the refill rate');
    now += 1_999;
    t.equal(wait(time, 'a'), 1);
    now += 2;
    t.equal(wait(time, 'a'), 0);
    now += 1e6;
    time.charge('a', 2_400);
    t.equal(wait(time, 'a'), 0, 'a full bucket does not grow');
    time.charge('a', 200);
    t.equal(wait(time, 'a'), 400);
    t.end();
  });
}

t.test('null disables the limit', (t) => {
  const time = new EventLoopBudget(null, () => 0);
  time.charge('a', 1e9);
  t.equal(wait(time, 'a'), 0);
  t.equal(time.size, 0);
  t.end();
});

t.test('organizations with a full budget are removed from memory', (t) => {
  let now = 0;
  const time = new EventLoopBudget(250, () => now);
  time.charge('busy', 1e6);
  for (let i = 0; i < 10_000; i++) {
    now += 100;
    time.charge(`org_${i}`, 1);
  }
  t.ok(time.size < 2_000, `${time.size} organizations are in memory`);
  t.ok(wait(time, 'busy') > 0, 'organizations with an overdraft stay in memory');
  t.end();
});
