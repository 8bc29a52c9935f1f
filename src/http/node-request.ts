// A transport's view of an http.IncomingMessage.

import { IncomingMessage } from 'node:http';
import type { TransportRequest } from './transport.js';

const asked = Symbol('upgrade');

export const wantsWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';

/**
 * Node.js versions before 24.9 pass every request with an Upgrade header to the `upgrade` event, without its body. Java
 * clients offer an upgrade to HTTP/2 with each request. Therefore, only WebSocket handshakes are passed on as upgrades;
 * all other requests are treated as ordinary.
 */
export class NodeIncoming extends IncomingMessage {
  declare [asked]: boolean;

  get upgrade(): boolean {
    return this[asked] && (this.method === 'CONNECT' || wantsWebSocket(this));
  }

  set upgrade(upgrade: boolean | null) {
    this[asked] = upgrade === true;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Node.js decodes header bytes as Latin-1. Returns '' if the bytes are not UTF-8. */
function decoded(value: string): string {
  if (!/[\x80-\xff]/.test(value)) return value;
  try {
    return utf8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return '';
  }
}

export class NodeRequest implements TransportRequest {
  private readonly path: string;
  private readonly query: string;
  /** The host of an absolute-form target, which replaces the Host header (RFC 9112, section 3.2.2). */
  private readonly authority: string | null;

  constructor(private readonly incoming: IncomingMessage) {
    const { url = '' } = incoming;
    const absolute = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)(.*)$/i.exec(url);
    this.authority = absolute?.[1] ?? null;
    const target = absolute?.[2] ?? url;
    const at = target.indexOf('?');
    const path = at < 0 ? target : target.slice(0, at);
    this.path = path === '' ? '/' : path;
    this.query = at < 0 ? '' : target.slice(at + 1);
  }

  getMethod(): string {
    return this.incoming.method ?? '';
  }

  getUrl(): string {
    return this.path;
  }

  getQuery(): string {
    return this.query;
  }

  getHeader(wanted: string): string {
    let found = '';
    this.forEach((name, value) => {
      if (name === wanted && found === '') found = value;
    });
    return found;
  }

  forEach(callback: (name: string, value: string) => void): void {
    const { rawHeaders } = this.incoming;
    let hosts = 0;
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      const name = (rawHeaders[i] as string).toLowerCase();
      if (name !== 'host') callback(name, decoded(rawHeaders[i + 1] as string));
      else {
        hosts++;
        callback(name, this.authority ?? decoded(rawHeaders[i + 1] as string));
      }
    }
    if (hosts === 0 && this.authority !== null) callback('host', this.authority);
  }
}
