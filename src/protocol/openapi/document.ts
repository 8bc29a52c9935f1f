// The OpenAPI description of everything public, made from the zod schemas that check requests and from those
// of the answers (answers/), which the tests hold real answers against. Pure.
import { z } from 'zod';
import { chatRequestSchema, messageContent, toolCall } from '../chat-completions/schema.js';
import { completionRequestSchema } from '../completions/schema.js';
import { countTokensSchema, messagesRequestSchema } from '../messages/schema.js';
import { given, integer } from '../fields.js';
import { compactSchema, createSchema, inputSchema, inputTokensSchema } from '../responses/schema.js';
import { detokenizeSchema, tokenizeSchema } from '../tokens/routes.js';
import { VERSION } from '../../shared/version.js';
import * as chat from './answers/chat.js';
import * as completions from './answers/completions.js';
import * as errors from './answers/errors.js';
import * as messages from './answers/messages.js';
import * as models from './answers/models.js';
import * as responses from './answers/responses.js';

type Json = { readonly [name: string]: unknown };

/** Bounds of requests that are settings. */
export interface PublishedLimits {
  readonly maxN: number;
}

/** Published component schemas by name. Requests as they are read, answers as they are sent. */
const requests = {
  ChatCompletionRequest: chatRequestSchema,
  ChatMessageContent: messageContent,
  ChatToolCall: toolCall,
  CompletionRequest: completionRequestSchema,
  TokenizeRequest: tokenizeSchema.extend({ messages: chatRequestSchema.shape.messages.nullish() }).meta({
    oneOf: [
      { ...given('prompt', { type: 'string' }), not: given('messages', { type: 'array' }) },
      { ...given('messages', { type: 'array' }), not: given('prompt', { type: 'string' }) },
    ],
  }),
  DetokenizeRequest: detokenizeSchema,
  MessageRequest: messagesRequestSchema,
  TokenCountRequest: countTokensSchema,
  ResponseRequest: createSchema,
  ResponseInput: inputSchema,
  ResponseInputTokensRequest: inputTokensSchema,
  CompactRequest: compactSchema,
} as const satisfies Record<string, z.ZodType>;

const answers = {
  ChatCompletion: chat.chatCompletion,
  ChatCompletionChunk: chat.chatCompletionChunk,
  Completion: completions.completion,
  Tokens: completions.tokens,
  DetokenizedText: completions.detokenized,
  TokenizerInfo: completions.tokenizerInfo,
  ModelProperties: models.modelProperties,
  ModelSlots: models.modelSlots,
  Message: messages.message,
  MessageEvent: messages.messageEvent,
  TokenCount: messages.tokenCount,
  Response: responses.response,
  ResponseEvent: responses.responseEvent,
  ResponseDeleted: responses.responseDeleted,
  ResponseItemList: responses.responseItemList,
  ResponseInputTokens: responses.responseInputTokens,
  Compaction: responses.compaction,
  Model: models.chatModel,
  ModelList: models.chatModelList,
  MessagesModel: models.messagesModel,
  MessagesModelList: models.messagesModelList,
  ChatError: errors.chatError,
  MessagesError: errors.messagesError,
} as const satisfies Record<string, z.ZodType>;

/** The requests with the bounds that this server has. */
function boundedRequests({ maxN }: PublishedLimits): Record<RequestName, z.ZodType> {
  const choices = integer().min(1).max(maxN).nullish();
  return {
    ...requests,
    ChatCompletionRequest: chatRequestSchema.extend({ n: choices }),
    CompletionRequest: completionRequestSchema.extend({ n: choices, best_of: choices }),
  };
}

type RequestName = keyof typeof requests;
type AnswerName = keyof typeof answers;

interface Operation {
  method: 'get' | 'post' | 'delete';
  path: string; // with {parameters}
  id: string;
  summary: string;
  request?: RequestName;
  answer: AnswerName | readonly AnswerName[];
  stream?: AnswerName; // of each event, where the answer may be an event stream
  query?: Readonly<Record<string, z.ZodType>>;
  error?: 'ChatError' | 'MessagesError' | 'either';
}

const include = { 'include[]': z.array(z.string()).optional() };
const itemPaging = {
  limit: z.int().min(1).max(100).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  after: z.string().optional(),
  ...include,
};
const modelPaging = {
  limit: z.int().min(1).max(1000).optional(),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
  'lifecycle[]': z.array(z.string()).optional(),
};
const ofModel = { model: z.string().optional() };
const replay = { stream: z.boolean().optional(), starting_after: z.int().min(0).optional(), ...include };

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/chat/completions',
    id: 'createChatCompletion',
    summary: 'Answer a conversation (chat completions format).',
    request: 'ChatCompletionRequest',
    answer: 'ChatCompletion',
    stream: 'ChatCompletionChunk',
  },
  {
    method: 'post',
    path: '/v1/completions',
    id: 'createCompletion',
    summary: 'Go on with a text, or tell the probabilities of one.',
    request: 'CompletionRequest',
    answer: 'Completion',
    stream: 'Completion',
  },
  {
    method: 'post',
    path: '/tokenize',
    id: 'tokenize',
    summary: 'The tokens of a text or a conversation.',
    request: 'TokenizeRequest',
    answer: 'Tokens',
  },
  {
    method: 'post',
    path: '/detokenize',
    id: 'detokenize',
    summary: 'The text of tokens.',
    request: 'DetokenizeRequest',
    answer: 'DetokenizedText',
  },
  {
    method: 'get',
    path: '/tokenizer_info',
    id: 'tokenizerInfo',
    summary: 'What of a model others tokenize by.',
    answer: 'TokenizerInfo',
    query: ofModel,
  },
  {
    method: 'get',
    path: '/props',
    id: 'modelProperties',
    summary: "What a model is served with, in llama-server's fields; for operators.",
    answer: 'ModelProperties',
    query: ofModel,
  },
  {
    method: 'get',
    path: '/slots',
    id: 'modelSlots',
    summary: "Sequences that may run and those that do, in llama-server's fields; for operators.",
    answer: 'ModelSlots',
    query: { ...ofModel, fail_on_no_slot: z.string().optional() },
  },
  {
    method: 'post',
    path: '/v1/messages',
    id: 'createMessage',
    summary: 'Answer a conversation (messages format).',
    request: 'MessageRequest',
    answer: 'Message',
    stream: 'MessageEvent',
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    id: 'countMessageTokens',
    summary: 'Count the input tokens of a messages request.',
    request: 'TokenCountRequest',
    answer: 'TokenCount',
  },
  {
    method: 'post',
    path: '/v1/responses',
    id: 'createResponse',
    summary: 'Create a response; stored unless told otherwise.',
    request: 'ResponseRequest',
    answer: 'Response',
    stream: 'ResponseEvent',
  },
  {
    method: 'get',
    path: '/v1/responses/{id}',
    id: 'retrieveResponse',
    summary: 'A stored response, or its events again.',
    answer: 'Response',
    stream: 'ResponseEvent',
    query: replay,
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    id: 'deleteResponse',
    summary: 'Delete a stored response.',
    answer: 'ResponseDeleted',
  },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    id: 'cancelResponse',
    summary: 'Stop a background response.',
    answer: 'Response',
  },
  {
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    id: 'listResponseInputItems',
    summary: 'What a response was generated from, its chain included.',
    answer: 'ResponseItemList',
    query: itemPaging,
  },
  {
    method: 'post',
    path: '/v1/responses/input_tokens',
    id: 'countResponseInputTokens',
    summary: 'Count the input tokens of a request.',
    request: 'ResponseInputTokensRequest',
    answer: 'ResponseInputTokens',
  },
  {
    method: 'post',
    path: '/v1/responses/compact',
    id: 'compactResponse',
    summary: 'Shorten a conversation to its user messages and a sealed summary.',
    request: 'CompactRequest',
    answer: 'Compaction',
  },
  {
    method: 'get',
    path: '/v1/models',
    id: 'listModels',
    summary: 'The models this key may use, highest tier first.',
    answer: ['ModelList', 'MessagesModelList'],
    error: 'either',
    query: modelPaging,
  },
  {
    method: 'get',
    path: '/v1/models/{id}',
    id: 'retrieveModel',
    summary: 'One model.',
    answer: ['Model', 'MessagesModel'],
    error: 'either',
  },
];

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: Json): Json => ({ 'application/json': { schema } });
const oneOf = (names: readonly string[]): Json =>
  names.length === 1 ? ref(names[0] as string) : { oneOf: names.map(ref) };

const STATUSES: readonly (readonly [string, string])[] = [
  ['400', 'The request cannot be read as a request of this endpoint.'],
  ['401', 'The API key is missing, wrong, expired or revoked.'],
  ['403', 'The API key lacks the right.'],
  ['404', 'No such endpoint, model, response or item.'],
  ['413', 'The body is over the limit.'],
  ['422', 'The shape is right, the content cannot be served.'],
  ['429', 'A limit of the organization; Retry-After says when.'],
  ['500', 'An unexpected failure.'],
  ['503', 'The service or the model is busy or not ready; Retry-After says when.'],
];

function componentsOf(schemas: Readonly<Record<string, z.ZodType>>, io: 'input' | 'output'): Json {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const made = z.toJSONSchema(registry, { io, unrepresentable: 'any', uri: (id) => `#/components/schemas/${id}` })
    .schemas as Record<string, Json>;
  return Object.fromEntries(
    Object.entries(made).map(([name, { $schema: _schema, $id: _id, ...schema }]) => [name, schema]),
  );
}

function operationOf(operation: Operation): Json {
  const error = operation.error ?? (operation.path.startsWith('/v1/messages') ? 'MessagesError' : 'ChatError');
  const errorBody = json(oneOf(error === 'either' ? ['ChatError', 'MessagesError'] : [error]));
  const inPath = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = Object.entries(operation.query ?? {}).map(([name, schema]) => {
    const { $schema: _schema, ...made } = z.toJSONSchema(schema, { io: 'input' });
    return { name, in: 'query', required: false, schema: made };
  });
  const content = {
    ...json(oneOf(typeof operation.answer === 'string' ? [operation.answer] : operation.answer)),
    ...(operation.stream === undefined ? {} : { 'text/event-stream': { schema: ref(operation.stream) } }),
  };
  return {
    operationId: operation.id,
    summary: operation.summary,
    ...(inPath.length + inQuery.length === 0 ? {} : { parameters: [...inPath, ...inQuery] }),
    ...(operation.request === undefined
      ? {}
      : { requestBody: { required: true, content: json(ref(operation.request)) } }),
    responses: {
      200: { description: 'The answer.', content },
      ...Object.fromEntries(STATUSES.map(([status, description]) => [status, { description, content: errorBody }])),
    },
  };
}

/** The whole document. Takes some milliseconds: make it once. */
export function openApiDocument(limits: PublishedLimits): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = operationOf(operation);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Monolith',
      version: VERSION,
      description: 'Chat completions, messages and responses on one address.',
    },
    security: [{ bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      schemas: { ...componentsOf(boundedRequests(limits), 'input'), ...componentsOf(answers, 'output') },
    },
  };
}

/** The published schema of an answer, for the tests. */
export const publishedAnswers: Readonly<Record<AnswerName, z.ZodType>> = answers;
