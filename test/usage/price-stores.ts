// Tests that every implementation of PriceStore and BudgetStore must pass.
import t, { type Test } from 'tap';
import type { Actor, AuditLog } from '../../src/accounts/audit.js';
import type { Budget, BudgetStore } from '../../src/usage/budget-store.js';
import type { PriceStore } from '../../src/usage/price-store.js';

const ACTOR: Actor = { type: 'operator_api', id: null, email: null, ip: null };
const note = (action: string): { actor: Actor; action: string; detail: Record<string, unknown> } => ({
  actor: ACTOR,
  action,
  detail: {},
});
const actions = async (audit: AuditLog, of: string | null): Promise<string[]> =>
  (await audit.list(of, 100, null)).data.map(({ action }) => action).sort();

export function priceStoreTests(open: (t: Test) => Promise<{ prices: PriceStore; audit: AuditLog }>): void {
  t.test('setting prices replaces all prices and adds an audit log entry', async (t) => {
    const { prices, audit } = await open(t);
    t.equal(await prices.get(), null);
    const table = { currency: 'EUR', models: { 'hal-1.0': { input: 0.15, cached_input: 0.02, output: 0.6 } } };
    await prices.set(table, note('set'));
    await prices.set({ ...table, currency: 'USD' }, note('set again'));
    t.same(await prices.get(), { ...table, currency: 'USD' });
    await prices.set(null, note('taken'));
    t.equal(await prices.get(), null);
    t.same(await actions(audit, null), ['set', 'set again', 'taken']);
  });
}

export function budgetStoreTests(open: (t: Test) => Promise<{ budgets: BudgetStore; audit: AuditLog }>): void {
  t.test('only one of several concurrent processes reports a budget threshold', async (t) => {
    const { budgets, audit } = await open(t);
    const budget: Budget = { amount: 10.5, mail: true, webhookUrl: null, webhookSecret: 's', told: null };
    t.equal(await budgets.get('org_a'), null);
    t.equal(await budgets.markNotified('org_a', '2026-11', 80), false, 'no threshold is reported without a budget');
    await budgets.set('org_a', budget, note('set'));
    await budgets.set('org_b', budget, null);
    t.same([...(await budgets.all())].map(([id]) => id).sort(), ['org_a', 'org_b']);
    t.same((await Promise.all([1, 2, 3].map(() => budgets.markNotified('org_a', '2026-11', 80)))).sort(), [
      false,
      false,
      true,
    ]);
    t.same(
      [
        await budgets.markNotified('org_a', '2026-11', 100),
        await budgets.markNotified('org_a', '2026-11', 80),
        await budgets.markNotified('org_a', '2026-12', 80),
      ],
      [true, false, true],
    );
    t.match(await budgets.get('org_a'), { ...budget, told: { month: '2026-12', percent: 80 } });
    await Promise.all(
      ['key_a', 'key_b', 'key_c'].map((id) =>
        budgets.update(
          'org_a',
          (before) => ({ ...(before as Budget), keys: { ...before?.keys, [id]: 1 } }),
          note('updated'),
        ),
      ),
    );
    t.same((await budgets.get('org_a'))?.keys, { key_a: 1, key_b: 1, key_c: 1 }, 'concurrent updates are all kept');
    const refuses = (): never => {
      throw new Error('refused');
    };
    await t.rejects(budgets.update('org_a', refuses, note('refused')), { message: 'refused' });
    await budgets.update('org_b', () => null, note('removed'));
    t.equal(await budgets.get('org_b'), null);
    await budgets.set('org_a', null, note('taken'));
    t.equal(await budgets.get('org_a'), null);
    t.same(await actions(audit, 'org_a'), ['set', 'taken', 'updated', 'updated', 'updated']);
  });
}
