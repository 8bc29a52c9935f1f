// Why a sign-in by the provider leads to nothing, as the page's address says it; the page has the words.

export type OidcFailure =
  | 'unreachable' // the provider could not be asked
  | 'failed' // its answer was not right: the log says what
  | 'denied' // the person said no there
  | 'expired' // begun too long ago, or in another browser
  | 'no_email' // it named no address, or none that it has seen to be theirs
  | 'domain' // not of a domain that may come in
  | 'no_account' // nobody here has the address, and accounts are not made
  | 'account_exists' // somebody here has it, and has not shown it to be theirs
  | 'taken' // that person there is somebody else here
  | 'first_user' // nobody has signed up yet
  | 'locked'
  | 'invite' // the invitation is not valid, or for another address
  | 'too_many';

/** Thrown on the way, shown at the sign-in. */
export class OidcRefusal extends Error {
  constructor(
    readonly failure: OidcFailure,
    options?: ErrorOptions,
  ) {
    super(failure, options);
  }
}

/** Characters of each part. */
const MAX_REASON = 300;

/** What went wrong, for the log: in the words of the errors alone, because what the provider sent hangs on them, tokens among it. */
export function reasonOf(error: unknown): string {
  const parts: string[] = [];
  for (let one = error; one instanceof Error && parts.length < 8; one = one.cause) {
    if (one instanceof SyntaxError) break; // of JSON.parse(): its words are those of the text, which may be a token
    parts.push(one.message);
    // What the standard has for it (RFC 6749, section 5.2).
    if ('error' in one && typeof one.error === 'string') parts.push(one.error);
    if ('error_description' in one && typeof one.error_description === 'string') parts.push(one.error_description);
  }
  return parts.map((part) => part.slice(0, MAX_REASON)).join(': ');
}
