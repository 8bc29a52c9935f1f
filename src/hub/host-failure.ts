// Failures to reach a host, and how often the request is attempted. A host that has never responded is probably
// mistyped, offline or behind a firewall, so waiting does not help. A host that has responded before is likely to
// recover.

import { printable } from './hub-error.js';

/** Error codes for an unresolvable host name. */
const UNKNOWN = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_NONAME', 'ERR_INVALID_URL']);
/** Error codes if the host, or the network, refuses the connection or does not respond. */
const REFUSED = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL']);
/** Error code for a connection that timed out, after 10 seconds. */
const TIMED_OUT = 'UND_ERR_CONNECT_TIMEOUT';
/** The message of fetch() if it refuses the port, such as 9 or 6000. */
const BLOCKED = 'bad port';

/** A request failed before there was a response. */
export class HostFailure extends Error {
  readonly code: string;

  constructor(
    readonly origin: string,
    failure: unknown,
  ) {
    const cause = failure instanceof Error && failure.cause instanceof Error ? failure.cause : failure;
    const { message, code = '' } = cause as NodeJS.ErrnoException;
    super(textOf(code, message || code || String(cause)), { cause: failure });
    this.code = code;
  }

  /** Number of attempts for a request whose host has never responded. `usual`: number of attempts for other hosts. */
  attempts(usual: number): number {
    if (UNKNOWN.has(this.code) || this.code === TIMED_OUT || this.message === BLOCKED) return 1;
    return REFUSED.has(this.code) ? Math.min(2, usual) : usual;
  }
}

function textOf(code: string, message: string): string {
  if (code === 'ENOTFOUND') return 'the host name is unknown (ENOTFOUND)';
  if (code === 'EAI_AGAIN') return 'the host name cannot be looked up: no DNS server answers (EAI_AGAIN)';
  if (code === 'ECONNREFUSED') return 'the connection was refused (ECONNREFUSED)';
  return printable(message);
}
