// The models that a server offers, from models/catalog.json or from files and directories named on the command line.
import { existsSync, readFileSync, readdirSync, statSync, type Stats } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import {
  embeddingDimensions,
  embeddingPrompts,
  MAX_IDLE_MINUTES,
  MAX_OUTPUT_TOKENS,
  MAX_REPEATS,
  MIN_REPEATS,
  QUANTIZE_TYPES,
} from '../config/kinds.js';
import type { Upstream } from '../config/upstream.js';
import { installedPackage, loadAddon, packageRoot } from './load-addon.js';

const sampling = z.strictObject({
  temperature: z.number().min(0).max(2),
  top_p: z.number().gt(0).max(1),
  top_k: z.number().int().min(0),
  min_p: z.number().min(0).max(1),
  repetition_penalty: z.number().gt(0).max(2),
});

const id = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/,
    'must be 1 to 128 letters, digits or ._:/- and begin with a letter or digit',
  );

const catalogModel = z.strictObject({
  id,
  /**
   * A GGUF file or a Hugging Face directory, relative to the catalog. Models with the same file share one loaded copy.
   */
  file: z.string().min(1),
  /** The type to which float matrices are quantized when the model is loaded; absent or null = not quantized. */
  quantize: z.enum(QUANTIZE_TYPES).nullable().optional(),
  /**
   * The draft model for speculative decoding: a smaller model with the same vocabulary, or an EAGLE-3 head. Relative to
   * the catalog, or to the working directory if it comes from a setting.
   */
  draft: z.string().min(1).max(4096).nullable().optional(),
  /**
   * GGUF file of the vision encoder ("mmproj"). Relative to the catalog, or to the working directory if it comes from a
   * setting. Null means no image input. If absent, a file with one of the usual names next to the model file is used
   * (vision-file.ts).
   */
  vision: z.string().min(1).nullable().optional(),
  /**
   * Which image preprocessing to use where llama.cpp and the model's authors differ: llama.cpp's (the default) or the
   * authors' original.
   */
  vision_resize: z.enum(['llama.cpp', 'original']).optional(),
  /** Arithmetic for 16-bit vision weights. fast (the default): 16-bit integers; exact: 32-bit floats. */
  vision_precision: z.enum(['fast', 'exact']).optional(),
  display_name: z.string().min(1).max(128),
  /**
   * Whether this is a small model for trying out the service rather than for real work. Shown by the API and the
   * dashboard.
   */
  demonstration: z.boolean().optional(),
  /** The model's output type. If absent, it is unknown until the model is loaded for the first time. */
  task: z.enum(['generation', 'embedding', 'ranking']).optional(),
  /** Release time, in seconds since the Unix epoch. */
  created: z.number().int().min(0),
  lifecycle: z.enum(['active', 'deprecated', 'retired']),
  /** The model's deprecation and retirement dates, and its successor. */
  deprecated_at: z.iso.datetime({ offset: true }).nullable().optional(),
  retires_at: z.iso.datetime({ offset: true }).nullable().optional(),
  successor: id.nullable().optional(),
  /** `demand`: the model is loaded on the first request instead of at server startup. */
  load: z.enum(['start', 'demand']).optional(),
  /**
   * The model is unloaded after this many minutes without a request, and loaded again on the next request; absent or
   * null = never unloaded.
   */
  idle_minutes: z.number().gt(0).max(MAX_IDLE_MINUTES).nullable().optional(),
  /** If true, the model is never unloaded, neither when idle nor to free memory for another model. */
  pinned: z.boolean().optional(),
  /** Maximum number of prompt and output tokens in total; null: as many as the model file and the memory allow. */
  context_window: z.number().int().min(1).nullable(),
  /**
   * Maximum number of output tokens, which is also the default if the client does not set a limit; null: what remains
   * of the context after the prompt, up to MAX_OUTPUT_TOKENS.
   */
  max_output_tokens: z.number().int().min(1).max(MAX_OUTPUT_TOKENS).nullable(),
  /** Ends a response when the same sequence of tokens repeats this many times in a row; absent or null: never. */
  max_repeats: z.number().int().min(MIN_REPEATS).max(MAX_REPEATS).nullable().optional(),
  input_modalities: z.array(z.enum(['text', 'image'])).min(1),
  /**
   * How a model without a vision encoder handles images: `refuse` them, or replace each with a `note` (one line of
   * text).
   */
  image_input: z.enum(['refuse', 'note']).default('refuse'),
  /**
   * Whitespace in responses constrained to JSON; overrides structured_outputs.white_space. For models whose quality
   * degrades without the formatting they were trained on.
   */
  white_space: z.enum(['compact', 'flexible']).optional(),
  /**
   * Shorter vector lengths that an embedding model was trained for. Defaults to the documented lengths of its model
   * family.
   */
  embedding_dimensions: embeddingDimensions.optional(),
  /** Named texts that an embedding model expects before its inputs. `default` applies if the request names none. */
  embedding_prompts: embeddingPrompts.optional(),
  /**
   * Whether embeddings are scaled to length 1. Defaults to true, unless the model's own files omit the normalization.
   */
  normalize: z.boolean().optional(),
  default_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']),
  sampling,
});

const catalog = z.strictObject({
  /** The models, sorted by tier, highest first. GET /v1/models returns them in the same order. */
  models: z
    .array(catalogModel)
    .min(1)
    .superRefine((models, context) => {
      const seen = new Set<string>();
      models.forEach((model, index) => {
        if (seen.has(model.id))
          context.addIssue({ code: 'custom', path: [index, 'id'], message: `"${model.id}" is listed twice` });
        seen.add(model.id);
      });
    }),
});

/** A LoRA adapter and its base model. */
export interface AdapterSource {
  /** Name of the adapter's base model in the catalog or the pool. */
  readonly base: string;
  /** The NAME part of the public name MODEL:NAME. */
  readonly name: string;
  /** A GGUF file or a PEFT folder. */
  readonly path: string;
  /** Multiplies the adapter's contribution. */
  readonly scale: number;
  /** The setting that declares the adapter, for error messages; null if an operator loaded it at run time. */
  readonly setting: string | null;
  /**
   * Time at which an operator loaded the adapter, in RFC 3339. Absent if the adapter is declared in the
   * configuration.
   */
  readonly addedAt?: string;
}

export type CatalogModel = Readonly<z.infer<typeof catalogModel>> & {
  /** The upstream, if the model does not run here. Upstream models have no file. */
  readonly upstream?: Upstream | undefined;
  /** Set if this is a LoRA adapter of another model. `file` is then the model's file. */
  readonly adapter?: AdapterSource | undefined;
  /** The sampling values set by an operator. */
  readonly givenSampling?: Readonly<Partial<z.infer<typeof sampling>>> | undefined;
};

/** Properties of a model that an operator may override. */
export type CatalogOverride = {
  readonly [K in
    | 'quantize'
    | 'draft'
    | 'vision'
    | 'vision_precision'
    | 'vision_resize'
    | 'context_window'
    | 'max_output_tokens'
    | 'max_repeats'
    | 'load'
    | 'idle_minutes'
    | 'pinned'
    | 'default_effort'
    | 'display_name'
    | 'image_input'
    | 'embedding_dimensions'
    | 'embedding_prompts'
    | 'normalize'
    | 'lifecycle'
    | 'deprecated_at'
    | 'retires_at'
    | 'successor'
    | 'upstream']?: CatalogModel[K] | undefined;
} & { readonly sampling?: Readonly<Partial<CatalogModel['sampling']>> | undefined };

/** Thrown for an unusable catalog or model file. The message names the file and the position within it. */
export class CatalogError extends Error {
  constructor(where: string, problem: string) {
    super(`${where}: ${problem}`);
    this.name = 'CatalogError';
  }
}

export const builtInCatalog: string = join(packageRoot, 'models', 'catalog.json');
/** In an npm installation, a separate package contains the models of the built-in catalog. */
const MODELS_PACKAGE = 'monolith-server-models';

/** The directory that contains `file` and the catalog's other files. */
function modelsFolder(path: string, file: string | undefined): string {
  const folder = dirname(path);
  if (path !== builtInCatalog || file === undefined || existsSync(join(folder, file))) return folder;
  return installedPackage(MODELS_PACKAGE) ?? folder;
}

/** Reads a catalog. Model files are returned as absolute paths and are known to exist. Throws CatalogError. */
export function readCatalog(path: string = builtInCatalog): CatalogModel[] {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new CatalogError(path, error instanceof Error ? error.message : String(error));
  }
  const parsed = catalog.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new CatalogError(path, `${issue?.path.join('.') || 'the file'}: ${issue?.message ?? 'is not a catalog'}`);
  }
  const folder = modelsFolder(path, parsed.data.models[0]?.file);
  return parsed.data.models.map((model) => {
    const file = resolve(folder, model.file);
    if (!existsSync(file)) throw new CatalogError(path, `models "${model.id}": ${file} does not exist`);
    const draft = typeof model.draft === 'string' ? resolve(folder, model.draft) : '';
    return {
      ...model,
      file,
      ...(existsSync(draft) ? { draft } : {}),
      ...(typeof model.vision === 'string' ? { vision: resolve(folder, model.vision) } : {}),
    };
  });
}

/** Defaults for models whose authors do not recommend sampling values: the unmodified distribution. */
export const PLAIN_SAMPLING: CatalogModel['sampling'] = {
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
};

/** The authors' recommendations. A value outside its supported range is ignored without affecting the others. */
const { temperature, top_p, top_k, min_p, repetition_penalty } = sampling.shape;
const recommendation = z.object({
  do_sample: z.boolean().optional().catch(undefined),
  temperature: temperature.optional().catch(undefined),
  top_p: top_p.optional().catch(undefined),
  top_k: top_k.optional().catch(undefined),
  min_p: min_p.optional().catch(undefined),
  repetition_penalty: repetition_penalty.optional().catch(undefined),
});

/**
 * The sampling values that a model's authors recommend, from generation_config.json in a Hugging Face directory or from
 * the `general.sampling.*` keys of a GGUF file. Empty if they are missing or corrupt, because they are optional, and
 * loading the model reports any problem with the file.
 */
function recommendedSampling(path: string, isFolder: boolean): Partial<CatalogModel['sampling']> {
  let found: unknown;
  try {
    found = isFolder
      ? JSON.parse(readFileSync(join(path, 'generation_config.json'), 'utf8'))
      : withoutNoise(loadAddon().recommendedSampling(path));
  } catch {
    return {};
  }
  const { data } = recommendation.safeParse(found);
  if (data === undefined || data.do_sample === false) return {};
  const { do_sample: _, ...values } = data;
  return given(values);
}

/** GGUF files store 32-bit floats. Rounds each value to the decimal number that its author intended, such as 0.6. */
const withoutNoise = (values: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value.toPrecision(7))]));

/**
 * Size of a model's weights in bytes: the file including all its parts, or all *.safetensors files in the directory.
 * Null if the file or directory does not exist.
 */
export function modelBytes(path: string): number | null {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  if (stat.isDirectory())
    return bytesOf(
      path,
      readdirSync(path).filter((name) => name.endsWith('.safetensors')),
    );
  const [, stem, count] = /^(.*)-00001-of-(\d{5})\.gguf$/.exec(basename(path)) ?? [];
  if (stem === undefined || count === undefined) return stat.size;
  const ending = `-of-${count}.gguf`;
  return bytesOf(
    dirname(path),
    readdirSync(dirname(path)).filter(
      (name) => name.startsWith(`${stem}-`) && name.endsWith(ending) && name.length === basename(path).length,
    ),
  );
}

function bytesOf(folder: string, names: readonly string[]): number {
  return names.reduce((sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0), 0);
}

const isModelFolder = (path: string, stat: Stats): boolean =>
  stat.isDirectory() && existsSync(join(path, 'config.json'));

/** Returns null if the name is valid, otherwise the reason why it is not. */
export function nameProblem(name: string): string | null {
  const checked = id.safeParse(name);
  return checked.success ? null : (checked.error.issues[0]?.message ?? 'is not a valid name');
}

/**
 * A model specified only by a name and a file or directory. All other properties are read from the file. Throws
 * CatalogError.
 */
export function modelOfFile(name: string, path: string): CatalogModel {
  const file = resolve(path);
  const problem = nameProblem(name);
  if (problem !== null) throw new CatalogError(`model name "${name}"`, problem);
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) throw new CatalogError(file, 'does not exist');
  const isFolder = isModelFolder(file, stat);
  if (!stat.isFile() && !isFolder) throw new CatalogError(file, 'is neither a file nor a folder with a config.json');
  return {
    id: name,
    file,
    display_name: name,
    created: Math.floor(stat.mtimeMs / 1000),
    lifecycle: 'active',
    context_window: null,
    max_output_tokens: null,
    input_modalities: ['text'],
    image_input: 'refuse',
    // The default effort has no effect on models without reasoning.
    default_effort: 'medium',
    sampling: { ...PLAIN_SAMPLING, ...recommendedSampling(file, isFolder) },
  };
}

/** Returns the catalog entry of an upstream model. The upstream's own defaults are unknown. */
export function modelElsewhere(name: string, upstream: Upstream): CatalogModel {
  const checked = id.safeParse(name);
  if (!checked.success)
    throw new CatalogError(`model name "${name}"`, checked.error.issues[0]?.message ?? 'is not a valid name');
  return {
    id: name,
    file: '',
    upstream,
    display_name: name,
    created: Math.floor(Date.now() / 1000),
    lifecycle: 'active',
    context_window: null,
    max_output_tokens: null,
    input_modalities: upstream.images ? ['text', 'image'] : ['text'],
    image_input: 'refuse',
    default_effort: 'medium',
    sampling: PLAIN_SAMPLING,
  };
}

/** Applies an operator's settings to the models. Throws CatalogError if there are settings for an unknown model. */
export function withOverrides(
  models: readonly CatalogModel[],
  overrides: Readonly<Record<string, CatalogOverride>>,
): CatalogModel[] {
  for (const name of Object.keys(overrides)) {
    if (!models.some((model) => model.id === name)) {
      throw new CatalogError('models', `"${name}" is not one of ${models.map((model) => model.id).join(', ')}`);
    }
  }
  return models.map((model) => {
    const { sampling: ofSampling, ...others } = overrides[model.id] ?? {};
    const vision = typeof others.vision === 'string' ? resolve(others.vision) : others.vision;
    if (typeof vision === 'string' && !existsSync(vision))
      throw new CatalogError(`models "${model.id}": vision`, `${vision} does not exist`);
    return {
      ...model,
      ...given({ ...others, vision }),
      sampling: { ...model.sampling, ...given(ofSampling ?? {}) },
      ...(model.upstream === undefined ? {} : { givenSampling: given(ofSampling ?? {}) }),
    };
  });
}

/** The file from which a draft model is loaded: another catalog model's file or a separate file. */
export type DraftFile = Pick<CatalogModel, 'file' | 'quantize'>;

/**
 * Returns the draft model of each model that has one. Throws CatalogError if a draft model does not exist or itself has
 * a draft model.
 */
export function checkedDrafts(models: readonly CatalogModel[]): ReadonlyMap<string, DraftFile> {
  const byName = new Map(models.filter(({ adapter }) => adapter === undefined).map((model) => [model.id, model]));
  const drafts = new Map<string, DraftFile>();
  for (const { id: name, draft } of models) {
    if (draft === undefined || draft === null) continue;
    const found = byName.get(draft);
    const where = `models "${name}": draft`;
    if (found?.upstream !== undefined) throw new CatalogError(where, `"${draft}" is an upstream model`);
    if (found === undefined) {
      if (!existsSync(draft))
        throw new CatalogError(where, `"${draft}" is neither one of ${[...byName.keys()].join(', ')} nor a file`);
      drafts.set(name, { file: resolve(draft) });
      continue;
    }
    if (draft === name) throw new CatalogError(where, 'a model cannot be its own draft');
    if (found.draft !== undefined && found.draft !== null)
      throw new CatalogError(where, `"${draft}" itself has a draft model, "${found.draft}"`);
    drafts.set(name, found);
  }
  return drafts;
}

/** Checks that every alias refers to a known model and does not equal any model's name. Throws CatalogError. */
export function checkedAliases(
  models: readonly CatalogModel[],
  aliases: Readonly<Record<string, string>>,
): ReadonlyMap<string, string> {
  const names = new Set(models.map((model) => model.id));
  for (const [alias, target] of Object.entries(aliases)) {
    if (names.has(alias)) throw new CatalogError('models.aliases', `"${alias}" is already the name of a model`);
    if (!names.has(target))
      throw new CatalogError(
        'models.aliases',
        `"${alias}" refers to "${target}", which is not one of ${[...names].join(', ')}`,
      );
  }
  return new Map(Object.entries(aliases));
}

/** Returns a copy without undefined properties. */
function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
