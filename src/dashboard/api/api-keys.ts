// …/api-keys: an organization's API keys. Developers can change the keys that they created, admins can change all keys.
// The secret is returned only once, when a key is created.

import { z } from 'zod';
import { checkChanger, DEFAULT_OVERLAP_S, MAX_OVERLAP_S } from '../../accounts/api-keys.js';
import type { ApiKeys, CreatedKey } from '../../accounts/api-keys.js';
import { keyObject } from '../../accounts/keys.js';
import type { KeyRecord } from '../../accounts/keys.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { ApiKeyObject, CreatedApiKey } from '../../shared/wire/api-keys.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { Guard, MemberCall } from './guard.js';
import {
  addressesField,
  checkExpiry,
  checkLimits,
  checkModels,
  dateField,
  keyModelsField,
  keyNameField,
  keyScopesField,
  limitsField,
} from './key-fields.js';
import { listedKeys } from './listed-keys.js';
import { listPage, readPage } from './paging.js';

const LIST = '/organizations/:org/api-keys';
const ONE = `${LIST}/:id`;

const permissions = {
  models: keyModelsField.nullish(),
  scopes: keyScopesField.nullish(),
  expires_at: dateField.nullish(),
  limits: limitsField.nullish(),
  allowed_addresses: addressesField.nullish(),
};
const createBody = z.object({
  name: keyNameField,
  ...permissions,
  /** The service account that owns the key. Requires the admin role. */
  service_account_id: z.string().min(1).max(64).nullish(),
});
const changeBody = z.object({ name: keyNameField.nullish(), ...permissions });
const rotateBody = z.object({ overlap_seconds: z.number().int().min(0).max(MAX_OVERLAP_S).nullish() });

export interface ApiKeyDeps {
  guard: Guard;
  apiKeys: ApiKeys;
  pool: Pick<ModelPool, 'list' | 'models'>;
  now: () => number;
}

export function apiKeyRoutes({ guard, apiKeys: keys, pool, now }: ApiKeyDeps): Route[] {
  const shown = (key: KeyRecord): ApiKeyObject => keyObject(key, new Date(now()));
  const created = ({ key, secret }: CreatedKey): CreatedApiKey => ({ ...shown(key), secret });
  const served = (): string[] => pool.list().map(({ model }) => model.id);
  // Requests for an adapter count toward its model's limits, so adapters are not listed.
  const limited = (): string[] => pool.models().map(({ model }) => model.id);
  return [
    guard.member('viewer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        exchange.json(200, listPage(await listedKeys(keys, organization.id, { limit, after }, new Date(now())), shown));
      },
    }),

    guard.member('developer', {
      method: 'POST',
      path: LIST,
      body: createBody,
      handler: async ({ exchange, organization, user, actor, body }) => {
        const models = body.models ?? undefined;
        const limits = body.limits ?? null;
        checkModels(models, served());
        checkLimits(limits, limited());
        checkExpiry(body.expires_at, now());
        const fields = {
          name: body.name,
          models,
          scopes: body.scopes ?? undefined,
          limits,
          expiresAt: body.expires_at ?? null,
          ...(body.service_account_id == null
            ? { createdBy: user.id }
            : { serviceAccount: { id: body.service_account_id, by: user.id } }),
          allowedAddresses: body.allowed_addresses ?? undefined,
        };
        exchange.json(200, created(await keys.create(organization.id, fields, actor)));
      },
    }),

    guard.member('developer', {
      method: 'PATCH',
      path: ONE,
      body: changeBody,
      handler: async (call) => {
        const { exchange, organization, actor, body } = call;
        const { id } = await changeable(call);
        checkModels(body.models ?? undefined, served());
        checkLimits(body.limits, limited());
        checkExpiry(body.expires_at, now());
        // Null clears an optional date or limit. For a required value, null means the same as omitting the field.
        const change = {
          name: body.name ?? undefined,
          models: body.models ?? undefined,
          scopes: body.scopes ?? undefined,
          limits: body.limits,
          expiresAt: body.expires_at,
          // Null, like an empty list, allows all addresses.
          allowedAddresses: body.allowed_addresses === null ? [] : body.allowed_addresses,
        };
        exchange.json(200, shown(known(await keys.change(organization.id, id, change, actor))));
      },
    }),

    guard.member('developer', {
      method: 'POST',
      path: `${ONE}/rotate`,
      body: rotateBody,
      handler: async (call) => {
        const { exchange, organization, user, actor, body } = call;
        const { id } = await changeable(call);
        exchange.json(
          200,
          created(
            known(await keys.rotate(organization.id, id, body.overlap_seconds ?? DEFAULT_OVERLAP_S, actor, user.id)),
          ),
        );
      },
    }),

    guard.member('developer', {
      method: 'DELETE',
      path: ONE,
      handler: async (call) => {
        const { exchange, organization, actor } = call;
        const { id } = await changeable(call);
        exchange.json(200, shown(known(await keys.revoke(organization.id, id, actor))));
      },
    }),
  ];

  /** The key named in the path, if the caller may change it. Throws ApiError 404 or 403. */
  async function changeable({ exchange, organization, user, role }: MemberCall<unknown>): Promise<KeyRecord> {
    const key = known(await keys.get(organization.id, exchange.params['id'] as string));
    checkChanger(role, user.id, key);
    return key;
  }
}

function known<T>(found: T | null): T {
  if (found === null) throw apiError('resource_not_found', 'API key not found.', 'id');
  return found;
}
