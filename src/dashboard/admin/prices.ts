// Each model's price per million tokens. The currency is only a label; amounts are not converted. Costs are
// informational; nothing is charged.

import { z } from 'zod';
import type { Route } from '../../http/exchange.js';
import type { ModelPrice, PriceTable } from '../../shared/wire/usage.js';
import type { PriceStore } from '../../usage/price-store.js';
import { NO_PRICES } from '../api/usage.js';
import type { OperatorGuard } from './operator-guard.js';

const MAX_MODELS = 1_000;

const amount = z.number().min(0).max(1e9);
const price = z.object({ input: amount, cached_input: amount, output: amount }) satisfies z.ZodType<ModelPrice>;
const body = z.object({
  currency: z.string().trim().max(16),
  models: z
    .record(z.string().min(1).max(128), price)
    .refine((models) => Object.keys(models).length <= MAX_MODELS, `may list at most ${MAX_MODELS} models`),
}) satisfies z.ZodType<PriceTable>;

export interface PriceDeps {
  prices: PriceStore;
}

export function priceRoutes(guard: OperatorGuard, { prices }: PriceDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/prices',
      handler: async ({ exchange }) => exchange.json(200, (await prices.get()) ?? NO_PRICES),
    }),

    guard({
      method: 'PUT',
      path: '/prices',
      body,
      handler: async ({ exchange, actor, body: table }) => {
        const isEmpty = Object.keys(table.models).length === 0;
        await prices.set(isEmpty ? null : table, {
          actor,
          action: 'prices.changed',
          detail: { currency: table.currency, models: table.models },
        });
        exchange.json(200, isEmpty ? NO_PRICES : table);
      },
    }),
  ];
}
