// The user's home directory, which is used to expand ~ in settings and to locate defaults.
import { homedir } from 'node:os';
import { resolve } from 'node:path';

/**
 * The user's home directory, from $HOME or the user database. If neither specifies one, as in some containers, it is
 * `/`, so that a server that runs as a systemd dynamic user or a bare user ID works if its directories are configured
 * explicitly.
 */
export function home(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}

/**
 * A path in absolute form. ~ expands to the home directory. Relative paths are resolved against the working directory.
 */
export function expanded(path: string): string {
  return resolve(path.replace(/^~(?=\/|$)/, home()));
}
