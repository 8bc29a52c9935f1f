// The lines typed in earlier conversations, for the arrow keys. Kept in a file that only the user can read.

import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { home } from '../config/home.js';
import { makeFolder } from '../shared/make-folder.js';

/** Limits on the history. When a limit is exceeded, the oldest lines are dropped. */
const MAX_LINES = 1_000;
const MAX_LINE_LENGTH = 4_000;
const MAX_BYTES = 1_048_576;

/** `$XDG_STATE_HOME/monolith/chat-history`, by default in ~/.local/state. */
export function historyPath(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const state = env['XDG_STATE_HOME'] ?? '';
  return join(state === '' ? join(home(), '.local', 'state') : state, 'monolith', 'chat-history');
}

/** Returns the lines, oldest first, or an empty list if the file cannot be read. */
export function readHistory(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .slice(-MAX_BYTES)
      .split('\n')
      .filter((line) => line !== '')
      .slice(-MAX_LINES);
  } catch {
    return [];
  }
}

/**
 * Appends lines, oldest first. Reads the file again, because another conversation may have written to it. If the file
 * cannot be written, the lines are lost and the conversation continues.
 */
export function appendHistory(path: string, lines: readonly string[]): void {
  const added = lines
    .map((line) => line.replaceAll('\n', ' '))
    .filter((line) => line.trim() !== '' && line.length <= MAX_LINE_LENGTH);
  if (added.length === 0) return;
  const temporary = `${path}.${process.pid}.new`;
  try {
    makeFolder(dirname(path), 0o700);
    let kept = [...readHistory(path), ...added].slice(-MAX_LINES);
    while (Buffer.byteLength(kept.join('\n')) >= MAX_BYTES) kept = kept.slice(Math.ceil(kept.length / 4));
    writeFileSync(temporary, `${kept.join('\n')}\n`, { mode: 0o600 });
    chmodSync(temporary, 0o600);
    renameSync(temporary, path);
  } catch {
    rmSync(temporary, { force: true });
  }
}
