// Reasons why a provider sign-in can fail, as codes that are passed in the sign-in page's URL. The page maps each code
// to a message.

export type OidcFailure =
  | 'unreachable' // the provider is unreachable
  | 'failed' // the provider's response was invalid; details are in the log
  | 'denied' // the user or the provider refused
  | 'expired' // started too long ago, or in a different browser
  | 'no_email' // the provider sent no email address, or an unverified one
  | 'domain' // the domain of the address is not allowed
  | 'no_account' // no account has this address, and sign-up is closed
  | 'account_exists' // an account has this address but has not verified it
  | 'taken' // the identity is linked to a different account
  | 'first_user' // no account exists yet on this server
  | 'no_role' // no value of the claim in oidc.roles gives a role
  | 'locked'
  | 'invite' // the invitation is invalid or for a different address
  | 'too_many';

/** Thrown during the sign-in and shown on the sign-in page. */
export class OidcRefusal extends Error {
  constructor(
    readonly failure: OidcFailure,
    options?: ErrorOptions,
  ) {
    super(failure, options);
  }
}

/** Maximum number of characters for each part of a reason. */
const MAX_REASON = 300;

/**
 * Returns the reason for a failure, for the log. It consists only of error messages, because the attached provider
 * responses may contain tokens.
 */
export function reasonOf(error: unknown): string {
  const parts: string[] = [];
  for (let one = error; one instanceof Error && parts.length < 8; one = one.cause) {
    if (one instanceof SyntaxError) break; // messages from JSON.parse() quote the input, which may be a token
    parts.push(one.message);
    // The error code that the standard defines (RFC 6749, section 5.2).
    if ('error' in one && typeof one.error === 'string') parts.push(one.error);
    if ('error_description' in one && typeof one.error_description === 'string') parts.push(one.error_description);
  }
  return parts.map((part) => part.slice(0, MAX_REASON)).join(': ');
}
