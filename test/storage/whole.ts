// Checks whether a response created by saver.ts is complete.
import type { ChainedResponse, ResponseStore } from '../../src/storage/response-store.js';
import { expected } from './saver.js';

/** `previousId`: the response that it must continue, if known. */
export async function isWhole(responses: ResponseStore, id: string, previousId?: string | null): Promise<boolean> {
  const held = await responses.chain('org_a', id);
  held?.release();
  const record = held?.responses.at(-1);
  if (record === undefined || (previousId !== undefined && held?.responses.at(-2)?.id !== (previousId ?? undefined)))
    return false;
  const should = expected(id, null);
  const plain = (items: ChainedResponse['input']) =>
    JSON.stringify(
      items.map(({ item, images = [] }) => [
        item,
        images.map((bytes) => [bytes.length, bytes.every((byte) => byte === bytes[0]), bytes[0]]),
      ]),
    );
  return (
    plain(record.input) === plain(should.input) &&
    plain(record.output) === plain(should.output) &&
    JSON.stringify((await responses.get('org_a', id))?.resource) === JSON.stringify(should.resource)
  );
}
