// Tests a disk that fails at one of the database's writes or syncs. When the database is reopened, all acknowledged
// data must be there and nothing may be partial. `npm run faults` tests every position and every kind of fault; this
// test samples them.
import t from 'tap';
import { FAULTS, runWithFault } from './faults.js';
import type { Fault } from './faults.js';
import { Recorded, wrongAfter } from './recorded.js';

t.setTimeout(600_000);

/**
 * Sampled positions out of about 330 calls: creating the file (1, 2), creating the tables (40, 200, 201), large and
 * small saves, and deletions. Calls 200, 300 and 302 write meta pages.
 */
const PLACES: Readonly<Record<Fault, readonly number[]>> = {
  eio: [1, 2, 40, 200, 201, 250, 302],
  enospc: [1, 215, 280],
  full: [250, 300],
  sync: [1, 232],
  meta: [260],
  kill: [1, 2, 40, 250],
  torn: [1, 215, 280],
  power: [2, 232, 300],
};

/** Number of calls made while the file is being created and shortly after. All of these calls are tested. */
const FIRST = 6;

for (const fault of FAULTS) {
  t.test(`${fault} at sampled calls loses no acknowledged data`, async (t) => {
    let met = 0;
    for (const at of PLACES[fault]) {
      const found = await runWithFault(fault, at);
      t.same(found.problems, [], `fault at call ${at}`);
      met += found.met ? 1 : 0;
    }
    t.ok(met > 0, 'at least one fault was injected');
  });
}

t.test('after a power loss, only unsynced data is missing and the file is not damaged', async (t) => {
  for (const [at, seed] of [
    [25, 1],
    [30, 1],
  ] as const)
    t.same((await runWithFault('power', at, seed)).problems, [], `power loss at call ${at}`);
});

t.test('acknowledged data survives a kill or power loss after any sampled call of a recorded run', async (t) => {
  const [killed, powerless] = [Recorded.make(false), Recorded.make(true)];
  t.ok(killed.calls.length > 300);
  // Tests each of the first calls, which create the file, and every fortieth call after that.
  for (let call = 0; call < Math.min(killed.calls.length, powerless.calls.length); call += call < FIRST ? 1 : 40) {
    t.same(await wrongAfter(killed.killed(killed.calls[call]!)), [], `killed after call ${call}`);
    t.same(await wrongAfter(killed.torn(killed.calls[call]!)), [], `killed within the call after call ${call}`);
    t.same(await wrongAfter(powerless.powerless(powerless.calls[call]!, call)), [], `power loss after call ${call}`);
  }
});
