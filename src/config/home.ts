// Where settings that begin with ~, and defaults in the user's folder, lead.
import { homedir } from 'node:os';
import { resolve } from 'node:path';

/**
 * The user's home, as $HOME or the list of users says. A user who is in no such list has `/`, as container engines give it: systemd's
 * dynamic users and numbers that stand for nobody are served as anybody is, as long as the folders they need are named.
 */
export function home(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}

/** A path as it was given, absolute: from the home where it begins with ~, else from the folder this runs in. */
export function expanded(path: string): string {
  return resolve(path.replace(/^~(?=\/|$)/, home()));
}
