// Schema of `oidc.roles`, which maps a claim of the OpenID Connect provider to a user's role at each sign-in. No side
// effects.
import { z } from 'zod';

const role = z.enum(['owner', 'admin', 'developer', 'viewer']);
export type OidcRole = z.infer<typeof role>;

export interface OidcRoles {
  /** Name of the claim, or a path to it with dots between the names: realm_access.roles. */
  readonly claim: string;
  /** Organization ID; null: the server's first organization. */
  readonly organization: string | null;
  /** Role by value of the claim. If several values match, the highest role applies. */
  readonly roles: Readonly<Record<string, OidcRole>>;
  /** What to do if no value matches: assign this role, keep the role, or refuse the sign-in. */
  readonly default: OidcRole | 'keep' | 'refuse';
  /**
   * Values of the claim that grant operator rights. A user whose claim has none of them loses operator rights. null:
   * the claim does not control operator rights.
   */
  readonly operators: readonly string[] | null;
  /** Additional scopes to request from the provider. */
  readonly scopes: readonly string[];
}

const MAX_VALUES = 1_000;
const value = z.string().min(1).max(256);

export const oidcRolesSchema: z.ZodType<OidcRoles> = z
  .strictObject({
    claim: z.string().min(1).max(256),
    organization: z
      .string()
      .regex(/^org_[0-9A-Za-z]{1,60}$/, 'must be the ID of an organization, such as org_…')
      .nullable()
      .default(null),
    roles: z
      .record(value, role)
      .refine((roles) => Object.keys(roles).length <= MAX_VALUES, `must have at most ${MAX_VALUES} values`)
      .default({}),
    default: z.enum([...role.options, 'keep', 'refuse']).default('refuse'),
    operators: z.array(value).min(1).max(MAX_VALUES).nullable().default(null),
    scopes: z
      .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/, 'must be the name of a scope'))
      .max(20)
      .default([]),
  })
  .refine(
    ({ roles, operators }) => Object.keys(roles).length > 0 || operators !== null,
    'At least one value must be listed in roles or operators.',
  );

/** Documentation of the fields, for docs/reference/settings.md. */
export const OIDC_ROLES_HELP: Readonly<Record<keyof OidcRoles, { expects: string; fallback: string; help: string }>> = {
  claim: {
    expects: 'text',
    fallback: 'required',
    help: 'Claim of the ID token or, if it has none, of the user info response: a name, or a path with dots such as `realm_access.roles`. Its value is a string or a list of strings.',
  },
  roles: {
    expects: 'an object: value → `owner`, `admin`, `developer` or `viewer`',
    fallback: 'none',
    help: 'Role for each value of the claim. If several values match, the highest role applies.',
  },
  default: {
    expects: '`refuse`, `keep`, `owner`, `admin`, `developer` or `viewer`',
    fallback: '`refuse`',
    help: 'What to do if no value matches: refuse the sign-in, keep the role, or assign this role.',
  },
  organization: {
    expects: 'an organization ID, or null',
    fallback: 'the first organization of the server',
    help: 'Organization in which to assign the role. Its ID is shown on its Settings page.',
  },
  operators: {
    expects: 'a list of values, or null',
    fallback: 'null',
    help: 'Values of the claim that grant operator rights. A user without any of them loses operator rights at sign-in; null = operator rights do not depend on the claim.',
  },
  scopes: {
    expects: 'a list of scopes',
    fallback: 'none',
    help: 'Additional scopes to request, if the provider needs them for the claim, for example `groups`.',
  },
};
