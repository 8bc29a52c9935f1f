// Browser sessions, in the `sessions` table: ['hash', SHA-256 of the cookie] → session, and ['user', user, session] →
// that hash. The cookie's 256 random bits are not stored, so a copy of the database cannot be used to sign in. Nothing
// is cached, so a session that ends is immediately invalid on every thread.

import { newAccountId } from '../../../shared/ids.js';
import type { Store, Table } from '../../store.js';
import { walk } from '../../walk.js';
import {
  isCookie,
  MAX_SESSIONS,
  newCookie,
  SEEN_MS,
  sessionEnd,
  sessionHash,
  shownUserAgent,
} from '../../../accounts/sessions.js';
import type { Session } from '../../../accounts/sessions.js';

export class SessionTable {
  private readonly byHash: Table<Session>;
  private readonly byUser: Table<string>;

  constructor(
    private readonly store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.byHash = store.table('sessions');
    this.byUser = store.table('sessions');
  }

  /** Must be called within a transaction. `secret`: the cookie's value. */
  begin(userId: string, ip: string, userAgent: string): { secret: string; session: Session } {
    const others = this.ofUser(userId);
    for (const { hash } of others.slice(MAX_SESSIONS - 1)) this.remove(hash);
    const secret = newCookie();
    const now = this.now();
    const session: Session = {
      id: newAccountId('sess'),
      userId,
      createdAt: now,
      lastSeenAt: now,
      ip,
      userAgent: shownUserAgent(userAgent),
    };
    const hash = sessionHash(secret);
    void this.byHash.put(['hash', hash], session);
    void this.byUser.put(['user', userId, session.id], hash);
    return { secret, session };
  }

  /** The session for a cookie, while it is valid. */
  find(secret: string): Session | undefined {
    if (!isCookie(secret)) return undefined;
    // Makes other threads' commits visible to all reads of this request, even commits made since this event-loop turn
    // started.
    this.store.refresh();
    const session = this.byHash.get(['hash', sessionHash(secret)]);
    return session === undefined || this.isOver(session) ? undefined : session;
  }

  /**
   * Records that a session is being used. The write does not reach the disk immediately, and a failure does not affect
   * the request.
   */
  seen(secret: string, session: Session): void {
    const now = this.now();
    if (now - session.lastSeenAt < SEEN_MS) return;
    const hash = sessionHash(secret);
    void this.store
      .transaction(() => {
        const current = this.byHash.get(['hash', hash]);
        if (current !== undefined && current.lastSeenAt < now)
          void this.byHash.put(['hash', hash], { ...current, lastSeenAt: now });
      })
      .catch(() => undefined);
  }

  /** Most recently used first. */
  list(userId: string): Session[] {
    return this.ofUser(userId).map(({ session }) => session);
  }

  /** Must be called within a transaction. Returns false if the user does not have this session. */
  end(userId: string, id: string): boolean {
    const hash = this.byUser.get(['user', userId, id]);
    if (hash === undefined) return false;
    this.remove(hash);
    return true;
  }

  /** Must be called within a transaction. Ends all sessions of the user except `except`. */
  endAll(userId: string, except: string | null = null): void {
    for (const { session, hash } of this.ofUser(userId)) if (session.id !== except) this.remove(hash);
  }

  /** Erases ended sessions, in short transactions. */
  sweep(): Promise<void> {
    return walk(this.store, this.byHash, { from: ['hash'], to: ['hash', '\uffff'] }, (session, key) => {
      if (this.isOver(session)) this.remove((key as [string, string])[1]);
    });
  }

  private isOver(session: Session): boolean {
    return sessionEnd(session) <= this.now();
  }

  private ofUser(userId: string): { session: Session; hash: string }[] {
    return [...this.byUser.range({ from: ['user', userId], to: ['user', userId, '\uffff'] })]
      .flatMap(({ value: hash }) => {
        const session = this.byHash.get(['hash', hash]);
        return session === undefined || this.isOver(session) ? [] : [{ session, hash }];
      })
      .sort((a, b) => b.session.lastSeenAt - a.session.lastSeenAt);
  }

  private remove(hash: string): void {
    const session = this.byHash.get(['hash', hash]);
    if (session === undefined) return;
    void this.byHash.remove(['hash', hash]);
    void this.byUser.remove(['user', session.userId, session.id]);
  }
}
