// Where a request says it comes from, and where the dashboard is.

import type { Config } from '../config/settings.js';
import { apiError } from '../shared/errors.js';
import type { Exchange } from '../http/exchange.js';
import { isLoopback } from '../http/hosts.js';

export class DashboardOrigin {
  private readonly configured: URL | null;

  constructor(private readonly config: Config) {
    this.configured = config.dashboard.url === null ? null : new URL(config.dashboard.url);
  }

  /** Of the page as this request reaches it, without a slash at the end: for links shown to who asks. */
  base(exchange: Exchange): string {
    return this.fixed ?? `${this.isHttps(exchange) ? 'https' : 'http'}://${exchange.header('host')}`;
  }

  /** Of that the host alone, with its port. */
  host(exchange: Exchange): string {
    return this.configured?.host ?? exchange.header('host');
  }

  /** As configured, whatever a request says: for links in mail. Null: not configured. */
  get fixed(): string | null {
    return this.configured === null ? null : this.configured.href.replace(/\/+$/, '');
  }

  /** Cookies may be marked Secure: the browser talks TLS, to us or to what is in front of us. */
  isHttps(exchange: Exchange): boolean {
    return (
      this.configured?.protocol === 'https:' ||
      (this.config.http.trust_proxy && exchange.header('x-forwarded-proto').split(',').at(-1)?.trim() === 'https')
    );
  }

  /** Nobody but who is at this machine can reach the server, as far as the settings tell. */
  get isLocal(): boolean {
    const { config, configured } = this;
    // Names of its own are for those who come by way of a proxy or a tunnel.
    return (
      isLoopback(config.host) &&
      !config.http.trust_proxy &&
      config.http.allowed_hosts.every(isLoopback) &&
      (configured === null || isLoopback(configured.hostname))
    );
  }

  /** Throws ApiError 403 if the request comes of another site's page; `required`: also if it does not say. */
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
        ? "A changing request needs an Origin header: the dashboard's own."
        : "The Origin header is not the dashboard's. Where a proxy speaks https, the setting dashboard.url says how the dashboard is reached.",
    );
  }
}
