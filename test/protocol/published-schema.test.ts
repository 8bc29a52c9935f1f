// Tests that the server accepts everything that /openapi.json allows. Random bodies built from the published schemas
// must never be refused as malformed (400), except because of rules that JSON Schema cannot express.

import t from 'tap';
import type { ErrorCode } from '../../src/shared/error-codes.js';
import { ApiError } from '../../src/shared/errors.js';
import type { ServedModel } from '../../src/generation/served-models.js';
import { openApiDocument } from '../../src/protocol/openapi/document.js';
import { checkRequests } from '../../src/protocol/batches/messages-requests.js';
import { batchSchema } from '../../src/protocol/batches/schema.js';
import { parseChat } from '../../src/protocol/chat-completions/parse.js';
import { chatUpdateSchema } from '../../src/protocol/chat-completions/schema.js';
import { parseCompletion } from '../../src/protocol/completions/parse.js';
import { readItems } from '../../src/protocol/conversations/items.js';
import { completeSchema, uploadSchema } from '../../src/protocol/files/upload-routes.js';
import {
  conversationEnvelope,
  conversationUpdateSchema,
  itemsEnvelope,
} from '../../src/protocol/conversations/schema.js';
import { checkMetadata } from '../../src/protocol/fields.js';
import { parseDecisions } from '../../src/protocol/decisions/parse.js';
import { parseEmbeddings } from '../../src/protocol/embeddings/parse.js';
import { infillSchema } from '../../src/protocol/infill/schema.js';
import { parseMessages } from '../../src/protocol/messages/parse.js';
import { loadAdapterSchema, unloadAdapterSchema } from '../../src/protocol/models/adapter-routes.js';
import { parseOllamaChat, parseOllamaGenerate } from '../../src/protocol/ollama/parse.js';
import {
  embeddingsRequestSchema,
  embedRequestSchema,
  pullRequestSchema,
  showRequestSchema,
} from '../../src/protocol/ollama/schema.js';
import { parseRerank, parseScore } from '../../src/protocol/rerank/parse.js';
import { parseCreate } from '../../src/protocol/responses/parse.js';
import { applyTemplateSchema, detokenizeSchema, tokenizeSchema } from '../../src/protocol/tokens/routes.js';
import { validated } from '../../src/protocol/validation.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { randomBody, randomOf, type JsonSchema } from '../support/random-body.js';

const BODIES = 2_000;
const limits = { maxN: 8 };
const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m']);
const model: ServedModel = {
  name: 'm',
  recordedAs: 'm',
  asked: 'm',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 0.7, top_p: 0.9, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => {
    throw new Error('not needed');
  },
};
const messages = (body: unknown, purpose: 'generate' | 'count'): unknown =>
  parseMessages(body, { sealer, organizationId: 'org_a', foreignThinking: 'reject' }, purpose).content();
const responses = (body: unknown, looksAtModel = false): unknown =>
  parseCreate(body, { organizationId: 'org_a', sealer }, { looksAtModel }).content({ model, chain: [] });

const ENDPOINTS: Record<string, (body: object) => unknown> = {
  ChatCompletionRequest: (body) => parseChat(body).content(limits),
  CompletionRequest: (body) => parseCompletion(body).content(limits),
  EmbeddingsRequest: (body) => parseEmbeddings(body).content(),
  DecisionRequest: (body) => parseDecisions(body).content({ models: ['m'], organizationId: 'org_a', sealer }),
  RerankRequest: (body) => parseRerank(body).content(),
  ScoreRequest: (body) => parseScore(body).content(),
  OllamaEmbedRequest: (body) => validated(embedRequestSchema, body),
  OllamaEmbeddingsRequest: (body) => validated(embeddingsRequestSchema, body),
  MessageRequest: (body) => messages(body, 'generate'),
  TokenCountRequest: (body) => messages(body, 'count'),
  OllamaChatRequest: (body) => parseOllamaChat(body).content(),
  OllamaGenerateRequest: (body) => parseOllamaGenerate(body).content(),
  OllamaShowRequest: (body) => validated(showRequestSchema, body),
  OllamaPullRequest: (body) => validated(pullRequestSchema, body),
  LoadAdapterRequest: (body) => validated(loadAdapterSchema, body),
  UnloadAdapterRequest: (body) => validated(unloadAdapterSchema, body),
  ResponseRequest: (body) => responses(body),
  ResponseInputTokensRequest: (body) => responses(body),
  CompactRequest: (body) => responses(body, true),
  InfillRequest: (body) => validated(infillSchema, body),
  ChatCompletionUpdateRequest: (body) => checkMetadata(validated(chatUpdateSchema, body).metadata),
  BatchRequest: (body) => checkMetadata(validated(batchSchema, body).metadata),
  MessageBatchRequest: (body) => checkRequests((body as { requests?: unknown }).requests, 50_000),
  ConversationRequest: (body) => {
    const { items, metadata } = validated(conversationEnvelope, body);
    checkMetadata(metadata);
    return readItems(items ?? [], { sealer, organizationId: 'org_a', rejects: true });
  },
  ConversationUpdateRequest: (body) => checkMetadata(validated(conversationUpdateSchema, body).metadata),
  ConversationItemsRequest: (body) =>
    readItems(validated(itemsEnvelope, body).items, { sealer, organizationId: 'org_a', rejects: true }),
  UploadRequest: (body) => validated(uploadSchema, body),
  UploadCompleteRequest: (body) => validated(completeSchema, body),
  TokenizeRequest: (body) => {
    const { messages: conversation } = validated(tokenizeSchema, body);
    return conversation == null ? null : parseChat({ ...body, model: 'm' }).content(limits);
  },
  DetokenizeRequest: (body) => validated(detokenizeSchema, body),
  ApplyTemplateRequest: (body) => {
    validated(applyTemplateSchema, body);
    return parseChat({ ...body, model: 'm' }).content(limits);
  },
};

/** Rules that JSON Schema cannot express. */
const BEYOND_SCHEMA: readonly [code: ErrorCode, param: RegExp, why: string][] = [
  ['invalid_encrypted_content', /^(input|items)\[\d+\]$/, 'only this service can make the value'],
  ['invalid_thinking_signature', /^messages\[\d+\]\.content\[\d+\]$/, 'only this service can make the value'],
  ['missing_required_parameter', /^messages(\[\d+\]\.content)?$/, 'a list of empty text blocks holds nothing'],
  ['missing_required_parameter', /^items\[\d+\]\.call_id$/, 'only the input of a response may leave it out'],
  ['missing_required_parameter', /^input$/, 'items may hold nothing that the model could answer'],
];

const document = openApiDocument(limits) as { components: { schemas: Record<string, JsonSchema> } };

t.test('every request schema of the OpenAPI document is tested', async (t) => {
  t.same(
    Object.keys(document.components.schemas)
      .filter((name) => name.endsWith('Request'))
      .sort(),
    Object.keys(ENDPOINTS).sort(),
  );
});

for (const [name, read] of Object.entries(ENDPOINTS)) {
  t.test(`${BODIES} random bodies of ${name}: none is refused as malformed`, async (t) => {
    const schema = document.components.schemas[name] as JsonSchema;
    const faults: string[] = [];
    let taken = 0;
    for (let seed = 0; seed < BODIES && faults.length < 5; seed++) {
      const body = randomBody(schema, {
        document,
        random: randomOf(seed),
        optional: [5, 20, 60][seed % 3] as number,
      }) as object;
      try {
        read(body);
        taken++;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (
          error.status !== 400 ||
          BEYOND_SCHEMA.some(([code, param]) => code === error.code && param.test(error.param ?? ''))
        )
          continue;
        faults.push(`${error.code} ${error.param}: ${error.message} ${JSON.stringify(body).slice(0, 300)}`);
      }
    }
    t.same(faults, []);
    t.ok(taken > BODIES / 50, `${taken} bodies are accepted`);
  });
}

t.test('limits that are settings are published with their configured value', async (t) => {
  const { schemas } = (openApiDocument({ maxN: 3 }) as typeof document).components;
  const n = (name: string, field: string): unknown => (schemas[name]!['properties'] as Record<string, unknown>)[field];
  for (const [name, field] of [
    ['ChatCompletionRequest', 'n'],
    ['CompletionRequest', 'n'],
    ['CompletionRequest', 'best_of'],
  ] as const) {
    t.match(JSON.stringify(n(name, field)), /"type":"integer"/, `${name}.${field}`);
    t.match(JSON.stringify(n(name, field)), /"maximum":3/, `${name}.${field}`);
  }
});
