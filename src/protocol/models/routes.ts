// GET /v1/models and /v1/models/{id}, in the OpenAI or Anthropic format depending on the client.

import { mayUse, shownTo } from '../../shared/permissions.js';
import { apiError } from '../../shared/errors.js';
import type { ModelDescription } from '../../generation/model-description.js';
import type { ReasoningEffort } from '../../generation/types.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { Identity } from '../../shared/identity.js';
import { queryList } from '../../http/query.js';
import { errorFormatOf } from '../../http/error-format.js';

export interface ModelsOptions {
  /** Sorted by tier, highest first. */
  list(): readonly ModelDescription[];
  /**
   * Finds a model by name or alias. The returned description contains the requested name. Throws ApiError 404, whose
   * message lists the models that `isShown` accepts.
   */
  find(asked: string, isShown: (name: string) => boolean): { description: ModelDescription; name: string };
  /** Whether this server runs web searches. */
  webSearch: boolean;
}

export function modelsRoutes(options: ModelsOptions): Route[] {
  return [
    { method: 'GET', path: '/v1/models', scope: 'models.read', handler: (exchange) => serveList(exchange, options) },
    {
      method: 'GET',
      path: '/v1/models/:id',
      slashes: true,
      scope: 'models.read',
      handler: (exchange) => serveOne(exchange, options),
    },
  ];
}

function shapeOf(exchange: Exchange): 'chat' | 'messages' {
  return errorFormatOf('/v1/models', (name) => exchange.header(name)) === 'messages' ? 'messages' : 'chat';
}

function serveOne(exchange: Exchange, options: ModelsOptions): void {
  const id = exchange.params['id'] ?? '';
  const { description: model, name } = options.find(id, shownTo(exchange.identity));
  if (!mayUse(exchange.identity, name))
    throw apiError('model_not_allowed', `This API key does not have access to the model "${id}".`, 'model');
  exchange.json(
    200,
    shapeOf(exchange) === 'chat'
      ? chatModel(model.adapter === null ? model : { ...model, root: name })
      : messagesModel(model, options),
  );
}

function serveList(exchange: Exchange, options: ModelsOptions): void {
  const models = allowed(options.list(), exchange.identity);
  const lifecycles = queryList(exchange.query, 'lifecycle');
  for (const value of lifecycles) {
    if (!['active', 'deprecated', 'retired'].includes(value))
      throw apiError('invalid_query_parameter', 'lifecycle must be active, deprecated or retired.', 'lifecycle');
  }
  const listed = models.filter((model) =>
    lifecycles.length === 0 ? model.lifecycle !== 'retired' : lifecycles.includes(model.lifecycle),
  );
  if (shapeOf(exchange) === 'chat') {
    exchange.json(200, { object: 'list', data: listed.map((model) => chatModel(publicly(model))) });
    return;
  }
  const page = paged(listed.map(publicly), exchange.query);
  exchange.json(200, {
    data: page.models.map((model) => messagesModel(model, options)),
    has_more: page.hasMore,
    first_id: page.models[0]?.id ?? null,
    last_id: page.models.at(-1)?.id ?? null,
  });
}

function allowed(models: readonly ModelDescription[], identity: Identity): readonly ModelDescription[] {
  return models.filter((model) => mayUse(identity, model.id));
}

function paged(
  models: readonly ModelDescription[],
  query: URLSearchParams,
): { models: readonly ModelDescription[]; hasMore: boolean } {
  const text = query.get('limit');
  if (text !== null && !/^-?\d+$/.test(text))
    throw apiError('invalid_query_parameter', 'limit must be an integer.', 'limit');
  const limit = Number(text ?? 20);
  if (limit < 1 || limit > 1000) throw apiError('value_out_of_range', 'limit must be between 1 and 1000.', 'limit');
  const place = (name: string): number | null => {
    const id = query.get(name);
    if (id === null) return null;
    const index = models.findIndex((model) => model.id === id);
    if (index < 0) throw unknownModel(id, name);
    return index;
  };
  const after = place('after_id');
  const before = place('before_id');
  const rest = models.slice(after === null ? 0 : after + 1, before ?? undefined);
  // When paging backwards, the entries closest to the cursor are returned.
  const taken = before !== null && after === null ? rest.slice(-limit) : rest.slice(0, limit);
  return { models: taken, hasMore: taken.length < rest.length };
}

function unknownModel(id: string, param: string): Error {
  return apiError('model_not_found', `There is no model "${id.slice(0, 128)}".`, param);
}

/** `root`: MODEL:NAME, for an adapter that is listed under its short name. */
type Listed = ModelDescription & { root?: string };

/** Lists an adapter under its shortest name, like vLLM. Models are unchanged. */
const publicly = (model: ModelDescription): Listed =>
  model.adapter === null ? model : { ...model, id: model.adapter.shortName, root: model.id };

function chatModel(model: Listed): object {
  return {
    id: model.id,
    object: 'model',
    created: Math.floor(model.createdAt.getTime() / 1000),
    owned_by: 'organization',
    root: model.root ?? model.id,
    parent: model.adapter?.parent ?? null,
    shutdown_date: model.retiresAt,
    display_name: model.displayName,
    demonstration: model.demonstration,
    lifecycle: model.lifecycle,
    deprecated_at: model.deprecatedAt,
    retires_at: model.retiresAt,
    successor: model.successor,
    context_window: model.contextWindow,
    max_model_len: model.contextWindow,
    context_length: model.contextWindow,
    max_output_tokens: model.maxOutputTokens,
    task: model.task,
    embedding_dimensions: model.embeddingDimensions,
    input_modalities: model.inputModalities,
    reasoning_efforts: model.efforts,
    default_reasoning_effort: model.defaultEffort,
    sampling_defaults: model.sampling,
  };
}

function messagesModel(model: ModelDescription, { webSearch }: Pick<ModelsOptions, 'webSearch'>): object {
  const no = { supported: false };
  const supports = (supported: boolean): { supported: boolean } => ({ supported });
  const thinking = model.efforts.some((effort) => effort !== 'none');
  const effort = (level: ReasoningEffort): { supported: boolean } => supports(model.efforts.includes(level));
  return {
    type: 'model',
    id: model.id,
    display_name: model.displayName,
    created_at: model.createdAt.toISOString().replace('.000Z', 'Z'),
    lifecycle: model.lifecycle,
    deprecated_at: model.deprecatedAt,
    retires_at: model.retiresAt,
    successor: model.successor,
    line: null,
    max_input_tokens: model.contextWindow,
    max_tokens: model.maxOutputTokens,
    context_length: model.contextWindow,
    max_model_len: model.contextWindow,
    capabilities: {
      batch: supports(true),
      citations: no,
      code_execution: no,
      context_management: {
        supported: true,
        clear_thinking_20251015: supports(thinking),
        clear_tool_uses_20250919: supports(true),
        compact_20260112: supports(true),
      },
      effort: {
        supported: thinking,
        low: effort('low'),
        medium: effort('medium'),
        high: effort('high'),
        xhigh: effort('xhigh'),
        max: effort('max'),
      },
      image_input: supports(model.inputModalities.includes('image')),
      pdf_input: supports(true),
      server_tools: { supported: webSearch, code_execution: no, web_search: supports(webSearch) },
      structured_outputs: supports(true),
      thinking: {
        supported: thinking,
        types: {
          adaptive: supports(thinking),
          between_tools: no,
          disabled: supports(true),
          enabled: supports(thinking),
        },
      },
    },
  };
}
