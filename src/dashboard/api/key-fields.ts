// Body fields for an API key's permissions and limits, shared by the dashboard and operator routes.

import { z } from 'zod';
import { ALL_SCOPES } from '../../accounts/keys.js';
import type { LimitOverride } from '../../config/kinds.js';
import { MAX_ADDRESSES, parseRange } from '../../shared/address-list.js';
import { apiError } from '../../shared/errors.js';
import type { Scope } from '../../shared/identity.js';

const MAX_MODELS = 100;

export const keyNameField = z
  .string()
  .trim()
  .min(1)
  .max(128)
  .refine((text) => !/\p{Cc}|\p{Cf}/u.test(text), 'must not contain control characters');
export const keyModelsField = z.array(z.string().min(1).max(128)).min(1).max(MAX_MODELS);
export const keyScopesField = z
  .array(z.enum(ALL_SCOPES as [Scope, ...Scope[]]))
  .min(1)
  .max(16)
  .transform((scopes) => [...new Set(scopes)]);

/** A time in RFC 3339 format. */
export const dateField = z
  .string()
  .max(64)
  .transform((text, context): Date => {
    const date = new Date(
      /^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d))?$/.test(text) ? text : NaN,
    );
    if (!Number.isNaN(date.getTime())) return date;
    context.addIssue({
      code: 'custom',
      params: { api: 'invalid_value' },
      message: 'must be a date and time, such as 2027-01-31T12:00:00Z',
    });
    return z.NEVER;
  });

/** The IP addresses and CIDR ranges from which the key may be used. Empty: all addresses. */
export const addressesField = z
  .array(
    z
      .string()
      .trim()
      .max(64)
      .refine((text) => parseRange(text) !== null, {
        params: { api: 'invalid_value' },
        message: 'must be an IP address or a CIDR range, such as 203.0.113.7 or 2001:db8::/32',
      }),
  )
  .max(MAX_ADDRESSES);

const value = z.number().int().min(1).max(1e9).nullish();

const limitValues = { rpm: value, tpm: value, concurrency: value };

/**
 * Unlike other unknown fields, unknown limits are refused: if a misspelled limit were ignored, the key would be
 * unlimited.
 */
const limitsOfModel = z.looseObject(limitValues).superRefine((limits, context) => {
  for (const name of Object.keys(limits)) {
    if (!Object.hasOwn(limitValues, name))
      context.addIssue({
        code: 'custom',
        params: { api: 'invalid_value' },
        path: [name],
        message: `is not a limit; the limits are ${Object.keys(limitValues).join(', ')}`,
      });
  }
});

/** Limits by model or `*`. Null means no limit; if a limit is absent, the more general one applies. */
export const limitsField = z
  .record(z.string().min(1).max(128), limitsOfModel)
  .transform((limits): Record<string, LimitOverride> => limits);

/** `now` is in milliseconds. Throws ApiError 422 if the date is in the past. */
export function checkExpiry(date: Date | null | undefined, now: number): void {
  if (date != null && date.getTime() <= now)
    throw apiError('invalid_value', '`expires_at` must be in the future.', 'expires_at');
}

/** Throws ApiError 422 for a name that is not a served model. `*` on its own means all models. */
export function checkModels(names: readonly string[] | undefined, served: readonly string[]): void {
  names?.forEach((name, index) => {
    if (name === '*' && names.length === 1) return;
    if (!served.includes(name))
      throw apiError(
        'invalid_value',
        `models[${index}]: model "${name}" not found; use ${served.join(', ')}, or * alone.`,
        `models[${index}]`,
      );
  });
}

/** The same check for limits. */
export function checkLimits(
  limits: Readonly<Record<string, LimitOverride>> | null | undefined,
  served: readonly string[],
): void {
  for (const name of Object.keys(limits ?? {})) {
    if (name !== '*' && !served.includes(name))
      throw apiError(
        'invalid_value',
        `limits: model "${name}" not found; use ${served.join(', ')}, or *.`,
        `limits.${name.slice(0, 64)}`,
      );
  }
}
