// Why a sign-in by the provider leads to nothing, as the page's address says it; the page has the words.

export type OidcFailure =
  | 'unreachable'        // the provider could not be asked
  | 'failed'             // its answer was not right: the log says what
  | 'denied'             // the person said no there
  | 'expired'            // begun too long ago, or in another browser
  | 'no_email'           // it named no address, or none that it has seen to be theirs
  | 'domain'             // not of a domain that may come in
  | 'no_account'         // nobody here has the address, and accounts are not made
  | 'account_exists'     // somebody here has it, and has not shown it to be theirs
  | 'taken'              // that person there is somebody else here
  | 'first_user'         // nobody has signed up yet
  | 'locked'
  | 'invite'             // the invitation is not valid, or for another address
  | 'too_many';

/** Thrown on the way, shown at the sign-in. */
export class OidcRefusal extends Error {
  constructor(readonly failure: OidcFailure, options?: ErrorOptions) {
    super(failure, options);
  }
}
