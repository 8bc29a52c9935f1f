// Routes under /v1/batches, in OpenAI's format: create a batch from an uploaded file, and list, retrieve and cancel
// batches. Event-loop thread only.

import type { Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { isBatchId, newBatchId } from '../../shared/ids.js';
import { fileNotFound } from '../../storage/file-store.js';
import { newBatchRow, type NewBatch } from '../../storage/batch-store.js';
import { checkMetadata } from '../fields.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveIn } from '../ineffective.js';
import { validated } from '../validation.js';
import { cancelBatch, expiryOf, foundBatch, idOf, limitOf, type BatchDeps } from './deps.js';
import { shownBatch } from './openai-shape.js';
import { batchSchema } from './schema.js';

const PATH = '/v1/batches';
const KIND = 'openai';
const MAX_LIMIT = 100;

export function batchRoutes(deps: BatchDeps): Route[] {
  const { batches, files, settings } = deps;
  return [
    {
      method: 'POST',
      path: PATH,
      scope: 'batches',
      async handler(exchange) {
        const { organizationId, keyId } = exchange.identity;
        const given = exchange.body as Readonly<Record<string, unknown>>;
        const asked = validated(batchSchema, given);
        nameIgnored({ parameters: ineffectiveIn(batchSchema, given) }, exchange);
        const { input_file_id: inputFileId } = asked;
        const file = await files.get(organizationId, inputFileId);
        if (file === null) throw fileNotFound(inputFileId, 'input_file_id');
        if (file.purpose !== 'batch')
          throw apiError(
            'invalid_value',
            'The input file must have been uploaded with purpose "batch".',
            'input_file_id',
          );
        const now = deps.now();
        const batch: NewBatch = {
          id: newBatchId(KIND),
          organizationId,
          keyId,
          kind: KIND,
          endpoint: asked.endpoint,
          createdAt: now,
          expiresAt: expiryOf(now, settings),
          inputFileId,
          metadata: checkMetadata(asked.metadata),
          headers: {},
          outputExpiresS: asked.output_expires_after?.seconds ?? null,
        };
        await batches.create(batch, settings.per_organization);
        await deps.expectEnd(organizationId, batch.id);
        // If the file was deleted after files.get() above, the validation job reports the missing file.
        await files.hold(organizationId, inputFileId, batch.id);
        deps.wake();
        exchange.json(200, shownBatch(newBatchRow(batch)));
      },
    },
    {
      method: 'GET',
      path: PATH,
      scope: 'batches',
      async handler(exchange) {
        const limit = limitOf(exchange.query, MAX_LIMIT);
        const after = exchange.query.get('after');
        if (after !== null && !isBatchId(after))
          throw apiError('invalid_query_parameter', 'after must be a batch ID.', 'after');
        const page = await batches.list(exchange.identity.organizationId, KIND, { after, limit });
        exchange.json(200, {
          object: 'list',
          data: page.batches.map(shownBatch),
          first_id: page.batches[0]?.id ?? null,
          last_id: page.batches.at(-1)?.id ?? null,
          has_more: page.more,
        });
      },
    },
    {
      method: 'GET',
      path: `${PATH}/:id`,
      scope: 'batches',
      async handler(exchange) {
        exchange.json(200, shownBatch(foundBatch(exchange, KIND, await batches.get(...idOf(exchange)))));
      },
    },
    {
      method: 'POST',
      path: `${PATH}/:id/cancel`,
      scope: 'batches',
      bodyOptional: true,
      async handler(exchange) {
        exchange.json(200, shownBatch(await cancelBatch(deps, exchange, KIND)));
      },
    },
  ];
}
