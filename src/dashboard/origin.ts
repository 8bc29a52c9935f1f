// The dashboard's address, and the check of a request's Origin header.

import type { Config } from '../config/settings.js';
import { apiError } from '../shared/errors.js';
import type { Exchange } from '../http/exchange.js';
import { isLoopback } from '../http/hosts.js';

export class DashboardOrigin {
  private readonly configured: URL | null;

  constructor(private readonly config: Config) {
    this.configured = config.dashboard.url === null ? null : new URL(config.dashboard.url);
  }

  /**
   * The dashboard's address as seen by the client of this request, without a trailing slash. For links shown to that
   * user.
   */
  base(exchange: Exchange): string {
    return this.fixed ?? `${this.isHttps(exchange) ? 'https' : 'http'}://${exchange.header('host')}`;
  }

  /** The host in that address, including the port. */
  host(exchange: Exchange): string {
    return this.configured?.host ?? exchange.header('host');
  }

  /** The configured address, regardless of the request; null if none is configured. For links in email. */
  get fixed(): string | null {
    return this.configured === null ? null : this.configured.href.replace(/\/+$/, '');
  }

  /**
   * Whether the browser connects over TLS, to this server or to a proxy in front of it. If so, cookies can be marked
   * Secure.
   */
  isHttps(exchange: Exchange): boolean {
    return (
      this.configured?.protocol === 'https:' ||
      (this.config.http.trust_proxy && exchange.header('x-forwarded-proto').split(',').at(-1)?.trim() === 'https')
    );
  }

  /** Whether, according to the configuration, only this machine can reach the server. */
  get isLocal(): boolean {
    const { config, configured } = this;
    // A configured host name means that clients connect through a proxy or tunnel.
    return (
      isLoopback(config.host) &&
      !config.http.trust_proxy &&
      config.http.allowed_hosts.every(isLoopback) &&
      (configured === null || isLoopback(configured.hostname))
    );
  }

  /**
   * Throws ApiError 403 if the request comes from another site's page. If `required` is set, also throws if there is no
   * Origin header.
   */
  check(exchange: Exchange, required: boolean): void {
    const origin = exchange.header('origin');
    if (origin === '' && !required) return;
    if (
      origin !== '' &&
      (origin === this.configured?.origin ||
        origin === `${this.isHttps(exchange) ? 'https' : 'http'}://${exchange.header('host')}`)
    )
      return;
    throw apiError(
      'invalid_csrf_token',
      origin === ''
        ? 'Requests that change something need an Origin header that matches the dashboard.'
        : "The Origin header does not match the dashboard. If a proxy terminates TLS, set dashboard.url to the dashboard's public address.",
    );
  }
}
