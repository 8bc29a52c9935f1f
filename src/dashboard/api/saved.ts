// …/playground/saved: saved playground presets and conversations, both the user's own and those shared by members of
// the organization. A link contains the item's ID. It works only for members of the organization and, except for the
// owner, only while the item is shared. Names and contents are encrypted and bound to the organization and the ID, so a
// row cannot be read without the server's keys or copied to another ID.

import { z } from 'zod';
import { hasRole } from '../../accounts/members.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { newAccountId } from '../../shared/ids.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { SavedContent, SavedItem } from '../../shared/wire/playground.js';
import type { AuditLog } from '../../accounts/audit.js';
import type { SecretBox } from '../../accounts/sealing/secret-box.js';
import type { Users } from '../../accounts/users.js';
import type { SavedRow, SavedStore } from '../saved/saved-store.js';
import { dateField } from './key-fields.js';
import { readWhole } from './read-whole.js';
import type { Guard } from './guard.js';

const LIST = '/organizations/:org/playground/saved';
const PURPOSE = 'saved text';
/** Maximum length of the content, in characters of JSON. */
const MAX_CHARACTERS = 400_000;
const MAX_BODY_BYTES = 2 * 1024 * 1024;
/** Maximum number of names that are decrypted per event-loop turn. */
const OPENED_AT_ONCE = 100;

const text = z.string().max(MAX_CHARACTERS);
const short = z.string().max(256);
const number = z.number().min(0).max(1e12).nullable();
const turn = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('user'), text }),
  z.strictObject({
    kind: z.literal('answer'),
    model: short,
    text,
    reasoning: text,
    finish_reason: short.nullable(),
    calls: z.array(z.strictObject({ id: short, name: short, arguments: text })).max(128),
    results: z.record(short, text),
    usage: z
      .strictObject({ prompt: z.number(), cached: z.number(), completion: z.number(), reasoning: z.number() })
      .nullable(),
    first_ms: number,
    total_ms: number,
  }),
]);
const content = z.strictObject({
  settings: z.record(short, text),
  columns: z
    .array(z.strictObject({ model: short, turns: z.array(turn).max(1_000) }))
    .min(1)
    .max(4),
}) satisfies z.ZodType<SavedContent>;
const name = z.string().trim().min(1).max(128);
const createBody = z.object({
  kind: z.enum(['preset', 'conversation']),
  name,
  content,
  shared: z.boolean().default(false),
  expires_at: dateField.nullish(),
});
const changeBody = z.object({
  name: name.optional(),
  content: content.optional(),
  shared: z.boolean().optional(),
  expires_at: dateField.nullish(),
});

export interface SavedDeps {
  guard: Guard;
  saved: SavedStore;
  box: SecretBox;
  users: Pick<Users, 'get'>;
  audit: Pick<AuditLog, 'note'>;
}

export function savedRoutes({ guard, saved, box, users, audit }: SavedDeps): Route[] {
  const seal = (organizationId: string, id: string, part: 'name' | 'content', value: string): string =>
    box.seal(PURPOSE, `${organizationId} ${id} ${part}`, value);
  const open = (organizationId: string, id: string, part: 'name' | 'content', sealed: string): string | null =>
    box.open(PURPOSE, `${organizationId} ${id} ${part}`, sealed)?.text ?? null;
  const sealContent = (organizationId: string, id: string, value: SavedContent): string => {
    const json = JSON.stringify(value);
    if (json.length > MAX_CHARACTERS)
      throw apiError('invalid_value', `content must be at most ${MAX_CHARACTERS} characters as JSON.`, 'content');
    return seal(organizationId, id, 'content', json);
  };
  const shown = async (
    { id, organizationId, kind, sealedName, shared, userId, createdAt, expiresAt }: SavedRow,
    reader: string,
  ): Promise<SavedItem> => ({
    id,
    kind,
    name: open(organizationId, id, 'name', sealedName) ?? '(encrypted with a lost key)',
    shared,
    own: userId === reader,
    by: (await users.get(userId))?.name ?? '',
    created_at: new Date(createdAt).toISOString(),
    expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
  });
  const missing = (): Error => apiError('resource_not_found', 'Saved item not found.', 'id');
  const find = async (
    organizationId: string,
    id: string,
    reader: string,
  ): Promise<{ row: SavedRow; sealedContent: string }> => {
    const found = await saved.get(organizationId, id);
    if (found === null || !(found.row.shared || found.row.userId === reader)) throw missing();
    return found;
  };
  const timeOf = (date: Date | null | undefined): number | null => {
    if (date == null) return null;
    if (date.getTime() <= Date.now())
      throw apiError('invalid_value', 'expires_at must be in the future.', 'expires_at');
    return date.getTime();
  };

  return [
    guard.member('viewer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization, user }) => {
        const rows = (await readWhole(exchange, () => saved.list(organization.id))).filter(
          ({ shared, userId }) => shared || userId === user.id,
        );
        const data: SavedItem[] = [];
        for (let at = 0; at < rows.length; at += OPENED_AT_ONCE) {
          data.push(
            ...(await readWhole(exchange, () =>
              Promise.all(rows.slice(at, at + OPENED_AT_ONCE).map((row) => shown(row, user.id))),
            )),
          );
        }
        const list: ListPage<SavedItem> = { object: 'list', data, has_more: false, next: null };
        exchange.json(200, list);
      },
    }),

    guard.member('developer', {
      method: 'POST',
      path: LIST,
      body: createBody,
      maxBodyBytes: MAX_BODY_BYTES,
      handler: async ({ exchange, organization: { id: organizationId }, user, actor, body }) => {
        const id = newAccountId('sav');
        const row: SavedRow = {
          id,
          organizationId,
          userId: user.id,
          kind: body.kind,
          sealedName: seal(organizationId, id, 'name', body.name),
          shared: body.shared,
          createdAt: Date.now(),
          expiresAt: timeOf(body.expires_at),
        };
        await saved.add(row, sealContent(organizationId, id, body.content));
        if (row.shared) await audit.note(organizationId, actor, `${row.kind}.shared`, id);
        exchange.json(200, await shown(row, user.id));
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: `${LIST}/:id`,
      handler: async ({ exchange, organization, user }) => {
        exchange.json(
          200,
          await readWhole(exchange, async () => {
            const { row, sealedContent } = await find(organization.id, exchange.params['id'] as string, user.id);
            const json = open(organization.id, row.id, 'content', sealedContent);
            if (json === null) throw missing();
            // The content is already JSON.
            return new JsonText()
              .add(`${JSON.stringify(await shown(row, user.id)).slice(0, -1)},"content":`)
              .add(json)
              .add('}');
          }),
        );
      },
    }),

    guard.member('developer', {
      method: 'PATCH',
      path: `${LIST}/:id`,
      body: changeBody,
      maxBodyBytes: MAX_BODY_BYTES,
      handler: async ({ exchange, organization: { id: organizationId }, user, actor, body }) => {
        const {
          row: { id, kind, userId, shared },
        } = await find(organizationId, exchange.params['id'] as string, user.id);
        if (userId !== user.id) throw apiError('role_not_allowed', 'Only the owner can change a saved item.');
        const row = await saved.change(organizationId, id, {
          ...(body.name === undefined ? {} : { sealedName: seal(organizationId, id, 'name', body.name) }),
          ...(body.content === undefined ? {} : { sealedContent: sealContent(organizationId, id, body.content) }),
          ...(body.shared === undefined ? {} : { shared: body.shared }),
          ...(body.expires_at === undefined ? {} : { expiresAt: timeOf(body.expires_at) }),
        });
        if (row === null) throw missing();
        if (row.shared !== shared)
          await audit.note(organizationId, actor, `${kind}.${row.shared ? 'shared' : 'unshared'}`, id);
        exchange.json(200, await shown(row, user.id));
      },
    }),

    // Admins can also delete items shared by others.
    guard.member('viewer', {
      method: 'DELETE',
      path: `${LIST}/:id`,
      handler: async ({ exchange, organization, user, role, actor }) => {
        const { row } = await find(organization.id, exchange.params['id'] as string, user.id);
        if (row.userId !== user.id && !hasRole(role, 'admin'))
          throw apiError('role_not_allowed', 'Only the owner or an admin can delete a saved item.');
        await saved.remove(organization.id, row.id);
        if (row.shared) await audit.note(organization.id, actor, `${row.kind}.unshared`, row.id);
        exchange.json(200, {});
      },
    }),
  ];
}
