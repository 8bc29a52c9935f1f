// A process that saves many responses concurrently and prints each id once its save has resolved. Tests kill it.
// Arguments: data directory, number of concurrent saves. A response's content is derived from its id; see expected().
import { createHash } from 'node:crypto';
import { writeSync } from 'node:fs';
import { newResponseId } from '../../src/shared/ids.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import type { ResponseRecord, StoredItem } from '../../src/storage/response-store.js';

/**
 * Derives a response from its id alone. Most are small, some have hundreds of items, and some have more image data than
 * one transaction can write.
 */
export function expected(id: string, previousId: string | null): ResponseRecord {
  const digest = createHash('sha256').update(id).digest();
  const items = digest[0]! < 20 ? 400 : 1 + (digest[1]! % 5);
  const imageBytes = digest[2]! < 30 ? 1_500_000 : digest[2]! < 80 ? 1_000 : 0;
  const input = Array.from(
    { length: items },
    (_, index): StoredItem => ({
      id: `${id}_in_${index}`,
      item: { id: `${id}_in_${index}`, text: digest.toString('hex') },
      ...(index === 0 && imageBytes > 0 ? { images: [new Uint8Array(imageBytes).fill(digest[3]!)] } : {}),
    }),
  );
  const output = [{ id: `${id}_out`, item: { id: `${id}_out`, text: digest.toString('base64') } }];
  return {
    id,
    organizationId: 'org_a',
    model: 'm',
    createdAt: Math.floor(Date.now() / 1000),
    status: 'completed',
    background: false,
    previousId,
    resource: { id, status: 'completed', output: output.map(({ item }) => item) },
    input,
    output,
  };
}

if (process.argv[2] !== undefined && import.meta.filename === process.argv[1]) {
  const responses = openResponseStore(await openStore(process.argv[2]), { retention_days: 30 });
  for (let writer = 0; writer < Number(process.argv[3]); writer++) {
    void (async () => {
      for (let previousId: string | null = null; ; ) {
        const id = newResponseId();
        await responses.save(expected(id, previousId));
        writeSync(1, `${id} ${previousId ?? ''}\n`);
        previousId = id;
      }
    })();
  }
}
