// A worker thread for threads.test.ts: sends requests and reports how many were admitted.
import { parentPort, workerData } from 'node:worker_threads';
import type { Limited, Reservation } from '../../src/admission/admission.js';
import { LocalAdmission } from '../../src/admission/local-admission.js';
import { configWith } from '../../src/config/load.js';
import { atOnce } from '../support/admission.js';

export interface Told {
  admitted: number;
  tokens: number;
  highest: number;
  refused: Record<string, number>;
  connections: number;
}
export interface Asked {
  buffer: SharedArrayBuffer;
  gauge: SharedArrayBuffer;
  limits: object;
  rounds: number;
  seed: number;
  organizations: number;
  hold: number;
  keyPlaces: number | null;
}

const { buffer, gauge, limits, rounds, seed, organizations, hold, keyPlaces } = workerData as Asked;
const admission = new LocalAdmission(configWith({ limits }).limits, { buffer });
const inside = new Int32Array(gauge);
const told: Told = { admitted: 0, tokens: 0, highest: 0, refused: {}, connections: 0 };
const held: { reservation: Reservation; organization: number; leave: (() => void) | null }[] = [];
let random = seed;
const draw = (below: number): number => {
  random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
  return Math.floor((random / 2 ** 32) * below);
};

function end(at: number): void {
  const [one] = held.splice(at, 1);
  if (one === undefined) return;
  // Decremented before the reservation is settled, so that the gauge never exceeds the true number.
  Atomics.sub(inside, one.organization, 1);
  if (draw(2) === 0) one.reservation.refund();
  else one.reservation.settle(10);
  one.reservation.settle(1_000);
  one.leave?.();
}

for (let round = 0; round < rounds; round++) {
  const organization = draw(organizations);
  const identity: Limited = {
    organizationId: `org_${organization}`,
    limits: {},
    keyId: `key_${organization}`,
    keyLimits: { '*': { concurrency: keyPlaces } },
    monthlyTokenCap: null,
  };
  try {
    const reservation = atOnce(
      admission.reserve({
        identity,
        model: 'm',
        promptTokens: { tokens: 10, exact: true },
        statedCap: 10,
        modelMaximum: 100,
        n: 1,
      }),
    );
    told.highest = Math.max(told.highest, Atomics.add(inside, organization, 1) + 1);
    told.admitted++;
    told.tokens += 20;
    let leave: (() => void) | null = null;
    try {
      leave = admission.connect(identity.organizationId, 3);
      told.connections++;
    } catch {
      // The maximum number of connections is reached.
    }
    held.push({ reservation, organization, leave });
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === undefined) throw error;
    told.refused[code] = (told.refused[code] ?? 0) + 1;
  }
  if (held.length > hold) end(draw(held.length));
}
if (hold < rounds) while (held.length > 0) end(0);
parentPort?.postMessage(told);
