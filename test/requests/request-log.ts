// Tests that every implementation of RequestLog must pass.
import { type Test, default as t } from 'tap';
import type { RequestLog, RequestQuery } from '../../src/usage/requests/request-log.js';
import { NO_ORGANIZATION } from '../../src/shared/request-entry.js';
import type { RequestEntry } from '../../src/shared/request-entry.js';
import { MAX_UNKNOWN_CLIENT_ROWS } from '../../src/usage/requests/request-log.js';

export const NOW = Date.parse('2026-11-21T10:30:00Z');
const go = new AbortController().signal;
const SPACIOUS = { rows: 1_000_000, bytes: 2 ** 40 };

export const entry = (at: number, more: Partial<RequestEntry> = {}): RequestEntry => ({
  requestId: `req_${at}`,
  organizationId: 'org_a',
  keyId: 'key_a',
  model: 'hal-1.0',
  endpoint: '/v1/chat/completions',
  stream: true,
  status: 200,
  outcome: 'completed',
  code: null,
  finishReason: 'end_of_turn',
  receivedAt: NOW + at - 50,
  startedAt: NOW + at - 40,
  firstTokenAt: NOW + at - 30,
  endedAt: NOW + at,
  queueMs: 4,
  inputTokens: 100,
  cachedTokens: 60,
  outputTokens: 10,
  reasoningTokens: 4,
  images: 0,
  parameters: { messages: 1, temperature: 0.5 },
  text: null,
  ...more,
});

const query = (more: Partial<RequestQuery> = {}): RequestQuery => ({
  organizationId: 'org_a',
  keyId: null,
  model: null,
  outcome: null,
  ...more,
});
const text = {
  prompt: [{ role: 'user', text: 'Grüße' }],
  answer: [{ choice: 0, section: 'content', text: 'Hello' }],
  cut: false,
} as const;

async function all(log: RequestLog, asked: RequestQuery, limit: number): Promise<string[]> {
  const ids: string[] = [];
  for (let after: string | null = null; ; ) {
    const page = await log.list(asked, limit, after);
    ids.push(...page.rows.map(({ row }) => row.requestId));
    if (page.next === null) return ids;
    after = page.next;
  }
}

/** `open` returns a new, empty log that is removed when the test ends. */
export function requestLogTests(open: (t: Test) => Promise<RequestLog>): void {
  t.test('the log lists entries of one or all organizations, newest first, in pages, with filters', async (t) => {
    const log = await open(t);
    const entries = Array.from({ length: 60 }, (_, at) =>
      entry(at, {
        organizationId: at % 3 === 0 ? 'org_b' : 'org_a',
        keyId: `key_${at % 4}`,
        model: at % 5 === 0 ? null : 'hal-1.0',
        outcome: at % 10 === 0 ? 'refused' : 'completed',
      }),
    );
    await Promise.all([log.add(entries.slice(0, 30)), log.add(entries.slice(30))]);
    const expected = (fits: (one: RequestEntry) => boolean): string[] =>
      entries
        .filter(fits)
        .map(({ requestId }) => requestId)
        .reverse();
    t.same(
      await all(log, query(), 7),
      expected(({ organizationId }) => organizationId === 'org_a'),
    );
    t.same(
      await all(log, query({ organizationId: null }), 7),
      expected(() => true),
    );
    t.same(
      await all(log, query({ keyId: 'key_1' }), 2),
      expected(({ organizationId, keyId }) => organizationId === 'org_a' && keyId === 'key_1'),
    );
    t.same(
      await all(log, query({ organizationId: null, outcome: 'refused' }), 2),
      expected(({ outcome }) => outcome === 'refused'),
    );
    t.same(
      await all(log, query({ model: 'hal-1.0' }), 100),
      expected(({ organizationId, model }) => organizationId === 'org_a' && model === 'hal-1.0'),
    );
    t.same(await all(log, query({ organizationId: 'org_none' }), 100), []);
    await t.rejects(log.list(query(), 10, 'nothing'), { code: 'invalid_query_parameter' } as never);
    t.match(await log.size(), { rows: 60 });
  });

  t.test('the log is searched by request ID and by time, within one organization', async (t) => {
    const log = await open(t);
    await log.add(
      Array.from({ length: 20 }, (_, at) => entry(at, { organizationId: at % 2 === 0 ? 'org_a' : 'org_b' })),
    );
    const range = { from: NOW + 4, to: NOW + 9 };
    t.same(await all(log, query(range), 2), ['req_8', 'req_6', 'req_4'], 'the end is exclusive, the start is not');
    t.same(await all(log, query({ organizationId: null, to: NOW + 2 }), 100), ['req_1', 'req_0']);
    t.same(await all(log, query({ from: NOW + 18 }), 100), ['req_18']);
    t.same(await all(log, query({ requestId: 'req_6' }), 5), ['req_6']);
    t.same(await all(log, query({ organizationId: null, requestId: 'req_7' }), 5), ['req_7']);
    t.same(await all(log, query({ requestId: 'req_7' }), 5), [], "another organization's request is not found");
    t.same(await all(log, query({ requestId: 'req_6', outcome: 'failed' }), 5), [], 'other filters apply too');
    t.same(await all(log, query({ requestId: 'req_6', to: NOW + 6 }), 5), []);
    t.same(await all(log, query({ requestId: 'req_99' }), 5), []);
    await log.eraseOrganization('org_a');
    t.same(await all(log, query({ organizationId: null, requestId: 'req_6' }), 5), []);
  });

  t.test('entries without an organization are limited, and entries of earlier releases are readable', async (t) => {
    const log = await open(t);
    await log.add([entry(0), entry(1, { organizationId: NO_ORGANIZATION, keyId: '' })]);
    for (let from = 2; from < MAX_UNKNOWN_CLIENT_ROWS + 4; from += 2_000)
      await log.add(
        Array.from({ length: 2_000 }, (_, at) => entry(from + at, { organizationId: NO_ORGANIZATION, keyId: '' })),
      );
    const { rows } = await log.size();
    t.equal(await log.erase({ before: 0, ...SPACIOUS }, go), rows - 1 - MAX_UNKNOWN_CLIENT_ROWS);
    t.equal((await log.size()).rows, MAX_UNKNOWN_CLIENT_ROWS + 1);
    t.same(await all(log, query(), 100), ['req_0'], 'entries of organizations are kept');
    t.same(await all(log, query({ organizationId: null, requestId: 'req_1' }), 1), [], 'the oldest are erased');
  });

  t.test('an entry and its text are returned separately, and other organizations see neither', async (t) => {
    const log = await open(t);
    await log.add([entry(1, { text }), entry(2)]);
    const [youngest, first] = (await log.list(query(), 10, null)).rows;
    const { text: _none, ...known } = entry(1);
    t.match(await log.find('org_a', first!.id), { ...known, hasText: true });
    t.match(await log.find(null, first!.id), known);
    t.equal(await log.find('org_b', first!.id), null);
    t.equal(await log.text('org_b', first!.id), null);
    t.equal(await log.find('org_a', '12.req_x'), null);
    t.equal(await log.find('org_a', '../x'), null);
    t.same(await log.text('org_a', first!.id), text);
    t.equal(await log.text('org_a', youngest!.id), null);
    const { bytes } = await log.size();
    await log.eraseTexts('org_a');
    t.equal(await log.text('org_a', first!.id), null);
    t.match(await log.find('org_a', first!.id), { hasText: false });
    t.ok((await log.size()).bytes < bytes);
    t.match(await log.size(), { rows: 2 });
  });

  t.test('turning off text recording removes all texts of that organization and no others', async (t) => {
    const log = await open(t);
    await log.add(
      Array.from({ length: 1_200 }, (_, at) =>
        entry(at, { organizationId: at % 600 === 7 ? 'org_aa' : 'org_a', text }),
      ),
    );
    const { bytes } = await log.size();
    await log.eraseTexts('org_a');
    const kept = async (organizationId: string): Promise<number> => {
      let texts = 0;
      for (let after: string | null = null; ; ) {
        const page = await log.list(query({ organizationId }), 100, after);
        for (const { id, row } of page.rows) {
          if (row.hasText !== ((await log.text(organizationId, id)) !== null))
            t.fail('hasText does not match the stored text');
          if (row.hasText) texts++;
        }
        if (page.next === null) return texts;
        after = page.next;
      }
    };
    t.same([await kept('org_a'), await kept('org_aa')], [0, 2]);
    const each = (bytes - (await log.size()).bytes) / 1_198;
    t.equal(
      each,
      32 * (text.prompt.length + text.answer.length) +
        [...text.prompt, ...text.answer].reduce((sum, part) => sum + Buffer.byteLength(part.text), 0),
      'the size of the log drops by the bytes of the removed texts',
    );
  });

  t.test('the log is limited in days, rows and bytes, and the oldest entries over the limit are removed', async (t) => {
    const log = await open(t);
    await log.add(Array.from({ length: 1_300 }, (_, at) => entry(at, at < 100 ? { text } : {})));
    const stopped = new AbortController();
    stopped.abort();
    t.equal(await log.erase({ before: NOW + 10, ...SPACIOUS }, stopped.signal), 0, 'an aborted sweep removes nothing');
    t.equal(await log.erase({ before: NOW + 10, ...SPACIOUS }, go), 10);
    t.equal(await log.erase({ before: 0, rows: 500, bytes: SPACIOUS.bytes }, go), 790);
    t.same((await all(log, query(), 100)).at(-1), 'req_800');
    const { rows, bytes } = await log.size();
    t.equal(rows, 500);
    t.equal(await log.erase({ before: 0, rows: 500, bytes: bytes - 1 }, go), 1);
    t.equal(await log.erase({ before: 0, rows: 500, bytes }, go), 0);
    await log.erase({ before: NOW * 2, ...SPACIOUS }, go);
    t.same(await log.size(), { rows: 0, bytes: 0 }, 'the size of an empty log is zero');
  });

  t.test('removing an organization removes its entries', async (t) => {
    const log = await open(t);
    await log.add(
      Array.from({ length: 1_200 }, (_, at) => entry(at, { organizationId: at % 2 === 0 ? 'org_a' : 'org_aa', text })),
    );
    await log.eraseOrganization('org_a');
    t.same(await all(log, query(), 100), []);
    t.equal((await all(log, query({ organizationId: null }), 100)).length, 600);
    t.equal((await log.size()).rows, 600);
    await log.eraseOrganization('org_aa');
    t.same(await log.size(), { rows: 0, bytes: 0 });
  });
}
