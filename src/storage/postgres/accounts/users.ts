// Implements Users on the users, memberships, organizations, sessions and audit log tables.

import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import type { Page } from '../../../accounts/page.js';
import { changedRights, noSuchUser } from '../../../accounts/users.js';
import type { ListedUser, User, UserRights, Users } from '../../../accounts/users.js';
import { noteAudit } from './audit-log.js';
import { endSessions } from './session-rows.js';
import { changeUser, hasOtherOperator, userById, USER_COLUMNS, userOf } from './user-rows.js';
import type { UserRow } from './user-rows.js';
import type { AccountWork } from './work.js';

export class PostgresUsers implements Users {
  constructor(private readonly work: AccountWork) {}

  async get(id: string): Promise<User | null> {
    return (await userById(this.work.sql, id)) ?? null;
  }

  async page(limit: number, after: string | null): Promise<Page<ListedUser>> {
    const found = await this.work.sql.query<UserRow>(
      `SELECT ${USER_COLUMNS} FROM users WHERE id > $1 ORDER BY id LIMIT $2`,
      [after ?? '', limit + 1],
    );
    const data = found.slice(0, limit).map(userOf);
    return { data: await this.#listed(data), next: found.length > limit ? (data.at(-1)?.id ?? null) : null };
  }

  async change(id: string, rights: UserRights, by: string | null, actor: Actor): Promise<ListedUser> {
    const changed = await this.work.change(async (sql) => {
      const user = await userById(sql, id);
      if (user === undefined) throw noSuchUser();
      const other = await hasOtherOperator(sql, id);
      const next = changedRights(user, rights, by, () => other);
      if (next === null) return user;
      const { locked, operator } = next;
      if (locked !== user.locked)
        await noteAudit(sql, null, {
          actor,
          action: locked ? 'user.locked' : 'user.unlocked',
          target: id,
          detail: { email: user.email },
        });
      if (operator !== user.operator)
        await noteAudit(sql, null, {
          actor,
          action: operator ? 'user.operator_granted' : 'user.operator_withdrawn',
          target: id,
          detail: {
            email: user.email,
          },
        });
      if (locked && !user.locked) await endSessions(sql, id);
      return (await changeUser(sql, id, next)) ?? user;
    });
    return (await this.#listed([changed]))[0] as ListedUser;
  }

  async #listed(users: readonly User[]): Promise<ListedUser[]> {
    const rows = await this.work.sql.query<{ user_id: string; id: string; name: string; role: Role }>(
      `SELECT memberships.user_id, organizations.id, organizations.name, memberships.role FROM memberships
       JOIN organizations ON organizations.id = memberships.organization_id WHERE memberships.user_id = ANY($1) AND organizations.deleted_at IS NULL
       ORDER BY memberships.created_at, memberships.organization_id`,
      [users.map(({ id }) => id)],
    );
    return users.map((user) => ({
      user,
      organizations: rows.filter((row) => row.user_id === user.id).map(({ id, name, role }) => ({ id, name, role })),
    }));
  }
}
