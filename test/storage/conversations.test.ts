// Tests conversations in a real LMDB database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { newConversationId } from '../../src/shared/ids.js';
import { LmdbConversationStore } from '../../src/storage/lmdb/conversations/conversation-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { TABLES } from '../../src/storage/store.js';
import { conversationStoreTests } from './conversation-store.js';
import { message, START } from './records.js';

t.setTimeout(300_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-conversations-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const clock = { now: START };
const open = (): LmdbConversationStore =>
  new LmdbConversationStore(store, { retention_days: 30, max_conversations: 50 }, { now: () => clock.now });
const rows = async (): Promise<number> =>
  TABLES.filter((name) => name.startsWith('conversation')).reduce(
    (sum, name) => sum + [...store.table(name).keys()].length,
    0,
  );

conversationStoreTests({ conversations: open(), clock, rows });

t.test('a sweep finishes an erasure that was interrupted', async (t) => {
  const conversations = open();
  const id = newConversationId();
  await conversations.create({ id, organizationId: 'org_a', createdAt: START, metadata: {} }, [message('user', [])]);
  await store.transaction(() => {
    void store.table('conversations').remove(id);
    void store.table('conversations-by-organization').remove(['org_a', id]);
    void store.table('conversation-counts').remove('org_a');
    void store.table('conversation-times').remove(['used', START, id]);
    void store.table('conversation-times').put(['erase', 0, id], []);
  });
  t.equal(await conversations.sweep(), 0);
  t.equal(await rows(), 0);
});
