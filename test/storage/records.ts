// Small stored responses for tests, with items that can be told apart.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newItemId, newResponseId } from '../../src/shared/ids.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import type { ResponseRecord, ResponseStore, StoredItem } from '../../src/storage/response-store.js';
import type { Store, TableName } from '../../src/storage/store.js';

export const DAY = 86_400;
export const START = 1_789_000_000;

/** Creates a response with one input message and one output message. */
export function record(change: Partial<ResponseRecord> = {}, text = 'four'): ResponseRecord {
  const id = change.id ?? newResponseId();
  const input = change.input ?? [message('user', [{ type: 'input_text', text: '2+2?' }])];
  const output = change.output ?? [
    message('assistant', [{ type: 'output_text', text, annotations: [], logprobs: [] }]),
  ];
  const base = {
    organizationId: 'org_a',
    model: 'tycho-1.0',
    createdAt: START,
    status: 'completed' as const,
    background: false,
    previousId: null,
  };
  const status = change.status ?? base.status;
  return {
    ...base,
    id,
    input,
    output,
    resource: {
      id,
      object: 'response',
      status,
      error: null,
      output: output.map(({ item }) => item),
      metadata: { text },
    },
    ...change,
  };
}

export function message(role: 'user' | 'assistant', content: object[], images?: Uint8Array[]): StoredItem {
  const id = newItemId('msg');
  return { id, item: { id, type: 'message', status: 'completed', role, content }, images };
}

/** A response store with additional hooks for tests. */
export interface OpenedResponses {
  responses: ResponseStore;
  /** Current time in seconds; assign to change it. */
  clock: { now: number };
  /** Returns the number of rows per table, by the names in EMPTY. */
  rows(): Promise<Record<string, number>>;
  /** Returns the number of rows that only record pending work. */
  noted(): Promise<number>;
  /** Reopens the store as a new process would after the first process has ended. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

export interface Opened extends OpenedResponses {
  store: Store;
  path: string;
}

const TABLE_NAMES = [
  'responses',
  'response-inputs',
  'response-images',
  'response-items',
  'response-events',
] as const satisfies readonly TableName[];
/** Tables that only the LMDB store has. */
const MORE_NAMES: readonly TableName[] = [
  'response-resources',
  'response-outputs',
  'response-times',
  'responses-by-organization',
];

export async function openResponses(): Promise<Opened> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-responses-'));
  const clock = { now: START };
  const errors: unknown[] = [];
  const begin = async (): Promise<Pick<Opened, 'store' | 'responses'>> => {
    const store = await openStore(path);
    return {
      store,
      responses: openResponseStore(
        store,
        { retention_days: 30 },
        { now: () => clock.now, onError: (error) => errors.push(error) },
      ),
    };
  };
  const opened: Opened = {
    ...(await begin()),
    path,
    clock,
    async rows() {
      const count = (name: TableName): number => [...opened.store.table(name).keys()].length;
      const rows = Object.fromEntries(TABLE_NAMES.map((name) => [name, count(name)]));
      if (rows['responses'] === 0 && MORE_NAMES.some((name) => count(name) > 0))
        throw new Error(`rows are left: ${MORE_NAMES.map((name) => `${name} ${count(name)}`).join(', ')}`);
      return rows;
    },
    noted: async () => [...opened.store.table('response-times').keys()].filter(([kind]) => kind !== 'created').length,
    async reopen() {
      await opened.responses.close();
      await opened.store.close();
      Object.assign(opened, await begin());
    },
    async close() {
      await opened.responses.close();
      await opened.store.close();
      rmSync(path, { recursive: true, force: true });
      if (errors.length > 0) throw new Error('a sweep failed', { cause: errors[0] });
    },
  };
  return opened;
}

export const EMPTY = Object.fromEntries(TABLE_NAMES.map((name) => [name, 0]));
