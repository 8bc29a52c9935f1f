// Headers for downloads of clients' files.
import type { Exchange } from './exchange.js';

/** Makes a browser save the response under this name instead of displaying it as a page from this server. */
export function setAttachment(exchange: Pick<Exchange, 'setHeader'>, filename: string): void {
  exchange.setHeader('Content-Disposition', `attachment; filename*=UTF-8''${encodedName(filename)}`);
  exchange.setHeader('X-Content-Type-Options', 'nosniff');
}

const encodedName = (name: string): string =>
  encodeURIComponent(Buffer.from(name).toString()).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
