// Selects the limits that apply to a request: its organization's limits for the model and, if the key has separate
// limits, the key's limits. Both sets of limits must admit the request. Pure; evaluated for each request.

import type { Config } from '../config/settings.js';
import type { Limited, LimitedOrganization } from './admission.js';
import { keyLimits, organizationLimits } from './limits.js';
import type { Limits } from './limits.js';
import { recordKey } from './record-key.js';

export interface LimitScope {
  readonly owner: 'organization' | 'API key';
  readonly key: Int32Array;
  readonly limits: Limits;
}

export class LimitScopes {
  /** `part` returns this process's share of the limits. If absent, the full limits apply. */
  constructor(
    private readonly settings: Config['limits'],
    private readonly part: ((limits: Limits) => Limits) | null = null,
  ) {}

  of(identity: Limited, model: string): LimitScope[] {
    const own = keyLimits(identity.keyLimits, model);
    const organization = this.organization(identity, model);
    return own === null
      ? [organization]
      : [organization, { owner: 'API key', key: recordKey('key', identity.keyId, model), limits: this.here(own) }];
  }

  organization(organization: LimitedOrganization, model: string): LimitScope {
    return {
      owner: 'organization',
      key: recordKey('organization', organization.organizationId, model),
      limits: this.here(this.limitsOf(organization, model)),
    };
  }

  /** Returns the full limits, not this process's share. */
  limitsOf(organization: LimitedOrganization, model: string): Limits {
    return organizationLimits(this.settings, organization.organizationId, organization.limits, model);
  }

  private here(limits: Limits): Limits {
    return this.part === null ? limits : this.part(limits);
  }
}
