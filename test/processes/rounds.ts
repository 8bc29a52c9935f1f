// Runs rounds with three processes under faults and checks their history. The seed determines the requests and the
// faults, but not their exact order. If a run fails, its history is written to a file.
import { writeFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { randomFrom } from '../support/random.js';
import { eventually } from '../e2e/monolith.js';
import { problemsOf } from './check.js';
import { Clients } from './clients.js';
import { planOf } from './faults.js';
import type { Bounds, Entry, Operation } from './history.js';
import { COUNT, LEASE_MS, Service } from './service.js';
import { startTeller } from './teller.js';

export interface RoundsSettings {
  rounds: number;
  /** Number of the first round. A round's number selects the processes that it kills. */
  first?: number;
  seed: number;
  /**
   * Whether to wait at the end for background responses of killed processes. The wait takes at least 15 seconds, the
   * length of a lease.
   */
  abandoned?: boolean;
  /** Where to write the history of a failed run. */
  file: string;
  tell?(line: string): void;
}

export interface Found {
  problems: string[];
  operations: Record<string, number>;
  faults: string[];
}

const BOUNDS: Bounds = { places: 2, perMinute: 6 };
const LANES = 12;
/** Number of operations per lane in a round. */
const ACTS = 10;
/** Longer than twice a process's lease of 15 seconds, in case the database was unreachable for that long. */
const ABANDONED_MS = 60_000;
/** Number of responses from earlier rounds that are read again at the end. */
const READ_AGAIN = 300;

export async function runRounds({
  rounds,
  first = 0,
  seed,
  abandoned = false,
  file,
  tell = () => undefined,
}: RoundsSettings): Promise<Found> {
  let clients: Clients | null = null;
  const teller = await startTeller((generation) => clients?.history.push(generation));
  const service = await Service.start(teller.url);
  const problems: string[] = [];
  const all = (clients = new Clients(service));
  const history = (): Entry[] => [...all.history, ...service.aways(), ...service.lives];
  try {
    for (let round = first; round < first + rounds && problems.length === 0; round++) {
      const began = performance.now();
      problems.push(...(await oneRound(service, all, round, seed)));
      problems.push(...problemsOf(history(), BOUNDS, all.asked));
      tell(
        `round ${round}: ${all.history
          .filter((one) => one.kind === 'fault' && one.round === round)
          .map((one) => (one as { what: string }).what)
          .join('; ')} (${Math.round(performance.now() - began)} ms)`,
      );
    }
    if (problems.length === 0) {
      problems.push(...(await theEnd(service, all, abandoned)));
      problems.push(...problemsOf(history(), BOUNDS, all.asked), ...service.complaints());
    }
  } finally {
    if (problems.length > 0)
      writeFileSync(
        file,
        `${[{ seed, rounds, problems }, ...history().sort((a, b) => timeOf(a) - timeOf(b))].map((one) => JSON.stringify(one)).join('\n')}\n${service.logs()}`,
      );
    await service.close();
    await teller.close();
  }
  return {
    problems,
    operations: outcomes(all.history),
    faults: all.history.flatMap((one) => (one.kind === 'fault' ? [one.what] : [])),
  };
}

async function oneRound(service: Service, clients: Clients, round: number, seed: number): Promise<string[]> {
  const random = randomFrom(seed * 1_000 + round);
  const keys = await service.keys(BOUNDS);
  clients.begin(round, keys);
  const plan = planOf(round, random, LANES * ACTS);
  await Promise.all([
    ...Array.from({ length: LANES }, (_, lane) => clients.work(randomFrom(seed * 100_000 + round * 100 + lane), ACTS)),
    ...plan.map(async ({ what, after, act }) => {
      while (clients.done < after) await sleep(5);
      clients.history.push({ kind: 'fault', round, what, at: performance.now() });
      await act(service);
    }),
  ]);
  if (!(await service.heal(keys[0] ?? ''))) return [`round ${round}: not every process became ready again`];

  const made = clients.made.filter((one) => one.round === round);
  await atOnce(
    made.filter(({ what }) => what === 'background'),
    (one) => settle(service, clients, one),
  );
  await atOnce(
    made.flatMap((one) => Array.from({ length: COUNT }, (_, process) => ({ one, process }))),
    ({ one, process }) => clients.read(process, one, true),
  );
  for (const one of lastOf(made)) await clients.continue(one.n % COUNT, one, true);
  let places = 0;
  await eventually(async () => (places = await service.placesTaken()) === 0, LEASE_MS + 8_000);
  clients.history.push({ kind: 'left', round, at: performance.now(), places });
  return [];
}

/** Waits until a live process's background response ends, then checks that all its events are present. */
async function settle(service: Service, clients: Clients, one: Operation): Promise<void> {
  if (
    service.lives.some(({ process, life, killed }) => process === one.process && life === one.life && killed !== null)
  )
    return;
  let last: Operation | null = null;
  await eventually(async () => {
    last = await clients.read((one.process + 1) % COUNT, one, true);
    return last.status !== 200 || (last.state !== 'queued' && last.state !== 'in_progress');
  }, 20_000);
  const { status, state } = last as unknown as Operation;
  if (status !== 200) return;
  if (state === 'queued' || state === 'in_progress')
    (last as unknown as Operation).odd = `${one.n} is ${state} and does not end`;
  else await clients.replay((one.process + 2) % COUNT, one, true);
}

/** Checks that every acknowledged response is unchanged, and that killed processes' background responses have ended. */
async function theEnd(service: Service, clients: Clients, abandoned: boolean): Promise<string[]> {
  const problems: string[] = [];
  const killed = clients.made.filter(
    (one) =>
      one.what === 'background' &&
      service.lives.some(
        ({ process, life, killed }) => process === one.process && life === one.life && killed !== null,
      ),
  );
  clients.begin(-1, await service.keys(BOUNDS));
  if (abandoned) {
    await atOnce(killed, async (one) => {
      let last: Operation | null = null;
      const ended = await eventually(async () => {
        await sleep(500);
        last = await clients.read(one.n % COUNT, one, true);
        return last.status === 404 || (last.status === 200 && last.state !== 'queued' && last.state !== 'in_progress');
      }, ABANDONED_MS);
      if (!ended)
        problems.push(
          `background ${one.n} of round ${one.round}: its process was killed, but it is still ${(last as unknown as Operation).state ?? 'missing'} still`,
        );
    });
  }
  const step = Math.max(1, Math.ceil(clients.made.length / READ_AGAIN));
  await atOnce(
    clients.made.filter((_, at) => at % step === 0),
    (one) => clients.read(one.n % COUNT, one, true),
  );
  return problems;
}

/** Returns up to five responses that are not background responses. */
const lastOf = (made: readonly Operation[]): Operation[] => made.filter(({ what }) => what !== 'background').slice(-5);

async function atOnce<T>(all: readonly T[], act: (one: T) => Promise<unknown>): Promise<void> {
  const left = [...all];
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let one = left.shift(); one !== undefined; one = left.shift()) await act(one);
    }),
  );
}

const timeOf = (one: Entry): number => ('at' in one ? one.at : 'began' in one ? one.began : one.from);

function outcomes(history: readonly Entry[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const one of history) {
    if (one.kind !== 'operation' || one.quiet) continue;
    const outcome = `${one.what} ${one.status ?? 'unanswered'}`;
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}
