// Where settings that begin with ~, and defaults in the user's folder, lead.
import { homedir } from 'node:os';

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
