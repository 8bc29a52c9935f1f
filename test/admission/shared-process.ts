// A child process of shared-processes.test.ts. Several such processes share counters. Each receives its orders over
// IPC.
import { randomBytes } from 'node:crypto';
import type { Limited, Reservation } from '../../src/admission/admission.js';
import { COUNTER_BYTES } from '../../src/admission/counter-memory.js';
import { openAdmission } from '../../src/admission/open-admission.js';
import { configWith } from '../../src/config/load.js';
import { ApiError } from '../../src/shared/errors.js';

/**
 * Sends `rounds` requests one after another in each of `lanes` lanes, and holds each request for `holdMs` milliseconds.
 * If `holdMs` is 0, the requests are held until the process ends.
 */
export interface Order {
  lanes: number;
  rounds: number;
  holdMs: number;
  promptTokens: number;
  output: number;
  keyPlaces?: number;
}
/** Times in ns on the machine's monotonic clock. For a released request, the time just before its release. */
export interface Done {
  admitted: number;
  refused: Record<string, number>;
  held: [from: string, to: string][];
}

const [limits, redis] = JSON.parse(process.argv[2] ?? '') as [object, object];
const admission = await openAdmission(configWith({ limits, redis }), {
  process: randomBytes(6).toString('hex'),
  thread: 0,
  buffer: new SharedArrayBuffer(COUNTER_BYTES),
  storedMonth: () => Promise.resolve(0),
  report: () => undefined,
});
const kept: Reservation[] = [];

async function work({ lanes, rounds, holdMs, promptTokens, output, keyPlaces }: Order): Promise<Done> {
  const done: Done = { admitted: 0, refused: {}, held: [] };
  const identity: Limited = {
    organizationId: 'org_a',
    limits: {},
    keyId: 'key_a',
    keyLimits: keyPlaces === undefined ? null : { '*': { concurrency: keyPlaces } },
    monthlyTokenCap: null,
  };
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (let round = 0; round < rounds; round++) {
        try {
          const reservation = await admission.reserve({
            identity,
            model: 'm',
            promptTokens: { tokens: promptTokens, exact: true },
            statedCap: output,
            modelMaximum: output,
            n: 1,
          });
          const from = process.hrtime.bigint();
          done.admitted++;
          if (holdMs === 0) {
            kept.push(reservation);
            continue;
          }
          await new Promise((resolve) => setTimeout(resolve, holdMs));
          done.held.push([String(from), String(process.hrtime.bigint())]);
          if (round % 2 === 0) reservation.settle(promptTokens + output);
          else reservation.refund();
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          done.refused[error.code] = (done.refused[error.code] ?? 0) + 1;
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      }
    }),
  );
  return done;
}

process.on('message', (order: Order) => {
  void work(order).then((done) => process.send?.(done));
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
