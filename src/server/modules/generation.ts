// The routes of the API formats, over HTTP and WebSocket.

import { SearchService } from '../../generation/web-search/search-service.js';
import { createImageLoader } from '../../generation/images/load-images.js';
import type { Route } from '../../http/exchange.js';
import type { GenerationDeps } from '../../protocol/admit.js';
import { Affinity } from '../../protocol/affinity.js';
import { chatCompletionsRoute } from '../../protocol/chat-completions/routes.js';
import { storedChatRoutes } from '../../protocol/chat-completions/stored-routes.js';
import { conversationRoutes } from '../../protocol/conversations/routes.js';
import { completionsRoute } from '../../protocol/completions/routes.js';
import { decisionsRoute } from '../../protocol/decisions/routes.js';
import { embeddingsRoute } from '../../protocol/embeddings/routes.js';
import { requestMemoryOf } from '../../http/request-memory-budget.js';
import type { RequestMemoryBudget } from '../../http/request-memory-budget.js';
import { openSharedWork } from '../../http/shared-work.js';
import type { SharedWork } from '../../http/shared-work.js';
import { FileInputs, withFileInputs } from '../../protocol/file-inputs/file-inputs.js';
import { fileRoutes } from '../../protocol/files/routes.js';
import { infillRoute } from '../../protocol/infill/routes.js';
import { messagesRoutes } from '../../protocol/messages/routes.js';
import { openApiRoute } from '../../protocol/openapi/routes.js';
import { rerankRoutes } from '../../protocol/rerank/routes.js';
import { responsesRoutes } from '../../protocol/responses/routes.js';
import { responsesSocket } from '../../protocol/responses/socket.js';
import { RunningResponses } from '../../protocol/responses/stored-running.js';
import { PromptMemory } from '../../protocol/prompt-cache/prompt-memory.js';
import { RunningGenerations } from '../../protocol/running-generations.js';
import { tokenRoutes } from '../../protocol/tokens/routes.js';
import { tokenizerInfo } from '../engine-status.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Authentication } from './authentication.js';
import type { Limits } from './limits.js';
import type { Background } from './background.js';
import type { Budgets } from './budgets.js';
import type { Engines } from './engines.js';
import type { Models } from './models.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';
import type { Recorders } from './recorders.js';

export interface Generation extends Module {
  /** POST /v1/chat/completions. */
  readonly chat: Route;
  readonly deps: GenerationDeps;
  /** The memory budget for request bodies, and for the files to which requests refer. */
  readonly requestMemory: RequestMemoryBudget;
  /** Shared by HTTP requests and requests of batches. */
  readonly sharedWork: SharedWork;
}

export interface GenerationContext extends AppContext {
  storage: Storage;
  recorders: Recorders;
  background: Background;
  budgets: Budgets;
  authentication: Authentication;
  engines: Engines;
  models: Models;
  limits: Limits;
  secrets: Secrets;
}

export function openGeneration({
  config,
  telemetry,
  shared,
  storage: { responses, conversations, completions, files, uploads, wallClock, bus, replays },
  recorders: { usage, requests },
  background: { background },
  budgets: { budgetGate },
  authentication: { accounts },
  engines: { pool },
  models: { models },
  limits: { admission },
  secrets: { sealer, keys },
}: GenerationContext): Promise<Generation> {
  return openModule((undo) => {
    const generations = new RunningGenerations(accounts, (err) =>
      telemetry.log.error({ err }, 'cannot look up organizations and keys of running generations'),
    );
    undo.add(() => generations.close());
    const generation: GenerationDeps = {
      models,
      admission,
      budgets: budgetGate,
      telemetry,
      usage,
      requests,
      images: createImageLoader(config.images),
      limits: { maxN: config.limits.max_n, maxTools: config.limits.max_tools },
      generations,
      webSearch: searchServiceOf(config.tools.web_search, telemetry),
      mcp:
        config.mcp.allowed_hosts.length === 0
          ? undefined
          : { settings: config.mcp, observe: (outcome, ms) => telemetry.mcpCalled(outcome, ms / 1000) },
      prompts: new PromptMemory(shared.prompts),
      replays: replays ?? undefined,
      affinity: config.redis.url === null ? undefined : new Affinity(keys.current.affinity),
    };
    const running = new RunningResponses(bus, background);
    const foreignThinking = config.foreign_thinking;
    const requestMemory = requestMemoryOf(config.http);
    const fileInputs = new FileInputs(files, requestMemory);
    const stored = {
      ...generation,
      fileInputs,
      sealer,
      foreignThinking,
      responses,
      conversations,
      settings: config.responses,
      background,
      running,
    };
    const names = (): string[] => pool.models().map(({ model }) => model.id);
    const chat = withFileInputs(
      chatCompletionsRoute({
        ...generation,
        foreignThinking,
        reasoningField: config.chat.reasoning_field,
        completions,
      }),
      'chat',
      fileInputs,
    );
    return {
      chat,
      deps: generation,
      requestMemory,
      sharedWork: openSharedWork(config.http),
      routes: [
        openApiRoute({ maxN: config.limits.max_n }),
        chat,
        ...storedChatRoutes({ completions }),
        completionsRoute(generation),
        embeddingsRoute(generation),
        decisionsRoute({ ...generation, sealer }),
        ...rerankRoutes(generation),
        infillRoute({ ...generation, names }),
        ...tokenRoutes({
          ...generation,
          foreignThinking,
          names,
          info: (name) => tokenizerInfo(pool, name),
        }),
        ...messagesRoutes({ ...generation, sealer, foreignThinking, settings: config.responses }).map((route) =>
          withFileInputs(route, 'messages', fileInputs),
        ),
        ...responsesRoutes(stored).map((route) => withFileInputs(route, 'responses', fileInputs)),
        ...conversationRoutes({ conversations, sealer, foreignThinking }),
        ...fileRoutes({ files, uploads, settings: config.files, now: wallClock }),
      ],
      sockets: [
        responsesSocket({ ...stored, maxAgeS: config.ws.max_age_s, maxMessageBytes: config.ws.max_message_bytes }),
      ],
    };
  });
}

/** Returns undefined if no search service is configured. */
function searchServiceOf(
  { url, ...settings }: AppContext['config']['tools']['web_search'],
  telemetry: AppContext['telemetry'],
): SearchService | undefined {
  if (url === null) return undefined;
  return new SearchService(
    { ...settings, url },
    (outcome, ms) => telemetry.searched(outcome, ms / 1000),
    (err) => telemetry.log.warn({ err }, 'web search failed'),
  );
}
