// The permissions of a valid key. Routes with a model name in their body call permit() after the model lookup, so that
// a 404 takes precedence over a 403.

import { apiError } from './errors.js';
import type { Identity, Scope } from './identity.js';

export function mayUse(identity: Identity, model: string): boolean {
  return identity.models.includes('*') || identity.models.includes(model);
}

/** Returns whether an error message may name a model: the key must be allowed to list models and to use this model. */
export const shownTo =
  (identity: Identity) =>
  (model: string): boolean =>
    identity.scopes.includes('models.read') && mayUse(identity, model);

/** Throws ApiError 403 `model_not_allowed` or `endpoint_not_allowed`. */
export function permit(identity: Identity, scope: Scope, model: string): void {
  if (!mayUse(identity, model))
    throw apiError('model_not_allowed', `This API key may not use the model "${model}".`, 'model');
  if (!identity.scopes.includes(scope))
    throw apiError('endpoint_not_allowed', `This API key does not have the permission "${scope}".`);
}
