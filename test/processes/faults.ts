// A round's faults, chosen at random by its seed: the five programs are killed in turn, and connections between them
// fail.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../support/random.js';
import type { Way } from '../support/tcp-proxy.js';
import { COUNT, type Service } from './service.js';

const WAYS: readonly (Way | 'reset')[] = ['cut', 'held', 'deaf', 'slow', 'reset'];
const ENGINES = ['state', 'counters'] as const;

/**
 * Maximum duration of a connection failure. Longer than the servers' timeout for Redis and shorter than their timeout
 * for the database (service.ts).
 */
const LONGEST_MS = 1_500;

export interface Planned {
  what: string;
  after: number;
  act(service: Service): Promise<void> | void;
}

/** Plans a round in which clients perform `acts` operations. `after`: the number of operations before the fault. */
export function planOf(round: number, random: Random, acts: number): Planned[] {
  const plan: Planned[] = [];
  const killed = round % (COUNT + 2);
  const at = (): number => Math.floor(acts / 10) + random.below(acts / 2);
  if (killed < COUNT)
    plan.push({ what: `process ${killed} is killed`, after: at(), act: (service) => service.kill(killed) });
  if (killed === COUNT) {
    const forMs = random.below(2) * 600;
    plan.push({
      what: `PostgreSQL is killed for ${forMs} ms`,
      after: at(),
      act: async ({ postgres }) => {
        await postgres.crash();
        await sleep(forMs);
        await postgres.start();
      },
    });
  }
  if (killed === COUNT + 1) {
    const forMs = random.below(2) * 600;
    plan.push({
      what: `Redis is killed for ${forMs} ms`,
      after: at(),
      act: async ({ redis }) => {
        await redis.kill();
        await sleep(forMs);
        await redis.start();
      },
    });
  }
  for (let more = 1 + random.below(2); more > 0; more--) {
    const [process, way, ms] = [random.below(COUNT), random.pick(WAYS), 100 + random.below(LONGEST_MS)];
    // Redis and the process that knows the latest counters must not be lost together.
    const engine = killed === COUNT + 1 ? 'state' : random.pick(ENGINES);
    if (process === killed) continue;
    plan.push({
      what: `process ${process} to its ${engine}: ${way}${way === 'reset' ? '' : ` for ${ms} ms`}`,
      after: at(),
      act: async (service) => {
        const proxy = service.ways(process)[engine];
        if (way === 'reset') return proxy.reset();
        proxy.set(way, 120);
        await sleep(ms);
        // While a connection was held or deaf, requests got no reply (with `deaf`, they were executed), so reset the
        // connections.
        if (way === 'held' || way === 'deaf') proxy.reset();
        proxy.set('through');
      },
    });
  }
  return plan;
}
