// GET …/live/history and …/live/keys: the live view's 30-day history, and the load by organization or API key.

import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { KeyCounts } from '../../shared/live-collected.js';
import type { LiveHistory, LiveKeys, LiveMark } from '../../shared/wire/live.js';
import type { ApiKeys } from '../../accounts/api-keys.js';
import type { AuditLog } from '../../accounts/audit.js';
import type { Organizations } from '../../accounts/organizations.js';
import { dateField } from '../api/key-fields.js';
import { ringFor, RINGS } from './live-history.js';
import type { KeySlot, LiveHistory as LiveHistoryStore, LiveSpan } from './live-history.js';
import { sampleOf } from './live-sums.js';
import type { OperatorGuard } from './operator-guard.js';
import { askedOrganization } from './organizations.js';

const DEFAULT_S = 3_600;
const MAX_S = RINGS.at(-1)?.keptS ?? 0;
/** Number of series shown separately. All other series are summed into one. */
const SHOWN = 7;
const MARK_PAGES = 5;
const PAGE = 100;

/** Audit-log actions on model files, which do not affect a running engine. */
const NOT_AN_ENGINE: ReadonlySet<string> = new Set(['model.pulled', 'model.deleted_from_disk']);

export interface LivePastDeps {
  history: LiveHistoryStore;
  audit: Pick<AuditLog, 'list'>;
  organizations: Pick<Organizations, 'get'>;
  apiKeys: Pick<ApiKeys, 'get'>;
}

export function livePastRoutes(
  guard: OperatorGuard,
  { history, audit, organizations, apiKeys }: LivePastDeps,
): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/live/history',
      handler: async ({ exchange }) => {
        const span = readSpan(exchange.query);
        const ring = ringFor(span, Date.now() / 1000);
        const slots = await history.sums(ring, span);
        const body: LiveHistory = {
          object: 'live_history',
          from: time(span.from),
          to: time(span.to),
          step_s: ring.stepS,
          samples: slots.map(({ at, sum }) => sampleOf(sum, time(at))),
          marks: await marksIn(span, audit),
        };
        exchange.json(200, body);
      },
    }),

    guard({
      method: 'GET',
      path: '/live/keys',
      handler: async ({ exchange }) => {
        const span = readSpan(exchange.query);
        const organization = askedOrganization(exchange.query);
        const ring = ringFor(span, Date.now() / 1000);
        exchange.json(
          200,
          await keysIn(await history.keys(ring, span), ring.stepS, organization, { organizations, apiKeys }),
        );
      },
    }),
  ];
}

/** Throws ApiError 400 or 422. */
function readSpan(query: URLSearchParams): LiveSpan {
  const to = moment(query, 'to') ?? Date.now() / 1000;
  const from = moment(query, 'from') ?? to - DEFAULT_S;
  if (from >= to || to - from > MAX_S)
    throw apiError('value_out_of_range', `from must be before to and at most ${MAX_S / 86_400} days earlier.`, 'from');
  return { from, to };
}

function moment(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  if (text === null) return null;
  const parsed = dateField.safeParse(text);
  if (!parsed.success)
    throw apiError('invalid_query_parameter', `${name} must be a date and time, such as 2027-01-31T12:00:00Z.`, name);
  return parsed.data.getTime() / 1000;
}

const time = (seconds: number): string => new Date(seconds * 1000).toISOString();

/**
 * Engine and model changes from the server's audit log, oldest first. Downloads are omitted because they do not affect
 * running engines.
 */
async function marksIn({ from, to }: LiveSpan, audit: LivePastDeps['audit']): Promise<LiveMark[]> {
  const marks: LiveMark[] = [];
  let after: string | null = null;
  for (let page = 0; page < MARK_PAGES; page++) {
    const { data, next } = await audit.list(null, PAGE, after);
    for (const { at, action, target, actor } of data) {
      const seconds = Date.parse(at) / 1000;
      if (seconds >= from && seconds < to && /^(engine|model)\./.test(action) && !NOT_AN_ENGINE.has(action))
        marks.push({ at, action, target, by: actor.email });
    }
    const oldest = data.at(-1);
    if (next === null || oldest === undefined || Date.parse(oldest.at) / 1000 < from) break;
    after = next;
  }
  return marks.reverse();
}

async function keysIn(
  slots: readonly KeySlot[],
  stepS: number,
  organization: string | null,
  { organizations, apiKeys }: Pick<LivePastDeps, 'organizations' | 'apiKeys'>,
): Promise<LiveKeys> {
  const idOf = (one: KeyCounts): string | null =>
    organization === null ? one.organizationId : one.organizationId === organization ? one.keyId : null;
  const totals = new Map<string, number>();
  for (const { keys } of slots) {
    for (const one of keys) {
      const id = idOf(one);
      if (id !== null) totals.set(id, (totals.get(id) ?? 0) + one.inputTokens + one.outputTokens + one.requests);
    }
  }
  const named = [...totals]
    .filter(([id]) => id !== '')
    .sort(([, a], [, b]) => b - a)
    .map(([id]) => id);
  const shown = named.slice(0, SHOWN);
  const ids = totals.size > shown.length ? [...shown, 'other'] : shown;
  const empty = (): number[] => new Array<number>(slots.length).fill(0);
  const series = ids.map((id) => ({
    id,
    name: id,
    requests: empty(),
    refused: empty(),
    input_tokens: empty(),
    output_tokens: empty(),
  }));
  slots.forEach(({ keys }, at) => {
    for (const one of keys) {
      const id = idOf(one);
      if (id === null) continue;
      const own = series[shown.includes(id) ? shown.indexOf(id) : series.length - 1];
      if (own === undefined) continue;
      own.requests[at]! += one.requests;
      own.refused[at]! += one.refused;
      own.input_tokens[at]! += one.inputTokens;
      own.output_tokens[at]! += one.outputTokens;
    }
  });
  for (const one of series) {
    if (one.id === 'other') continue;
    if (organization === null) one.name = (await organizations.get(one.id))?.name ?? one.id;
    else one.name = (await apiKeys.get(organization, one.id))?.name ?? one.id;
  }
  return { object: 'live_keys', step_s: stepS, times: slots.map(({ at }) => time(at)), series };
}
