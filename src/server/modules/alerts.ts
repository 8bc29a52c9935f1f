// Operator alerts. The primary thread takes measurements and sends alerts; every thread serves the operators' routes.

import { AlertDesk } from '../../alerts/alert-desk.js';
import { AlertWatch } from '../../alerts/alert-watch.js';
import type { AlertWatchDeps } from '../../alerts/alert-watch.js';
import { spentBudgets } from '../../alerts/budget-conditions.js';
import type { BudgetNames } from '../../alerts/budget-conditions.js';
import type { Condition } from '../../alerts/condition.js';
import { Courier } from '../../alerts/courier.js';
import { Destinations } from '../../alerts/destinations.js';
import { disks, downs } from '../../alerts/process-conditions.js';
import { freeBytes, RequestWindow } from '../../alerts/readings.js';
import { errorRate, latencies } from '../../alerts/request-conditions.js';
import { thresholdsOf } from '../../alerts/thresholds.js';
import { isServiceAccountId } from '../../accounts/service-accounts.js';
import { monthName, monthNumber } from '../../admission/month-use.js';
import type { LiveCollected } from '../../shared/live-collected.js';
import { notifiedMembers } from '../../usage/budget-watch.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Budgets } from './budgets.js';
import type { Mail } from './mail.js';
import type { Storage } from './storage.js';

export interface Alerts extends Module {
  readonly state: AlertDesk['state'];
  readonly has: AlertDesk['has'];
  readonly test: AlertDesk['test'];
  /** Receives the counts of all threads every second, on the primary thread. */
  counted(threads: readonly LiveCollected[]): void;
}

const MIN_EVERY_MS = 1_000;
const MAX_EVERY_MS = 10_000;

/** Throws StartError if a destination or an objective cannot be used. */
export function openAlerts({
  config,
  telemetry,
  primary,
  storage,
  mail: { mailer, origin },
  budgets: { spent },
}: AppContext & { storage: Storage; mail: Mail; budgets: Budgets }): Promise<Alerts> {
  return openModule((undo) => {
    const { incidents: store, processes } = storage.alerts;
    const { directory, bus, budgets, prices, processName } = storage;
    const { now } = directory;
    const thresholds = thresholdsOf(config.alerts, processes.shared);
    const destinations = new Destinations(config, mailer);
    const closing = new AbortController();
    undo.add(() => closing.abort());
    const desk = {
      store,
      processes,
      destinations,
      thresholds,
      bus,
      telemetry,
      process: processName,
      base: origin.fixed,
      now,
      signal: closing.signal,
    };
    const routes = (served: AlertDesk): Pick<Alerts, 'state' | 'has' | 'test'> => ({
      state: () => served.state(),
      has: (id) => served.has(id),
      test: (id) => served.test(id),
    });
    if (!primary) return { ...routes(new AlertDesk({ ...desk, measures: null })), counted: () => undefined };

    const window = new RequestWindow(thresholds.windowS, new Set(thresholds.objectives.map(({ metric }) => metric)));
    const conditions: AlertWatchDeps['conditions'] = async (seen) => {
      const running = seen.filter(({ alive }) => alive);
      const conditions = [
        ...errorRate(running, thresholds),
        ...latencies(running, thresholds),
        ...disks(running, thresholds),
        ...downs(seen, thresholds, processes.isSteady, now()),
      ];
      const spentNow = thresholds.budgets ? await budgetConditions() : [];
      return spentNow === null
        ? { conditions, unmeasured: new Set(['budget']) }
        : { conditions: [...conditions, ...spentNow], unmeasured: new Set() };
    };
    /** Null if the spent budgets are not known yet. */
    const budgetConditions = async (): Promise<Condition[] | null> => {
      const all = await budgets.all();
      if (all.size === 0) return [];
      if (spent() === null) return null;
      const month = monthNumber(now());
      const currency = (await prices.get())?.currency ?? '';
      const facts = { budgets: all, spent: spent(), currency, month: monthName(month), monthNumber: month };
      return spentBudgets(facts, namesIn(storage));
    };
    const skips: AlertWatchDeps['skips'] = async ({ ownNotice }) => {
      const budget = ownNotice === null ? null : await budgets.get(ownNotice);
      if (ownNotice === null || budget === null) return () => null;
      const mails = budget.mail && mailer.enabled && origin.fixed !== null;
      const people = mails ? await notifiedMembers(directory.members, ownNotice) : [];
      const notified = new Set([budget.webhookUrl, ...people].map((one) => one?.toLowerCase()));
      return ({ target }) =>
        notified.has(target.toLowerCase()) ? "notified by the organization's budget notification" : null;
    };
    undo.add(() => processes.leave().catch(() => undefined)); // otherwise the lease expires on its own
    const courier = new Courier({
      store,
      destinations,
      telemetry,
      base: origin.fixed,
      retryMs: config.alerts.retry_s * 1000,
      now,
    });
    undo.add(() => courier.close());
    const watch = new AlertWatch(
      {
        store,
        processes,
        courier,
        destinations: destinations.all,
        clearMs: thresholds.clearMs,
        read: async () => ({ ...window.read(), diskFreeBytes: await freeBytes(config.data_dir) }),
        conditions,
        skips,
        telemetry,
        now,
      },
      Math.min(MAX_EVERY_MS, Math.max(MIN_EVERY_MS, (thresholds.windowS * 1000) / 30)),
    );
    undo.add(() => watch.close());
    undo.add(bus.on('alerts.measures', () => watch.measures()));
    return {
      ...routes(new AlertDesk({ ...desk, measures: () => watch.measures() })),
      counted: (threads) => window.add(threads),
    };
  });
}

const namesIn = ({
  directory: { organizations, users, apiKeys, serviceAccounts },
}: Pick<Storage, 'directory'>): BudgetNames => ({
  organization: async (id) => (await organizations.get(id))?.name ?? id,
  member: async (organizationId, id) =>
    isServiceAccountId(id)
      ? ((await serviceAccounts.get(organizationId, id))?.name ?? id)
      : ((await users.get(id))?.email ?? id),
  key: async (organizationId, id) => {
    const key = await apiKeys.get(organizationId, id);
    return key === null ? id : `"${key.name}" (${id})`;
  },
});
