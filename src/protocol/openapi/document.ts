// The OpenAPI description of the public API. It is generated from the zod schemas that validate requests and from the
// response schemas (answers/), which tests check against real responses. No side effects.
import { z } from 'zod';
import { batchSchema, messageBatchSchema } from '../batches/schema.js';
import { chatRequestSchema, chatUpdateSchema, messageContent, toolCall } from '../chat-completions/schema.js';
import { completionRequestSchema } from '../completions/schema.js';
import { conversationItemsSchema, conversationSchema, conversationUpdateSchema } from '../conversations/schema.js';
import { decisionRequestSchema } from '../decisions/schema.js';
import { embeddingsRequestSchema } from '../embeddings/schema.js';
import { completeSchema, uploadSchema } from '../files/upload-routes.js';
import { infillSchema } from '../infill/schema.js';
import { countTokensSchema, messagesRequestSchema } from '../messages/schema.js';
import { loadAdapterSchema, unloadAdapterSchema } from '../models/adapter-routes.js';
import { given, integer } from '../fields.js';
import {
  chatRequestSchema as ollamaChatSchema,
  embeddingsRequestSchema as ollamaEmbeddingsSchema,
  embedRequestSchema,
  generateRequestSchema,
  pullRequestSchema,
  showRequestSchema,
} from '../ollama/schema.js';
import { rerankRequestSchema, scoreRequestSchema } from '../rerank/schema.js';
import { compactSchema, createSchema, inputSchema, inputTokensSchema } from '../responses/schema.js';
import { applyTemplateSchema, detokenizeSchema, tokenizeSchema } from '../tokens/routes.js';
import { VERSION } from '../../shared/version.js';
import { storedChatOperations } from './stored-chat.js';
import * as batches from './answers/batches.js';
import * as chat from './answers/chat.js';
import * as completions from './answers/completions.js';
import * as conversations from './answers/conversations.js';
import * as decisions from './answers/decisions.js';
import * as embeddings from './answers/embeddings.js';
import * as errors from './answers/errors.js';
import * as files from './answers/files.js';
import * as messages from './answers/messages.js';
import * as models from './answers/models.js';
import * as ollama from './answers/ollama.js';
import * as responses from './answers/responses.js';
import { adapterOperations } from './adapter-operations.js';
import { batchOperations } from './batch-operations.js';
import { conversationOperations } from './conversation-operations.js';
import { fileOperations } from './file-operations.js';
import { ollamaOperations } from './ollama-operations.js';
import { poolingOperations } from './pooling-operations.js';
import { responseOperations } from './response-operations.js';
import { tokenOperations } from './token-operations.js';

type Json = { readonly [name: string]: unknown };

/** Configurable request limits. */
export interface PublishedLimits {
  readonly maxN: number;
}

/** Published component schemas by name. Requests use the schemas' input form, responses their output form. */
const requests = {
  ChatCompletionRequest: chatRequestSchema,
  ChatCompletionUpdateRequest: chatUpdateSchema,
  ChatMessageContent: messageContent,
  ChatToolCall: toolCall,
  CompletionRequest: completionRequestSchema,
  InfillRequest: infillSchema,
  EmbeddingsRequest: embeddingsRequestSchema,
  DecisionRequest: decisionRequestSchema,
  RerankRequest: rerankRequestSchema,
  ScoreRequest: scoreRequestSchema,
  TokenizeRequest: tokenizeSchema.extend({ messages: chatRequestSchema.shape.messages.nullish() }).meta({
    oneOf: [
      { ...given('prompt', { type: 'string' }), not: given('messages', { type: 'array' }) },
      { ...given('messages', { type: 'array' }), not: given('prompt', { type: 'string' }) },
    ],
  }),
  DetokenizeRequest: detokenizeSchema,
  ApplyTemplateRequest: applyTemplateSchema.extend({ messages: chatRequestSchema.shape.messages }),
  MessageRequest: messagesRequestSchema,
  TokenCountRequest: countTokensSchema,
  ResponseRequest: createSchema,
  ResponseInput: inputSchema,
  ResponseInputTokensRequest: inputTokensSchema,
  CompactRequest: compactSchema,
  BatchRequest: batchSchema,
  MessageBatchRequest: messageBatchSchema,
  ConversationRequest: conversationSchema,
  ConversationUpdateRequest: conversationUpdateSchema,
  ConversationItemsRequest: conversationItemsSchema,
  UploadRequest: uploadSchema,
  UploadCompleteRequest: completeSchema,
  OllamaChatRequest: ollamaChatSchema,
  OllamaGenerateRequest: generateRequestSchema,
  OllamaEmbedRequest: embedRequestSchema,
  OllamaEmbeddingsRequest: ollamaEmbeddingsSchema,
  OllamaShowRequest: showRequestSchema,
  OllamaPullRequest: pullRequestSchema,
  LoadAdapterRequest: loadAdapterSchema,
  UnloadAdapterRequest: unloadAdapterSchema,
} as const satisfies Record<string, z.ZodType>;

const answers = {
  ChatCompletion: chat.chatCompletion,
  ChatCompletionChunk: chat.chatCompletionChunk,
  ChatCompletionList: chat.chatCompletionList,
  ChatCompletionDeleted: chat.chatCompletionDeleted,
  ChatMessageList: chat.chatMessageList,
  Completion: completions.completion,
  Infill: completions.infill,
  Embeddings: embeddings.embeddings,
  Decisions: decisions.decisions,
  Ranking: embeddings.ranking,
  Scores: embeddings.scores,
  Tokens: completions.tokens,
  DetokenizedText: completions.detokenized,
  RenderedPrompt: completions.renderedPrompt,
  TokenizerInfo: completions.tokenizerInfo,
  ModelProperties: models.modelProperties,
  ModelSlots: models.modelSlots,
  AdapterMessage: models.adapterMessage,
  AdapterList: models.adapterList,
  Message: messages.message,
  MessageEvent: messages.messageEvent,
  TokenCount: messages.tokenCount,
  Response: responses.response,
  ResponseEvent: responses.responseEvent,
  ResponseDeleted: responses.responseDeleted,
  ResponseItemList: responses.responseItemList,
  ResponseInputTokens: responses.responseInputTokens,
  Compaction: responses.compaction,
  Batch: batches.batch,
  BatchList: batches.batchList,
  MessageBatch: batches.messageBatch,
  MessageBatchList: batches.messageBatchList,
  MessageBatchDeleted: batches.messageBatchDeleted,
  MessageBatchResult: batches.messageBatchResult,
  Conversation: conversations.conversation,
  ConversationDeleted: conversations.conversationDeleted,
  ConversationItem: conversations.conversationItem,
  File: files.file,
  FileList: files.fileList,
  FileDeleted: files.fileDeleted,
  MessagesFile: files.messagesFile,
  MessagesFileList: files.messagesFileList,
  MessagesFileDeleted: files.messagesFileDeleted,
  Upload: files.upload,
  UploadPart: files.uploadPart,
  Model: models.chatModel,
  ModelList: models.chatModelList,
  MessagesModel: models.messagesModel,
  MessagesModelList: models.messagesModelList,
  OllamaChatResponse: ollama.ollamaChat,
  OllamaGenerateResponse: ollama.ollamaCompletion,
  OllamaEmbedResponse: ollama.ollamaEmbed,
  OllamaEmbeddingsResponse: ollama.ollamaEmbedding,
  OllamaModelList: ollama.ollamaModels,
  OllamaRunningList: ollama.ollamaRunning,
  OllamaModel: ollama.ollamaModel,
  OllamaVersion: ollama.ollamaVersion,
  OllamaProgress: ollama.ollamaProgress,
  OllamaError: ollama.ollamaError,
  ChatError: errors.chatError,
  MessagesError: errors.messagesError,
} as const satisfies Record<string, z.ZodType>;

/** The request schemas, with this server's configured limits. */
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
  path: string; // may contain {parameters}
  id: string;
  summary: string;
  request?: RequestName;
  form?: Json; // schema of a multipart form, in place of `request`
  answer: AnswerName | readonly AnswerName[] | 'binary';
  stream?: AnswerName; // schema of each event, if the response can be an event stream
  isText?: true; // the response is plain text instead of JSON
  lines?: AnswerName; // schema of each line, if the response can be a stream of JSON lines
  query?: Readonly<Record<string, z.ZodType>>;
  error?: 'ChatError' | 'MessagesError' | 'either';
}

const modelPaging = {
  limit: z.int().min(1).max(1000).optional(),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
  'lifecycle[]': z.array(z.string()).optional(),
};

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/chat/completions',
    id: 'createChatCompletion',
    summary: 'Create a chat completion (OpenAI format).',
    request: 'ChatCompletionRequest',
    answer: 'ChatCompletion',
    stream: 'ChatCompletionChunk',
  },
  ...storedChatOperations,
  {
    method: 'post',
    path: '/infill',
    id: 'infill',
    summary: 'Fill a gap in code (llama-server format).',
    request: 'InfillRequest',
    answer: 'Infill',
    stream: 'Infill',
  },
  {
    method: 'post',
    path: '/v1/completions',
    id: 'createCompletion',
    summary: 'Create a text completion (OpenAI format), or return the log-probabilities of a prompt.',
    request: 'CompletionRequest',
    answer: 'Completion',
    stream: 'Completion',
  },
  {
    method: 'post',
    path: '/v1/decisions',
    id: 'createDecisions',
    summary: 'Answer questions about an input with the probability of each allowed answer (OpenAI format).',
    request: 'DecisionRequest',
    answer: 'Decisions',
  },
  ...poolingOperations,
  ...tokenOperations,
  {
    method: 'post',
    path: '/v1/messages',
    id: 'createMessage',
    summary: 'Create a message (Anthropic format).',
    request: 'MessageRequest',
    answer: 'Message',
    stream: 'MessageEvent',
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    id: 'countMessageTokens',
    summary: 'Count the input tokens of a Messages request.',
    request: 'TokenCountRequest',
    answer: 'TokenCount',
  },
  ...responseOperations,
  ...conversationOperations,
  ...fileOperations,
  ...batchOperations,
  {
    method: 'get',
    path: '/v1/models',
    id: 'listModels',
    summary: 'List the models that the API key may use, highest tier first.',
    answer: ['ModelList', 'MessagesModelList'],
    error: 'either',
    query: modelPaging,
  },
  {
    method: 'get',
    path: '/v1/models/{id}',
    id: 'retrieveModel',
    summary: 'Get a model.',
    answer: ['Model', 'MessagesModel'],
    error: 'either',
  },
  ...adapterOperations,
  ...ollamaOperations,
];

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: Json): Json => ({ 'application/json': { schema } });
const oneOf = (names: readonly string[]): Json =>
  names.length === 1 ? ref(names[0] as string) : { oneOf: names.map(ref) };

const STATUSES: readonly (readonly [string, string])[] = [
  ['400', 'The request cannot be parsed, or the prompt is too long.'],
  ['401', 'The API key is missing, invalid, expired or revoked.'],
  ['403', 'The API key does not have the required permission.'],
  ['404', 'The endpoint, model, response or item does not exist.'],
  ['413', 'The request body is too large.'],
  ['422', 'The request is well-formed but cannot be served.'],
  ['429', 'A rate limit was reached. Retry after the time in Retry-After.'],
  ['500', 'The server or the model failed.'],
  ['503', 'The server or the model is at capacity or not ready. Retry after the time in Retry-After.'],
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

function errorsOf({ error, path }: Operation): readonly AnswerName[] {
  if (error === 'either') return ['ChatError', 'MessagesError'];
  if (error !== undefined) return [error];
  if (path.startsWith('/api/')) return ['OllamaError'];
  return [path.startsWith('/v1/messages') ? 'MessagesError' : 'ChatError'];
}

const RANKING = 'Reranking and scores';

/** Maps path prefixes of operations to OpenAPI tags. The first matching prefix applies. */
const TAGS: readonly (readonly [prefix: string, tag: string])[] = [
  ['/v1/chat/', 'Chat Completions'],
  ['/v1/completions', 'Completions'],
  ['/infill', 'Completions'],
  ['/v1/batches', 'Batches'],
  ['/v1/messages/batches', 'Batches'],
  ['/v1/messages', 'Messages'],
  ['/v1/responses', 'Responses'],
  ['/v1/conversations', 'Conversations'],
  ['/v1/files', 'Files'],
  ['/v1/uploads', 'Files'],
  ['/v1/models', 'Models'],
  ['/v1/load_lora_adapter', 'Models'],
  ['/v1/unload_lora_adapter', 'Models'],
  ['/lora-adapters', 'Models'],
  ['/v1/decisions', 'Decisions'],
  ['/v1/embeddings', 'Embeddings'],
  ['/v1/rerank', RANKING],
  ['/v2/rerank', RANKING],
  ['/rerank', RANKING],
  ['/v1/score', RANKING],
  ['/score', RANKING],
  ['/api/', "Ollama's API"],
  ['/', 'Tokens and model properties'],
];

const tagOf = (path: string): string => TAGS.find(([prefix]) => path.startsWith(prefix))?.[1] ?? '';

/** Returns the content types of a response that is not a stream of events. */
function bodyOf({ answer, isText }: Operation): Json {
  if (answer === 'binary') return { 'application/octet-stream': {} };
  const schema = oneOf(typeof answer === 'string' ? [answer] : answer);
  return isText === true ? { 'text/plain': { schema } } : json(schema);
}

function operationOf(operation: Operation): Json {
  const errorBody = json(oneOf(errorsOf(operation)));
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
    ...bodyOf(operation),
    ...(operation.stream === undefined ? {} : { 'text/event-stream': { schema: ref(operation.stream) } }),
    ...(operation.lines === undefined ? {} : { 'application/x-ndjson': { schema: ref(operation.lines) } }),
  };
  return {
    operationId: operation.id,
    tags: [tagOf(operation.path)],
    summary: operation.summary,
    ...(inPath.length + inQuery.length === 0 ? {} : { parameters: [...inPath, ...inQuery] }),
    ...(operation.request === undefined
      ? {}
      : { requestBody: { required: true, content: json(ref(operation.request)) } }),
    ...(operation.form === undefined
      ? {}
      : { requestBody: { required: true, content: { 'multipart/form-data': { schema: operation.form } } } }),
    responses: {
      200: { description: 'The response.', content },
      ...Object.fromEntries(STATUSES.map(([status, description]) => [status, { description, content: errorBody }])),
    },
  };
}

/** Builds the complete document. This takes several milliseconds, so call it only once. */
export function openApiDocument(limits: PublishedLimits): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = operationOf(operation);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Monolith',
      version: VERSION,
      description:
        "LLM inference server with the OpenAI Chat Completions, OpenAI Responses and Anthropic Messages APIs, and Ollama's API.",
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags: [...new Set(TAGS.map(([, name]) => name))].map((name) => ({ name })),
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

/** The published response schemas, for tests. */
export const publishedAnswers: Readonly<Record<AnswerName, z.ZodType>> = answers;
