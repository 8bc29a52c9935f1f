// The `users` and `users-by-email` tables. Reads return committed data. Methods that write must be called within a
// transaction.

import { newAccountId } from '../../../shared/ids.js';
import type { Store, Table } from '../../store.js';
import type { User } from '../../../accounts/users.js';

export interface NewUser {
  email: string;
  name: string;
  passwordHash: string;
  operator: boolean;
}

/** Longer addresses cannot exist, and LMDB limits key length. */
const MAX_EMAIL = 320;
const PAGE = 256;

export class UserTable {
  private readonly users: Table<User>;
  private readonly byEmail: Table<string>;

  constructor(store: Store) {
    this.users = store.table('users');
    this.byEmail = store.table('users-by-email');
  }

  get(id: string): User | undefined {
    return this.users.get(id);
  }

  /** `email`: as returned by normalEmail(). */
  withEmail(email: string): User | undefined {
    const id = email.length > MAX_EMAIL ? undefined : this.byEmail.get(email);
    return id === undefined ? undefined : this.users.get(id);
  }

  /** Whether there are no users yet. */
  get none(): boolean {
    // The iteration is not ended early, because an unfinished iteration occupies one of the database's few reader
    // slots.
    return [...this.users.keys({ limit: 1 })].length === 0;
  }

  /** Ordered by ID, starting after `after`. */
  list(limit: number, after: string | null): User[] {
    const found = this.users.range(after === null ? { limit } : { from: after, limit: limit + 1 });
    return [...found]
      .map(({ value }) => value)
      .filter(({ id }) => id !== after)
      .slice(0, limit);
  }

  /** Must be called within a transaction. Returns null if the address is taken. */
  create(user: NewUser): User | null {
    if (this.byEmail.get(user.email) !== undefined) return null;
    const now = new Date().toISOString();
    const created: User = {
      id: newAccountId('user'),
      ...user,
      emailVerified: false,
      locked: false,
      createdAt: now,
      lastLoginAt: now, // signing up signs in
    };
    void this.users.put(created.id, created);
    void this.byEmail.put(created.email, created.id);
    return created;
  }

  /** Must be called within a transaction. Returns undefined if not found or deleted. */
  change(id: string, patch: Partial<Omit<User, 'id' | 'email' | 'createdAt'>>): User | undefined {
    const user = this.users.get(id);
    if (user === undefined) return undefined;
    const changed = { ...user, ...patch };
    void this.users.put(id, changed);
    return changed;
  }

  /**
   * Must be called within a transaction. Returns undefined if the address is taken, or if the user does not exist or
   * has been deleted.
   */
  changeEmail(id: string, email: string, emailVerified: boolean): User | undefined {
    const user = this.users.get(id);
    if (user === undefined || this.byEmail.get(email) !== undefined) return undefined;
    const changed = { ...user, email, emailVerified };
    void this.byEmail.remove(user.email);
    void this.byEmail.put(email, id);
    void this.users.put(id, changed);
    return changed;
  }

  /** Must be called within a transaction. */
  remove(id: string): void {
    const user = this.users.get(id);
    if (user === undefined) return;
    void this.byEmail.remove(user.email);
    void this.users.remove(id);
  }

  /** Whether there is another operator who can sign in. */
  hasOtherOperator(id: string): boolean {
    for (let after: string | null = null; ; ) {
      const page: User[] = this.list(PAGE, after);
      if (page.some((user) => user.id !== id && user.operator && !user.locked)) return true;
      if (page.length < PAGE) return false;
      after = page.at(-1)?.id ?? null;
    }
  }
}
