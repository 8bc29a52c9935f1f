// Support for systemd, which sets NOTIFY_SOCKET when it starts the server. The server reports its state, for units with
// Type=notify, and keeps its first secrets out of the journal.
import { execFile } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../telemetry/types.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** How long systemd may take to accept a message. */
const PATIENCE_MS = 5_000;

export const inSystemd = (environment: Environment): boolean => Boolean(environment['NOTIFY_SOCKET']);

/**
 * Reports the state to systemd; does nothing without systemd. Node.js does not support Unix datagram sockets, so
 * `systemd-notify` sends the message, which the unit must allow (NotifyAccess=all). Never rejects: a failure is logged,
 * and systemd aborts the start at its timeout.
 */
export function notifySystemd(
  state: 'READY=1' | 'STOPPING=1',
  log: Pick<Log, 'warn'>,
  environment: Environment = process.env,
): Promise<void> {
  if (!inSystemd(environment)) return Promise.resolve();
  return new Promise((resolve) => {
    execFile('systemd-notify', [state], { env: environment, timeout: PATIENCE_MS }, (error) => {
      if (error !== null) log.warn({ err: error, state }, 'systemd was not notified');
      resolve();
    });
  });
}

/** Writes the text to a file in the data directory that only the server's user can read. Returns its path. */
export function keepFirstStart(dataDir: string, text: string): string {
  const path = join(dataDir, 'first-start.txt');
  writeFileSync(path, text, { mode: 0o600 });
  chmodSync(path, 0o600); // the file may have existed
  return path;
}
