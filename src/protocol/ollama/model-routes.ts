// GET /api/version, /api/tags and /api/ps, and POST /api/show: the served models in Ollama's format.
import { createHash } from 'node:crypto';
import type { ModelDescription } from '../../generation/model-description.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { mayUse, shownTo } from '../../shared/permissions.js';
import { VERSION } from '../../shared/version.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveInOllama } from '../ineffective.js';
import { validated } from '../validation.js';
import { findTagged, taggedName } from './model-name.js';
import { showRequestSchema } from './schema.js';

/** The known properties of a model's file; null if unknown because the model is not loaded or runs on an upstream. */
export interface OllamaModelFacts {
  readonly bytes: number | null;
  readonly architecture: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  readonly chatTemplate: string | null;
  readonly isLoaded: boolean;
}

export interface OllamaModels {
  /** Sorted by tier, highest first. */
  list(): readonly ModelDescription[];
  /** Throws ApiError 404. */
  find(asked: string, isShown: (name: string) => boolean): { description: ModelDescription; name: string };
  facts(name: string): OllamaModelFacts;
  /** Determines, from its file, the task of a model that has not been loaded yet. Never rejects. */
  taskInFile(name: string): Promise<ModelDescription['task']>;
}

/** Ollama's date for a model that stays loaded indefinitely. */
const NO_EXPIRY = '9999-12-31T23:59:59Z';

export function ollamaModelRoutes(models: OllamaModels): Route[] {
  const shown = (exchange: Exchange): ModelDescription[] =>
    models.list().filter(({ id, lifecycle }) => mayUse(exchange.identity, id) && lifecycle !== 'retired');
  return [
    {
      method: 'GET',
      path: '/api/version',
      scope: null,
      handler: (exchange) => exchange.json(200, { version: VERSION }),
    },
    {
      method: 'GET',
      path: '/api/tags',
      scope: 'models.read',
      handler: (exchange) =>
        exchange.json(200, { models: shown(exchange).map((one) => listed(one, models.facts(one.id))) }),
    },
    {
      method: 'GET',
      path: '/api/ps',
      scope: 'models.read',
      handler: (exchange) =>
        exchange.json(200, {
          models: shown(exchange).flatMap((one) => {
            const facts = models.facts(one.id);
            return facts.isLoaded ? [running(one, facts)] : [];
          }),
        }),
    },
    { method: 'POST', path: '/api/show', scope: 'models.read', handler: (exchange) => show(exchange, models) },
  ];
}

async function show(exchange: Exchange, models: OllamaModels): Promise<void> {
  const { body, identity } = exchange;
  const asked = modelField(validated(showRequestSchema, body));
  const { description, name } = findTagged(asked, (one) => models.find(one, shownTo(identity)));
  if (!mayUse(identity, name))
    throw apiError('model_not_allowed', `This API key does not have access to the model "${asked}".`, 'model');
  nameIgnored({ parameters: ineffectiveInOllama(showRequestSchema, body as Record<string, unknown>) }, exchange);
  const facts = models.facts(name);
  const task = description.task ?? (await models.taskInFile(name));
  const architecture = facts.architecture ?? 'unknown';
  exchange.json(200, {
    license: '',
    modelfile: '',
    system: '',
    parameters: Object.entries(description.sampling)
      .map(([option, value]) => `${(OPTIONS[option] ?? option).padEnd(30)} ${value}`)
      .join('\n'),
    template: facts.chatTemplate ?? '',
    details: details(description, facts),
    model_info: {
      'general.architecture': architecture,
      ...(facts.parameters === null ? {} : { 'general.parameter_count': facts.parameters }),
      [`${architecture}.context_length`]: description.contextWindow,
      ...(description.embeddingDimensions === null
        ? {}
        : { [`${architecture}.embedding_length`]: description.embeddingDimensions[0] }),
    },
    capabilities: capabilities({ ...description, task }, facts),
    modified_at: description.createdAt.toISOString(),
  });
}

/** Ollama's names of sampling defaults that differ from this server's. */
const OPTIONS: Readonly<Record<string, string>> = { repetition_penalty: 'repeat_penalty' };

/** Throws ApiError 400 if neither field is given. */
export function modelField({
  model,
  name,
}: {
  model?: string | null | undefined;
  name?: string | null | undefined;
}): string {
  const asked = model || name;
  if (!asked) throw apiError('missing_required_parameter', 'model is required.', 'model');
  return asked;
}

/** Clients use these capabilities to decide whether to show buttons for tools, images and so on. */
function capabilities(
  { efforts, inputModalities, task }: ModelDescription,
  { chatTemplate }: OllamaModelFacts,
): string[] {
  if (task === 'embedding') return ['embedding'];
  // Ollama has no capability name for rerankers.
  if (task === 'ranking') return [];
  return [
    'completion',
    ...(chatTemplate === null || chatTemplate.includes('tools') ? ['tools'] : []),
    ...(efforts.some((effort) => effort !== 'none') ? ['thinking'] : []),
    ...(inputModalities.includes('image') ? ['vision'] : []),
  ];
}

function details({ adapter }: ModelDescription, { architecture, parameters, quantization }: OllamaModelFacts): object {
  return {
    parent_model: adapter === null ? '' : taggedName(adapter.parent),
    format: 'gguf',
    family: architecture ?? '',
    families: architecture === null ? [] : [architecture],
    parameter_size: parameters === null ? '' : sizeOf(parameters),
    quantization_level: quantization ?? '',
  };
}

/** 7_241_732_096 → "7.2B". */
function sizeOf(parameters: number): string {
  const [unit, letter] = parameters >= 1e9 ? [1e9, 'B'] : parameters >= 1e6 ? [1e6, 'M'] : [1e3, 'K'];
  return `${(parameters / unit).toFixed(1)}${letter}`;
}

/**
 * Clients use the digest only to distinguish models and to notice changes. It is not a hash of the weights, because
 * computing that would require reading whole files.
 */
const digestOf = ({ id, createdAt }: ModelDescription, { bytes }: OllamaModelFacts): string =>
  createHash('sha256').update(`${id}\n${createdAt.toISOString()}\n${bytes}`).digest('hex');

function identityOf(model: ModelDescription, facts: OllamaModelFacts): object {
  return {
    name: taggedName(model.id),
    model: taggedName(model.id),
    size: facts.bytes ?? 0,
    digest: digestOf(model, facts),
    details: details(model, facts),
  };
}

const listed = (model: ModelDescription, facts: OllamaModelFacts): object => ({
  ...identityOf(model, facts),
  modified_at: model.createdAt.toISOString(),
});

const running = (model: ModelDescription, facts: OllamaModelFacts): object => ({
  ...identityOf(model, facts),
  expires_at: NO_EXPIRY,
  size_vram: 0,
  context_length: model.contextWindow,
});
