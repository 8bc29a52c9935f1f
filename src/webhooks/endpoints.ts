// Creates, changes and removes webhook endpoints, with entries in the audit log. Used by the dashboard API and the
// command line.
import type { Actor, AuditLog } from '../accounts/audit.js';
import type { SecretBox } from '../accounts/sealing/secret-box.js';
import type { Config } from '../config/settings.js';
import { apiError } from '../shared/errors.js';
import { newAccountId } from '../shared/ids.js';
import { EVENT_TYPES, type EventType } from '../shared/wire/webhooks.js';
import { isInternal } from '../usage/webhook.js';
import { previousSecrets, SEALED_FOR } from './secrets.js';
import { newWebhookSecret } from './signature.js';
import type { Endpoint, WebhookStore } from './webhook-store.js';

const DISABLED = 'disabled by an admin';

/** Maximum number of previous secrets that still sign an endpoint's requests. */
export const MAX_PREVIOUS_SECRETS = 3;

export interface WebhookEndpointsDeps {
  readonly store: WebhookStore;
  readonly box: Pick<SecretBox, 'open' | 'seal'>;
  readonly audit: Pick<AuditLog, 'note'>;
  readonly settings: Pick<Config['webhooks'], 'public_only' | 'max_endpoints'>;
  readonly now: () => number;
}

/** An endpoint with its new signing secret, which is not stored in readable form. */
export interface EndpointWithSecret {
  readonly endpoint: Endpoint;
  readonly secret: string;
}

/** Absent and null values leave the field unchanged. */
export interface EndpointChange {
  readonly url?: string | null | undefined;
  readonly events?: readonly EventType[] | null | undefined;
  readonly enabled?: boolean | null | undefined;
}

export class WebhookEndpoints {
  constructor(private readonly deps: WebhookEndpointsDeps) {}

  /** `events`: null = all events. Rejects with ApiError 422 invalid_value or too_many_entries. */
  async create(
    organizationId: string,
    { url, events }: { readonly url: string; readonly events: readonly EventType[] | null },
    actor: Actor,
  ): Promise<EndpointWithSecret> {
    const { store, box, audit, settings, now } = this.deps;
    this.#checkUrl(url);
    const id = newAccountId('wh');
    const secret = newWebhookSecret();
    const endpoint: Endpoint = {
      id,
      organizationId,
      url,
      events: events ?? EVENT_TYPES,
      sealedSecret: box.seal(SEALED_FOR, id, secret),
      createdAt: now(),
      disabled: null,
      failures: 0,
      pausedUntil: 0,
      deliveredAt: null,
    };
    const { max_endpoints: max } = settings;
    if (!(await store.addEndpoint(endpoint, max)))
      throw apiError(
        'too_many_entries',
        `An organization may have at most ${max} webhook endpoints (\`webhooks.max_endpoints\`).`,
      );
    await audit.note(organizationId, actor, 'webhook.created', id, { url });
    return { endpoint, secret };
  }

  /** Resolves to null if the endpoint is unknown. Rejects with ApiError 422 invalid_value. */
  async change(
    organizationId: string,
    id: string,
    { url, events, enabled }: EndpointChange,
    actor: Actor,
  ): Promise<Endpoint | null> {
    if (url != null) this.#checkUrl(url);
    const changed = await this.deps.store.changeEndpoint(organizationId, id, (before) => ({
      ...before,
      url: url ?? before.url,
      events: events ?? before.events,
      // The failures and the pause apply to the old URL, so a new URL starts without them.
      ...(url == null || url === before.url ? {} : { failures: 0, pausedUntil: 0 }),
      ...(enabled === true ? { disabled: null, failures: 0, pausedUntil: 0 } : {}),
      ...(enabled === false ? { disabled: before.disabled ?? DISABLED } : {}),
    }));
    if (changed !== null)
      await this.deps.audit.note(organizationId, actor, 'webhook.changed', id, {
        ...(url == null ? {} : { url }),
        ...(events == null ? {} : { events }),
        ...(enabled == null ? {} : { enabled }),
      });
    return changed;
  }

  /**
   * Replaces the signing secret. For `overlapS` seconds, requests are also signed with the previous secret; 0 removes
   * all previous secrets. Secrets that cannot be decrypted are removed. Resolves to null if the endpoint is unknown.
   */
  async rotate(organizationId: string, id: string, overlapS: number, actor: Actor): Promise<EndpointWithSecret | null> {
    const { store, box, audit, now } = this.deps;
    const secret = newWebhookSecret();
    const until = now() + overlapS * 1_000;
    const endpoint = await store.changeEndpoint(organizationId, id, (before) => ({
      ...before,
      sealedSecret: box.seal(SEALED_FOR, id, secret),
      previousSecrets:
        overlapS === 0
          ? []
          : [{ sealed: before.sealedSecret, until }, ...previousSecrets(before, now())]
              .filter(({ sealed }) => box.open(SEALED_FOR, id, sealed) !== null)
              .slice(0, MAX_PREVIOUS_SECRETS),
    }));
    if (endpoint === null) return null;
    await audit.note(organizationId, actor, 'webhook.secret_rotated', id, { overlap_seconds: overlapS });
    return { endpoint, secret };
  }

  /** Removes an endpoint and its deliveries. Resolves to false if the endpoint is unknown. */
  async remove(organizationId: string, id: string, actor: Actor): Promise<boolean> {
    const isRemoved = await this.deps.store.removeEndpoint(organizationId, id);
    if (isRemoved) await this.deps.audit.note(organizationId, actor, 'webhook.deleted', id);
    return isRemoved;
  }

  #checkUrl(url: string): void {
    if (this.deps.settings.public_only && isInternal(url))
      throw apiError(
        'invalid_value',
        '`url` must be a public internet address. The operator can allow other addresses with `webhooks.public_only`.',
        'url',
      );
  }
}
