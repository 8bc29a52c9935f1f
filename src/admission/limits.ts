// Resolves the limits of organizations and keys from the configuration, the operator's limits and the key's limits.
// Pure; evaluated for each request.

import type { LimitOverride } from '../config/kinds.js';
import type { Config } from '../config/settings.js';

/** Null means no limit. */
export interface Limits {
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
}

type Layer = Readonly<Record<string, LimitOverride>> | undefined;

/**
 * An organization's limits for a model. For each field, the most specific value applies. The order is: the operator's
 * limit for the organization and model, the operator's limit for all of the organization's models, `limits.overrides`
 * for the organization, `limits.overrides` for `*`, and the general settings.
 */
export function organizationLimits(
  settings: Config['limits'],
  organizationId: string,
  set: Layer,
  model: string,
): Limits {
  const { overrides } = settings;
  return resolve([set, overrides[organizationId], overrides['*']], model, settings);
}

/** A key's additional limits, or null if it has none. */
export function keyLimits(set: Layer | null, model: string): Limits | null {
  if (set === null || set === undefined) return null;
  const limits = resolve([set], model, OFF);
  return limits.rpm === null && limits.tpm === null && limits.concurrency === null ? null : limits;
}

const OFF: Limits = { rpm: null, tpm: null, concurrency: null };

function resolve(layers: readonly Layer[], model: string, otherwise: Limits): Limits {
  const pick = (field: keyof Limits): number | null => {
    for (const layer of layers) {
      const value = layer?.[model]?.[field] ?? (layer?.[model]?.[field] === null ? null : layer?.['*']?.[field]);
      if (value !== undefined) return value;
    }
    return otherwise[field];
  };
  return { rpm: pick('rpm'), tpm: pick('tpm'), concurrency: pick('concurrency') };
}
