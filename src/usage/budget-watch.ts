// Checks once per minute whether any organization has spent 80% or 100% of its budget, and sends one notification per
// month for each threshold: by email to its owners and admins, and through a signed webhook. One per server, on the
// primary thread.

import { monthName, monthNumber } from '../admission/month-use.js';
import type { Members } from '../accounts/members.js';
import type { Organizations } from '../accounts/organizations.js';
import { budgetLetter } from '../accounts/mail/email-templates.js';
import type { Mailer } from '../accounts/mail/mailer.js';
import type { Log } from '../telemetry/types.js';
import type { PriceTable } from '../shared/wire/usage.js';
import type { Budget, BudgetStore } from './budget-store.js';
import type { PriceStore } from './price-store.js';
import { HOUR_MS } from './sums.js';
import type { UsageStore } from './usage-store.js';
import { sendWebhook } from './webhook.js';
import type { WebhookSettings } from './webhook.js';

const EVERY_MS = 60_000;
/** In percent, highest first. */
const SHARES = [100, 80] as const;
/** Maximum number of emails per notification. */
const MAX_MAILS = 20;

export interface BudgetWatchDeps {
  budgets: BudgetStore;
  prices: PriceStore;
  usage: Pick<UsageStore, 'totals'>;
  organizations: Pick<Organizations, 'get'>;
  members: Pick<Members, 'page'>;
  mailer: Mailer;
  /** The dashboard's address; null if it is unknown, in which case no email is sent. */
  base: string | null;
  webhooks: WebhookSettings;
  log: Log;
}

/** How much an organization has spent in the month of `now`, counting only models with a price. */
export async function spentInMonth(
  usage: Pick<UsageStore, 'totals'>,
  organizationId: string,
  prices: PriceTable | null,
  now: number,
): Promise<number> {
  if (prices === null) return 0;
  const date = new Date(now);
  const from = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
  const rows = await usage.totals(
    { fromHour: from / HOUR_MS, toHour: Math.floor(now / HOUR_MS) + 1 },
    [organizationId],
    prices,
  );
  return rows.reduce((sum, { cost }) => sum + (cost ?? 0), 0);
}

/** The email addresses to notify about an organization's budget, if email notifications are on. */
export async function notifiedMembers(members: Pick<Members, 'page'>, organizationId: string): Promise<string[]> {
  const all = (await members.page(organizationId, 100, null))?.data ?? [];
  return all
    .filter(({ role }) => role === 'owner' || role === 'admin')
    .slice(0, MAX_MAILS)
    .map(({ email }) => email);
}

export class BudgetWatch {
  #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  readonly #sending = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(
    private readonly deps: BudgetWatchDeps,
    everyMs = EVERY_MS,
  ) {
    const run = (): void => {
      this.#running = this.run().catch((err: unknown) => this.deps.log.error({ err }, 'checking budgets failed'));
      void this.#running.then(() => {
        if (!this.#closing.signal.aborted) this.#timer = setTimeout(run, everyMs).unref();
      });
    };
    this.#timer = setTimeout(run, everyMs).unref();
  }

  async run(now = Date.now()): Promise<void> {
    const { budgets, prices, usage } = this.deps;
    const all = await budgets.all();
    if (all.size === 0) return;
    const table = await prices.get();
    const month = monthName(monthNumber(now));
    for (const [id, budget] of all) {
      if (this.#closing.signal.aborted) return;
      const { amount } = budget;
      if (amount === null) continue; // only members or API keys have budgets
      const spent = await spentInMonth(usage, id, table, now);
      const percent = SHARES.find((share) => spent * 100 >= share * amount);
      if (percent === undefined || !(await budgets.markNotified(id, month, percent))) continue;
      await this.#notify(id, { ...budget, amount }, { month, percent, spent, currency: table?.currency ?? '' });
    }
  }

  /** Aborts deliveries in progress. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#running;
    await Promise.all(this.#sending);
  }

  async #notify(
    id: string,
    { amount, mail, stops, webhookUrl, webhookSecret }: Budget & { amount: number },
    { month, percent, spent, currency }: { month: string; percent: number; spent: number; currency: string },
  ): Promise<void> {
    const { organizations, members, mailer, base, webhooks, log } = this.deps;
    const organization = await organizations.get(id);
    if (organization === null) return;
    const { name } = organization;
    log.info({ organization: id, percent, month }, 'budget threshold reached');
    if (mail && mailer.enabled && base !== null) {
      for (const email of await notifiedMembers(members, id))
        mailer.send(
          budgetLetter(
            email,
            { organization: name, percent, spent, amount, currency, month, stops: stops === true },
            base,
          ),
        );
    }
    if (webhookUrl === null) return;
    const message = {
      type: 'budget.alert',
      organization: { id, name },
      month,
      percent,
      spent,
      amount,
      currency,
      stops: stops === true,
      at: new Date().toISOString(),
    };
    const sending = sendWebhook(webhookUrl, webhookSecret, {
      message,
      settings: webhooks,
      signal: this.#closing.signal,
    }).catch((err: unknown) => log.error({ err, organization: id }, 'webhook delivery failed'));
    this.#sending.add(sending);
    void sending.then(() => this.#sending.delete(sending));
  }
}
