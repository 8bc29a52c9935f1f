// Who signs up first becomes the operator. Where more than this machine can reach the server, that must be who
// started it: the first sign-up needs the code that the start shows. Row `setup-code` of the table `secrets`,
// until there is a user.

import { timingSafeEqual } from 'node:crypto';
import { base62 } from '../../../shared/ids.js';
import type { Store, Table } from '../../store.js';
import { SETUP_CODE_CHARACTERS } from '../../../accounts/sign-ups.js';

const ROW = 'setup-code';

export class SetupCode {
  private readonly secrets: Table<string>;

  constructor(store: Store) {
    this.secrets = store.table('secrets');
  }

  /** Within a transaction. The code, made if there is none. The same after a restart: links that were shown stay good. */
  ensure(): string {
    const known = this.secrets.get(ROW);
    if (known !== undefined) return known;
    const made = base62(SETUP_CODE_CHARACTERS);
    void this.secrets.put(ROW, made);
    return made;
  }

  matches(given: string): boolean {
    const code = this.secrets.get(ROW);
    if (code === undefined) return false;
    const [a, b] = [Buffer.from(given), Buffer.from(code)];
    return a.length === b.length && timingSafeEqual(a, b);
  }

  /** Within a transaction. */
  remove(): void {
    void this.secrets.remove(ROW);
  }
}
