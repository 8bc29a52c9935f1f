// Requests the status of the server that uses a data directory, and sends prompt-cache commands to this server.

import { existsSync } from 'node:fs';
import { request } from 'node:http';
import type { LocalStatus } from '../shared/wire/local-status.js';
import type { PromptCacheAnswer, PromptCacheCommand } from '../shared/wire/prompt-cache.js';
import { statusSocketPath, withStatusSocket } from '../storage/status-socket-path.js';

const ANSWER_MS = 3_000;
/** Timeout of a prompt-cache command, in ms. Prefilling a long prompt can take minutes. */
const COMMAND_MS = 900_000;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Returns null if no server uses the data directory. Throws an Error if the user has no permission to connect to the
 * server.
 */
export async function serverStatus(dataDir: string): Promise<LocalStatus | null> {
  if (!existsSync(statusSocketPath(dataDir))) return null;
  try {
    return JSON.parse(await withStatusSocket(dataDir, (path) => ask(path, STATUS))) as LocalStatus;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A server that was killed leaves its socket behind.
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return null;
    throw new Error(`the server that uses ${dataDir} does not report its status: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * Sends a command to the server and returns the response, or null if no server uses the data directory. Throws an Error
 * if the user has no permission to connect to the server, or if the server exits before it responds.
 */
export async function promptCacheAnswer(
  dataDir: string,
  command: PromptCacheCommand,
): Promise<PromptCacheAnswer | null> {
  if ((await serverStatus(dataDir)) === null) return null;
  const asked = { method: 'POST', path: '/prompt-cache', body: JSON.stringify(command), answerMs: COMMAND_MS };
  return JSON.parse(await withStatusSocket(dataDir, (path) => ask(path, asked))) as PromptCacheAnswer;
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly answerMs: number;
}
const STATUS: Asked = { method: 'GET', path: '/status', body: '', answerMs: ANSWER_MS };

function ask(socketPath: string, { method, path, body, answerMs }: Asked): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, timeout: answerMs }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        text += piece;
        if (text.length > MAX_BYTES) sent.destroy(new Error('the response is too long'));
      });
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`the server responded with status ${response.statusCode}`));
      });
    });
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${answerMs / 1_000} s`)));
    sent.on('error', reject);
    sent.end(body);
  });
}
