// Pure functions that check a history's invariants, regardless of the faults that occurred. Each rule allows only the
// exceptions stated in the documentation.
import {
  answerTo,
  promptOf,
  type Away,
  type Bounds,
  type Entry,
  type Fault,
  type Generation,
  type Life,
  type Operation,
} from './history.js';

/**
 * Tolerance for clock differences between logs, and for the delay from a process's log line about counting alone, or
 * counting with the others again, to the moment when the process starts to do so.
 */
const BLUR_MS = 100;
const ENDED: ReadonlySet<string | null> = new Set(['completed', 'failed', 'cancelled', 'incomplete']);

export interface Asked {
  tokens: number;
  gapMs: number;
}

/** `asked`: the generation requested by each operation. */
export function problemsOf(history: readonly Entry[], bounds: Bounds, asked: ReadonlyMap<number, Asked>): string[] {
  const of = <K extends Entry['kind']>(kind: K) =>
    history.filter((one): one is Extract<Entry, { kind: K }> => one.kind === kind);
  const operations = of('operation');
  const seen: Seen = {
    operations,
    byNumber: new Map(operations.map((one) => [one.n, one])),
    generations: of('generation'),
    aways: of('away'),
    lives: of('life'),
    faults: of('fault'),
    bounds,
    asked,
  };
  const left = of('left')
    .filter(({ places }) => places > 0)
    .map(({ round, places }) => `round ${round}: ${places} concurrency slots are taken, but no request is running`);
  return [
    ...places(seen),
    ...requests(seen),
    ...stored(seen),
    ...chains(seen),
    ...background(seen),
    ...foreign(seen),
    ...answers(seen),
    ...left,
  ];
}

interface Seen {
  operations: readonly Operation[];
  byNumber: ReadonlyMap<number, Operation>;
  generations: readonly Generation[];
  aways: readonly Away[];
  lives: readonly Life[];
  faults: readonly Fault[];
  bounds: Bounds;
  asked: ReadonlyMap<number, Asked>;
}

const name = ({ n, what, round, process }: Operation): string => `round ${round}, ${what} ${n} on process ${process}`;
/** Returns the periods between `from` and `to` in which the operation's process counted alone or may have done so. */
const apart = ({ aways }: Seen, { process, life }: Operation, from: number, to: number): Away[] =>
  aways.filter(
    (one) => one.process === process && one.life === life && one.from - BLUR_MS <= to && one.to + BLUR_MS >= from,
  );

function byKey<T extends { operation: Operation }>(all: readonly T[]): T[][] {
  const groups = new Map<string, T[]>();
  for (const one of all) groups.set(one.operation.key, [...(groups.get(one.operation.key) ?? []), one]);
  return [...groups.values()];
}

/** Processes that count together never exceed the limit, and a process that counts alone never exceeds its share. */
function places(seen: Seen): string[] {
  const problems: string[] = [];
  const all = seen.generations.flatMap((one) => {
    const operation = seen.byNumber.get(one.n);
    return operation?.what === 'hold' ? [{ ...one, operation }] : [];
  });
  for (const group of byKey(all)) {
    for (const one of group) {
      const at = one.from;
      const open = group.filter(({ from, to }) => from <= at && to > at);
      const together = open.filter(({ operation }) => apart(seen, operation, operation.began, at).length === 0);
      if (together.length > seen.bounds.places)
        problems.push(
          `${name(one.operation)}: ${together.length} concurrency slots of ${seen.bounds.places} (${together.map(({ n }) => n).join(', ')})`,
        );
      const alone = seen.aways.find(
        (away) =>
          away.process === one.operation.process &&
          away.life === one.operation.life &&
          away.from + BLUR_MS < one.operation.began &&
          away.to - BLUR_MS > at,
      );
      // In a process with several threads, one thread may count alone while the others do not.
      if (
        alone === undefined ||
        seen.lives.some(
          ({ process, life, threads }) =>
            process === one.operation.process && life === one.operation.life && threads > 1,
        )
      )
        continue;
      const own = open.filter(
        ({ operation }) => operation.process === one.operation.process && operation.life === one.operation.life,
      );
      const share = Math.ceil(seen.bounds.places / alone.processes);
      if (own.length > share)
        problems.push(`${name(one.operation)}: ${own.length} concurrency slots of a share of ${share}`);
    }
  }
  return problems;
}

/** Requests may use the bucket and its refill, plus the shares of all processes that counted alone during that time. */
function requests(seen: Seen): string[] {
  const { perMinute } = seen.bounds;
  const counted = seen.operations.filter(({ what, seen: was }) => what === 'ask' && was);
  return byKey(counted.map((operation) => ({ operation }))).flatMap((group) => {
    const all = group.map(({ operation }) => operation).sort((a, b) => a.ended - b.ended);
    const last = all.at(-1);
    if (last === undefined) return [];
    // Each reservation was made between the start and the end of its operation. Keys are used in only one round.
    const from = Math.min(...all.map(({ began }) => began));
    const minutes = (last.ended - from) / 60_000;
    const shares = seen.aways
      .filter((one) => one.from - BLUR_MS <= last.ended && one.to + BLUR_MS >= from)
      .reduce((sum, one) => sum + Math.ceil(perMinute / one.processes) * (1 + minutes), 0);
    const most = Math.floor(perMinute * (1 + minutes) + shares);
    return all.length > most
      ? [`${name(last)}: ${all.length} requests, but the limit allows ${most} (${perMinute} a minute)`]
      : [];
  });
}

const doneWell = ({ status }: Operation): boolean => status === 200;
const isAbout = (one: Operation, made: Operation): boolean =>
  one.of === made.n && one.organization === made.organization;

/**
 * An acknowledged response exists until a client requests its deletion, and no longer exists once the deletion is
 * acknowledged.
 */
function stored(seen: Seen): string[] {
  const problems: string[] = [];
  const about = new Map<number, Operation[]>();
  for (const one of seen.operations) if (one.of !== null) about.set(one.of, [...(about.get(one.of) ?? []), one]);
  for (const made of seen.operations) {
    if (made.id === null || made.status !== 200) continue;
    const theirs = (about.get(made.n) ?? []).filter((one) => isAbout(one, made));
    const removals = theirs.filter(({ what }) => what === 'remove');
    const goneFrom = Math.min(...removals.filter(doneWell).map(({ ended }) => ended));
    const firstRemoval = Math.min(...removals.map(({ began }) => began));
    const unknown = theirs.filter(({ what, status }) => what === 'read' && status === 404);
    for (const one of theirs) {
      const found = one.status === 200 && (one.what === 'read' || one.what === 'continue' || one.what === 'replay');
      if (found && one.began > goneFrom)
        problems.push(`${name(one)}: found ${made.n}, whose deletion had been acknowledged`);
      const before = unknown.find(({ ended }) => ended < one.began);
      if (found && before !== undefined)
        problems.push(`${name(one)}: found ${made.n}, which ${before.n} had not found before`);
      if (one.status === 404 && one.ended < firstRemoval)
        problems.push(`${name(one)}: did not find ${made.n}, which was acknowledged and never deleted`);
      if (one.status === 404 && one.what === 'remove' && removals.length === 1)
        problems.push(`${name(one)}: could not delete ${made.n}, which was not found`);
      if (one.what === 'read' && one.status === 200 && made.what !== 'background' && one.text !== made.text)
        problems.push(
          `${name(one)}: ${made.n} has the text "${one.text ?? ''}", but had the text "${made.text ?? ''}"`,
        );
    }
  }
  return problems;
}

/** A continuation receives its whole chain: every prompt and every output, in order. */
function chains(seen: Seen): string[] {
  const problems: string[] = [];
  const generated = new Map(seen.generations.map((one) => [one.n, one]));
  const said = (n: number): string[] => {
    const { tokens, gapMs } = seen.asked.get(n) as Asked;
    return [promptOf(n, tokens, gapMs), answerTo(promptOf(n, tokens, gapMs))];
  };
  for (const one of seen.operations) {
    const generation = generated.get(one.n);
    if (one.what !== 'continue' || generation === undefined) continue;
    const before: string[] = [];
    for (let at = one.of; at !== null; at = continuedBy(seen, at)) before.unshift(...said(at));
    const wanted = [...before, said(one.n)[0]];
    if (wanted.join('|') !== generation.messages.join('|'))
      problems.push(
        `${name(one)}: the model received "${generation.messages.join('|')}" instead of "${wanted.join('|')}"`,
      );
  }
  return problems;
}

const continuedBy = ({ byNumber }: Seen, n: number): number | null => {
  const one = byNumber.get(n);
  return one?.what === 'continue' ? one.of : null;
};

/** A background response ends only once, with its own output. It fails only if its process was killed. */
function background(seen: Seen): string[] {
  const problems: string[] = [];
  for (const made of seen.operations) {
    if (made.what !== 'background' || made.status !== 200) continue;
    const { tokens, gapMs } = seen.asked.get(made.n) as Asked;
    const looks = seen.operations
      .filter((one) => isAbout(one, made) && one.status === 200 && (one.what === 'read' || one.what === 'cancel'))
      .sort((a, b) => a.ended - b.ended);
    const end = looks.find(({ state }) => ENDED.has(state));
    for (const one of looks) {
      if (end !== undefined && one.began > end.ended && (one.state !== end.state || one.text !== end.text)) {
        problems.push(
          `${name(one)}: ${made.n} is ${one.state ?? 'nothing'} with "${one.text ?? ''}", but was ${end.state ?? ''} with "${end.text ?? ''}" before (${end.n})`,
        );
      }
      if (one.state === 'completed' && one.text !== answerTo(promptOf(made.n, tokens, gapMs)))
        problems.push(`${name(one)}: ${made.n} is completed with "${one.text ?? ''}"`);
      if (
        one.state === 'failed' &&
        !seen.lives.some(
          ({ process, life, killed }) => process === made.process && life === made.life && killed !== null,
        )
      )
        problems.push(`${name(one)}: ${made.n} failed, although its process is alive`);
      // Deleting a running response cancels it first, and may be interrupted in between.
      if (
        one.state === 'cancelled' &&
        !seen.operations.some(
          (other) =>
            (other.what === 'cancel' || other.what === 'remove') && isAbout(other, made) && other.began < one.ended,
        )
      )
        problems.push(`${name(one)}: ${made.n} is cancelled, but no client requested that`);
    }
  }
  return problems;
}

/** Another organization's responses are never found. */
const foreign = ({ operations }: Seen): string[] =>
  operations
    .filter(({ what, status }) => what === 'foreign' && status !== null && status !== 404 && status !== 503)
    .map((one) => `${name(one)}: ${one.status} for another organization's ${one.of ?? 0}`);

/** No response reports an internal error, and once all faults have been removed, no request is refused. */
function answers({ operations }: Seen): string[] {
  return operations.flatMap((one) => {
    const known = one.status === null || [200, 404, 409, 422, 429, 503].includes(one.status);
    if (!known) return [`${name(one)}: ${one.status} ${one.code ?? ''}`];
    if (one.quiet && (one.status === null || ![200, 404].includes(one.status)))
      return [`${name(one)}: ${one.status ?? 'no response'} ${one.code ?? ''} although all faults were removed`];
    return one.odd === null ? [] : [`${name(one)}: ${one.odd}`];
  });
}
