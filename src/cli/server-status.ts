// Asks the server that uses a data directory for its status.

import { existsSync } from 'node:fs';
import { request } from 'node:http';
import type { LocalStatus } from '../shared/wire/local-status.js';
import { statusSocketPath, withStatusSocket } from '../storage/status-socket-path.js';

const ANSWER_MS = 3_000;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Null if no server uses the data directory. Throws an Error if the user has no permission to connect to the server.
 */
export async function serverStatus(dataDir: string): Promise<LocalStatus | null> {
  if (!existsSync(statusSocketPath(dataDir))) return null;
  try {
    return JSON.parse(await withStatusSocket(dataDir, ask)) as LocalStatus;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A killed server leaves its socket behind.
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return null;
    throw new Error(`the server that uses ${dataDir} does not report its status: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function ask(socketPath: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path: '/status', timeout: ANSWER_MS }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        text += piece;
        if (text.length > MAX_BYTES) sent.destroy(new Error('the response is too long'));
      });
      response.on('error', reject);
      response.on('end', () => resolve(text));
    });
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${ANSWER_MS / 1_000} s`)));
    sent.on('error', reject);
    sent.end();
  });
}
