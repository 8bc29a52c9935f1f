// The first user to sign up becomes the operator. If other machines can reach the server, this must be the person who
// started it, so the first sign-up requires the code shown at startup. Stored in the `setup-code` row of the `secrets`
// table until a user exists.

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

  /**
   * Must be called within a transaction. Returns the code, creating it if needed. It survives restarts, so that links
   * shown earlier stay valid.
   */
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

  /** Must be called within a transaction. */
  remove(): void {
    void this.secrets.remove(ROW);
  }
}
