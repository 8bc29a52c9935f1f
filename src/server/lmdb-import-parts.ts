// Converts a data directory's tables to rows of the shared database. Short-lived data (attempts, alert incidents) and
// machine-local data (live view history, tuning runs, settings leases) are not converted.

import type { Invite } from '../accounts/invites.js';
import type { KeyRecord, Organization } from '../accounts/keys.js';
import type { Membership } from '../accounts/members.js';
import { NO_SETTINGS } from '../accounts/organizations.js';
import type { OrganizationSettings } from '../accounts/organizations.js';
import type { SecondFactor } from '../accounts/second-factors.js';
import type { ServiceAccount } from '../accounts/service-accounts.js';
import type { Session } from '../accounts/sessions.js';
import type { Token } from '../accounts/tokens.js';
import type { User } from '../accounts/users.js';
import { textBytes } from '../usage/requests/request-place.js';
import type { SavedRow } from '../dashboard/saved/saved-store.js';
import type { RequestText } from '../shared/request-entry.js';
import type { FinishedUsage } from '../shared/usage-sink.js';
import type { Store, TableName } from '../storage/store.js';
import type { Sketches } from '../usage/latency-groups.js';
import { noUsage } from '../usage/sums.js';
import type { UsageSums } from '../usage/sums.js';
import type { AuditEntry } from '../shared/wire/organizations.js';
import { columns, json, ms, part } from './lmdb-import-part.js';
import { listColumn } from './postgres-import-parts.js';
import type { Part } from './postgres-import-parts.js';

const setting = <V>(store: Store, from: TableName, kind: string): Part =>
  part<V>(store, {
    from,
    table: 'settings',
    all: columns('kind name value:json'),
    row: (value, key) => [kind, String(key), json(value)],
    more: {
      where: `kind = '${kind}'`,
    },
  });

/** The parts, in import order. */
export function lmdbParts(store: Store): Part[] {
  const settings = store.table<OrganizationSettings>('organization-settings');
  const texts = store.table<RequestText>('request-texts');
  const contents = store.table<string>('saved-contents');
  const identityOwners = store.table<string>('identities');
  const secret = (names: readonly string[]): Part =>
    part<Uint8Array | string | { secret: Uint8Array; replacedAt: number | null }>(store, {
      from: 'secrets',
      table: 'secrets',
      all: columns('name value:bytea replaced_at:bigint'),
      row: (value, key) => {
        if (!names.includes(String(key))) return null;
        if (typeof value === 'string') return [String(key), new Uint8Array(Buffer.from(value)), null];
        return value instanceof Uint8Array ? [String(key), value, null] : [String(key), value.secret, value.replacedAt];
      },
    });
  return [
    secret(['api-keys', 'invite-key', 'setup-code', 'signing-key']),
    part<string[]>(store, {
      from: 'secrets',
      table: 'settings',
      all: columns('kind name value:json'),
      row: (value, key) => (key === 'model-names' ? ['model-names', 'all', json(value)] : null),
      more: { name: 'model-names', where: "kind = 'model-names'" },
    }),
    part<Organization>(store, {
      from: 'organizations',
      table: 'organizations',
      all: columns(
        'id number:integer name status created_at:bigint deleted_at:bigint erased:boolean keys_erased:boolean limits:json monthly_token_cap:bigint keeps_text:boolean dashboard_addresses:json',
      ),
      row: (one) => {
        const { limits, monthlyTokenCap, keepsText, dashboardAddresses } = settings.get(one.id) ?? NO_SETTINGS;
        return [
          one.id,
          one.tenant,
          one.name,
          one.status,
          ms(one.createdAt),
          ms(one.deletedAt),
          one.erased === true,
          one.keysErased === true,
          json(limits),
          monthlyTokenCap,
          keepsText === true,
          json(dashboardAddresses ?? []),
        ];
      },
    }),
    part<KeyRecord>(store, {
      from: 'keys',
      table: 'api_keys',
      all: columns(
        'id organization_id created_by name public_id last4 hash:bytea models:json scopes:json limits:json expires_at:bigint last_used_at:bigint created_at:bigint revoked_at:bigint revoked:boolean rotated_from temporary:boolean allowed_addresses:json',
      ),
      row: (one) => [
        one.id,
        one.organizationId,
        one.createdBy,
        one.name,
        one.publicId,
        one.last4,
        one.hash,
        json(one.models),
        json(one.scopes),
        one.limits === null ? null : json(one.limits),
        ms(one.expiresAt),
        ms(one.lastUsedAt),
        ms(one.createdAt),
        ms(one.revokedAt),
        one.revoked === true,
        one.rotatedFrom,
        one.temporary === true,
        json(one.allowedAddresses ?? []),
      ],
    }),
    part<User>(store, {
      from: 'users',
      table: 'users',
      all: columns(
        'id email name password_hash email_verified:boolean operator:boolean locked:boolean second_factor:boolean created_at:bigint last_login_at:bigint',
      ),
      row: (one) => [
        one.id,
        one.email,
        one.name,
        one.passwordHash,
        one.emailVerified,
        one.operator,
        one.locked,
        one.secondFactor === true,
        ms(one.createdAt),
        ms(one.lastLoginAt),
      ],
    }),
    part<Membership>(store, {
      from: 'memberships',
      table: 'memberships',
      all: columns('organization_id user_id role created_at:bigint'),
      row: (one) => [one.organizationId, one.userId, one.role, ms(one.createdAt)],
    }),
    part<ServiceAccount>(store, {
      from: 'service-accounts',
      table: 'service_accounts',
      all: columns('id organization_id name role disabled:boolean created_by created_at:bigint'),
      row: (one) => [one.id, one.organizationId, one.name, one.role, one.disabled, one.createdBy, ms(one.createdAt)],
    }),
    part<Invite>(store, {
      from: 'invites',
      table: 'invites',
      all: columns(
        'id organization_id email role created_by created_at:bigint expires_at:bigint accepted_at:bigint revoked_at:bigint',
      ),
      row: (one, key) =>
        (key as string[])[0] === 'id'
          ? null
          : [
              one.id,
              one.organizationId,
              one.email,
              one.role,
              one.createdBy,
              one.createdAt,
              one.expiresAt,
              one.acceptedAt,
              one.revokedAt,
            ],
    }),
    part<Session>(store, {
      from: 'sessions',
      table: 'sessions',
      all: columns('hash id user_id created_at:bigint last_seen_at:bigint ip user_agent'),
      row: (one, key) =>
        (key as string[])[0] === 'hash'
          ? [(key as string[])[1], one.id, one.userId, one.createdAt, one.lastSeenAt, one.ip, one.userAgent]
          : null,
    }),
    part<Token>(store, {
      from: 'tokens',
      table: 'link_tokens',
      all: columns('user_id purpose hash expires_at:bigint mailed:boolean email'),
      row: (one, key) =>
        (key as string[])[0] === 'hash'
          ? [one.userId, one.purpose, (key as string[])[1], one.expiresAt, one.mailed, one.email]
          : null,
    }),
    part<{ factor: SecondFactor | null; proposal: { sealed: string; until: number } | null }>(store, {
      from: 'second-factors',
      table: 'second_factors',
      all: [
        ...columns('user_id sealed since:bigint last_step:bigint proposal proposal_until:bigint'),
        listColumn('recovery'),
      ],
      row: ({ factor, proposal }, key) => [
        String(key),
        factor?.sealed,
        ms(factor?.since),
        factor?.lastStep,
        proposal?.sealed,
        proposal?.until,
        json(factor?.recovery ?? []),
      ],
    }),
    part<string>(store, {
      from: 'identities',
      table: 'identities',
      all: columns('hash user_id issuer'),
      row: (issuer, key) => {
        const [kind, userId, hash = ''] = key as string[];
        return kind === 'user' && identityOwners.get(['at', hash]) === userId ? [hash, userId, issuer] : null;
      },
    }),
    part<AuditEntry>(store, {
      from: 'audit',
      table: 'audit_log',
      all: columns('id organization_id at:bigint entry:json'),
      row: (entry, key) => [entry.id, String((key as string[])[0]), Number((key as number[])[1]), json(entry)],
    }),
    setting(store, 'model-settings', 'model'),
    setting(store, 'engine-settings', 'engine'),
    setting(store, 'served-models', 'served-model'),
    setting(store, 'adapters', 'adapter'),
    setting(store, 'prices', 'prices'),
    setting(store, 'budgets', 'budget'),
    part<SavedRow>(store, {
      from: 'saved',
      table: 'saved',
      all: columns(
        'organization_id id user_id kind sealed_name shared:boolean created_at:bigint expires_at:bigint sealed_content',
      ),
      row: (one) => {
        const content = contents.get([one.organizationId, one.id]);
        return content === undefined
          ? null
          : [
              one.organizationId,
              one.id,
              one.userId,
              one.kind,
              one.sealedName,
              one.shared,
              one.createdAt,
              one.expiresAt,
              content,
            ];
      },
    }),
    part<UsageSums>(store, {
      from: 'usage-hours',
      table: 'usage_hours',
      all: columns(`organization_id hour:integer model key_id endpoint requests:bigint errors:bigint rate_limited:bigint input_tokens:bigint cached_tokens:bigint output_tokens:bigint
      reasoning_tokens:bigint images:bigint answered:bigint first_token_ms:double duration_ms:double decode_ms:double`),
      row: (sums, key) => [...(key as (string | number)[]), ...noUsage().map((_, at) => sums[at] ?? 0)],
    }),
    part<number>(store, {
      from: 'usage-months',
      table: 'usage_months',
      all: columns('organization_id month tokens:bigint'),
      row: (tokens, key) => [...(key as string[]), tokens],
    }),
    part<Sketches>(store, {
      from: 'usage-latencies',
      table: 'usage_latencies',
      all: columns('organization_id hour:integer model key_id first_sketch:json total_sketch:json'),
      row: ({ first, total }, key) => [...(key as (string | number)[]), json(first), json(total)],
    }),
    part<FinishedUsage>(store, {
      from: 'usage-rows',
      table: 'usage_rows',
      all: columns('ended_at:bigint usage:json'),
      row: (usage) => [usage.endedAt, json(usage)],
    }),
    part<Record<string, unknown> & { hasText: boolean; bytes: number }>(store, {
      from: 'requests',
      table: 'requests',
      all: columns(
        'ended_at:bigint request_id organization_id key_id model outcome entry:json bytes:integer text:json text_bytes:integer',
      ),
      row: ({ hasText, bytes, ...entry }, key) => {
        const said = hasText ? texts.get(key) : undefined;
        return [
          Number((key as number[])[0]),
          String((key as string[])[1]),
          String(entry['organizationId']),
          String(entry['keyId']),
          entry['model'] as string | null,
          String(entry['outcome']),
          json(entry),
          bytes,
          said === undefined ? null : json(said),
          said === undefined ? 0 : textBytes(said),
        ];
      },
    }),
  ];
}

/** The highest organization number assigned so far. */
export const lastNumber = (store: Store): number =>
  store.table<number>('meta').get('last-tenant') ??
  Math.max(0, ...[...store.table<Organization>('organizations').range()].map(({ value }) => value.tenant));

/** Number of stored responses; they are not imported. */
export const storedResponses = (store: Store): number => [...store.table('responses').keys()].length;
