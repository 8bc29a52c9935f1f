// Chooses the HTTP server (http.server) and opens its transport.

import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';
import { sharesPorts } from './node-threads.js';
import { NodeTransport } from './node-transport.js';
import type { Transport, TransportHandlers } from './transport.js';
import { UwsTransport } from './uws-transport.js';
import { loadUws } from './uws.js';

export interface ServerChoice {
  server: 'uws' | 'node';
  /** Why uWebSockets.js is not used, although the setting `auto` prefers it. */
  reason: string | null;
}

/** Throws StartError if the configured server cannot be used. */
export function chooseServer(http: Config['http']): ServerChoice {
  let reason: string | null = null;
  if (http.server !== 'node') {
    try {
      loadUws(http.max_header_bytes, http.library);
      return { server: 'uws', reason };
    } catch (error) {
      if (!(error instanceof StartError)) throw error;
      reason = error.message;
      if (http.server === 'uws' || http.library !== null)
        throw new StartError(`${reason} Set http.server to "node", or http.library to the path of another binary.`);
    }
  }
  if (http.threads > 1 && !sharesPorts())
    throw new StartError(
      `http.threads: several threads with http.server "node" need Node.js 22.12 or later (this is ${process.version}). Set http.threads to 1.${reason === null ? '' : ` uWebSockets.js cannot be used: ${reason}`}`,
    );
  return { server: 'node', reason };
}

export function openTransport(http: Config['http'], handlers: TransportHandlers): Transport {
  return chooseServer(http).server === 'uws'
    ? new UwsTransport(loadUws(http.max_header_bytes, http.library).uws, handlers)
    : new NodeTransport(handlers, { maxHeaderBytes: http.max_header_bytes, idleMs: http.idle_ms });
}
