// Checks a server that was killed and restarted: everything acknowledged must be present, and nothing may be partial.
import { isDeepStrictEqual } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LimitsObject } from '../../src/shared/wire/limits.js';
import { inside } from '../e2e/stored-server.js';
import { eventsOf, usageOf, type Target } from './load.js';
import { isTerminal, type KnownKey, type KnownResponse, type Ledger, type Resource } from './ledger.js';
import { leftToDo, wrongInTables } from './tables.js';

/** Maximum number of concurrent requests sent by the check. */
const AT_ONCE = 8;

export interface Checked extends Target {
  data: string;
}

export async function check(
  target: Checked,
  ledger: Ledger,
  responses: readonly KnownResponse[],
  keys: readonly KnownKey[],
): Promise<string[]> {
  const problems: string[] = [];
  const ready = await fetch(`${target.url}/readyz`);
  if (ready.status !== 200) problems.push(`/readyz is ${ready.status}: ${await ready.text()}`);
  await each(responses, async (known) => {
    problems.push(...(await wrongOf(target, known)).map((what) => `${known.id} ${what}`));
  });
  await each(keys, async ({ id, secret, revocation }) => {
    const { status } = await fetch(`${target.url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
    if (revocation === 'none' && status !== 200) problems.push(`key ${id} was acknowledged, but gets ${status}`);
    if (revocation === 'acknowledged' && status !== 401) problems.push(`key ${id} was revoked, but gets ${status}`);
  });
  problems.push(...(await wrongInSums(target, ledger)));
  await inside(target.data, async (store) => {
    problems.push(...wrongInTables(store));
    if (!(await inTries(() => leftToDo(store).length === 0, 1_000)))
      problems.push(`work left over after the restart: ${leftToDo(store).slice(0, 5).join(', ')}`);
  });
  return problems;
}

/**
 * Polls a condition. The limit is a number of tries rather than a time, because the machine may be suspended together
 * with both processes.
 */
async function inTries(condition: () => boolean, tries: number): Promise<boolean> {
  for (let left = tries; left > 0; left--) {
    if (condition()) return true;
    await sleep(20);
  }
  return false;
}

async function each<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const rest = all.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const one of rest) await work(one);
    }),
  );
}

async function wrongOf(target: Checked, known: KnownResponse): Promise<string[]> {
  const get = (query = '', secret = target.secret): Promise<Response> =>
    fetch(`${target.url}/v1/responses/${known.id}${query}`, { headers: { authorization: `Bearer ${secret}` } });
  const { id, final, deletion } = known;
  const response = await get();
  const resource = (await response.json()) as Resource;
  if (deletion === 'acknowledged') {
    const items = await get('/input_items');
    await items.text();
    return response.status === 404 && items.status === 404
      ? []
      : [`was deleted, but returns ${response.status}, its items ${items.status}`];
  }
  if (response.status === 404 && deletion === 'asked') return [];
  if (response.status !== 200) return [`was acknowledged, but returns ${response.status} ${JSON.stringify(resource)}`];
  const wrong: string[] = [];
  if (!isTerminal(resource.status)) return [`is ${resource.status}, although no thread generates it`];
  // Deleting a running response cancels it first.
  if (final !== null && !isDeepStrictEqual(resource, final))
    wrong.push(`has changed: it is ${JSON.stringify(resource)} instead of ${JSON.stringify(final)}`);
  if (resource.id !== id || !['completed', 'incomplete', 'failed', 'cancelled'].includes(resource.status))
    wrong.push(`is ${resource.id} ${resource.status}`);
  if (resource.status === 'failed' && (resource['error'] as { code?: string } | null)?.code !== 'server_error')
    wrong.push(`failed with ${JSON.stringify(resource['error'])}`);
  known.final ??= resource; // nothing changes the response after this point
  const items = await itemsOf(get);
  for (let one: KnownResponse | null = known; one !== null; one = one.previous)
    if (!items.includes(one.mark))
      wrong.push(`lacks the input of ${one === known ? 'itself' : `${one.id}, which it continues`}`);
  if (known.background) wrong.push(...(await wrongInLog(await get('?stream=true'), known, resource)));
  const foreign = await get('', target.foreign);
  await foreign.text();
  if (foreign.status !== 404) wrong.push(`returns ${foreign.status} to another organization`);
  return wrong;
}

/**
 * Returns the text of all input items of a response. The items of a long previous response fill whole pages before the
 * response's own items.
 */
async function itemsOf(get: (path: string) => Promise<Response>): Promise<string> {
  let text = '';
  for (let after = ''; ; ) {
    const page = await (await get(`/input_items?limit=100&order=asc${after}`)).text();
    text += page;
    const { has_more: more, last_id: last } = JSON.parse(page) as { has_more?: boolean; last_id?: string | null };
    if (more !== true || last == null) return text;
    after = `&after=${last}`;
  }
}

/** Checks that the replay ends and contains every event that a client received, unchanged. */
async function wrongInLog(response: Response, { seen }: KnownResponse, resource: Resource): Promise<string[]> {
  const wrong: string[] = [];
  const events = new Map<number, string>();
  let last: Resource | null = null;
  let next = 0;
  for await (const { sequence, data, resource: told } of eventsOf(response)) {
    if (sequence !== next++) wrong.push(`has event ${sequence} in its log, where ${next - 1} was expected`);
    events.set(sequence, data);
    last = told;
  }
  if (last === null || !isDeepStrictEqual(last, resource))
    wrong.push(`has a log that ends with ${JSON.stringify(last)} instead of ${JSON.stringify(resource)}`);
  for (const [sequence, data] of seen)
    if (events.get(sequence) !== data)
      wrong.push(`has a changed event ${sequence} in its log: ${events.get(sequence)} instead of ${data}`);
  return wrong;
}

async function wrongInSums({ owner, organization }: Checked, { told, sent }: Ledger): Promise<string[]> {
  const wrong: string[] = [];
  const now = await usageOf(owner, organization);
  for (const what of ['requests', 'output'] as const) {
    if (now[what] < told[what])
      wrong.push(`usage reported ${told[what]} ${what} before the kill, but now reports ${now[what]}`);
    if (now[what] > sent[what]) wrong.push(`usage reports ${now[what]} ${what}, but only ${sent[what]} were sent`);
  }
  const { models } = await owner.get<LimitsObject>(`/organizations/${organization}/limits`);
  for (const { model, concurrency } of models)
    if (concurrency.in_use !== 0)
      wrong.push(`${concurrency.in_use} concurrency slots of ${model} are taken, but no request is running`);
  return wrong;
}
