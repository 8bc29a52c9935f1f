// Which models a server offers: models/catalog.json, or files and folders named on the command line.
import { existsSync, readFileSync, readdirSync, statSync, type Stats } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { MAX_IDLE_MINUTES, MAX_OUTPUT_TOKENS, MAX_REPEATS, MIN_REPEATS, QUANTIZE_TYPES } from '../config/kinds.js';
import type { Upstream } from '../config/upstream.js';
import { loadAddon, packageRoot } from './load-addon.js';

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
  /** A GGUF file or a Hugging Face folder; relative to the catalog. Several models may name the same one: it is loaded once. */
  file: z.string().min(1),
  /** Matrices of floats are stored so while loading; absent or null: as they are. */
  quantize: z.enum(QUANTIZE_TYPES).nullable().optional(),
  /**
   * What guesses what this model will say, for the same answers, sooner: another model, smaller and of the same vocabulary, or
   * a file made to guess for it (an EAGLE-3 head), relative to the catalog (or, of a setting, to the working folder).
   */
  draft: z.string().min(1).max(4096).nullable().optional(),
  /**
   * A GGUF file of its vision tower ("mmproj"), relative to the catalog (or, of a setting, to the working folder); null: it does
   * not see. Absent: what lies beside the file under a usual name (vision-file.ts).
   */
  vision: z.string().min(1).nullable().optional(),
  /** Whose way of resizing and cutting images, where they differ: llama.cpp's (absent), or that of the model's makers. */
  vision_resize: z.enum(['llama.cpp', 'original']).optional(),
  /** How the tower computes with weights of 16 bits: in integers of 16 bits (absent), or in floats of 32. */
  vision_precision: z.enum(['fast', 'exact']).optional(),
  display_name: z.string().min(1).max(128),
  /** Small and made to show the service, not to work with: whoever meets it is told so. */
  demonstration: z.boolean().optional(),
  /** Release time, seconds since 1970. */
  created: z.number().int().min(0),
  lifecycle: z.enum(['active', 'deprecated', 'retired']),
  /** What becomes of the name and when; the model to be used instead. */
  deprecated_at: z.iso.datetime({ offset: true }).nullable().optional(),
  retires_at: z.iso.datetime({ offset: true }).nullable().optional(),
  successor: id.nullable().optional(),
  /** `demand`: loaded when it is first asked for, and not with the server. */
  load: z.enum(['start', 'demand']).optional(),
  /** Its memory is given back when nobody has asked for so long, until somebody does; absent or null: never. */
  idle_minutes: z.number().gt(0).max(MAX_IDLE_MINUTES).nullable().optional(),
  /** Its memory is not given back, neither for time nor for another model. */
  pinned: z.boolean().optional(),
  /** Prompt plus output; null: what the file and the memory allow. */
  context_window: z.number().int().min(1).nullable(),
  /** Cap of one answer, and what it gets when the client names none; null: what the context leaves, up to MAX_OUTPUT_TOKENS. */
  max_output_tokens: z.number().int().min(1).max(MAX_OUTPUT_TOKENS).nullable(),
  /** An answer ends where the same run of tokens stands so often in a row; absent or null: never. */
  max_repeats: z.number().int().min(MIN_REPEATS).max(MAX_REPEATS).nullable().optional(),
  input_modalities: z.array(z.enum(['text', 'image'])).min(1),
  /** What a model without vision does with images: refuses them, or is given a line of text in each one's place. */
  image_input: z.enum(['refuse', 'note']).default('refuse'),
  /** White space in answers bound to JSON, instead of structured_outputs.white_space: for a model that is lost without what it learned. */
  white_space: z.enum(['compact', 'flexible']).optional(),
  default_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']),
  sampling,
});

const catalog = z.strictObject({
  /** Highest tier first: the order of GET /v1/models. */
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

export type CatalogModel = Readonly<z.infer<typeof catalogModel>> & {
  /** Where it runs, if that is not here: it has no file then. */
  readonly upstream?: Upstream | undefined;
  /** What an operator has set of `sampling`. */
  readonly givenSampling?: Readonly<Partial<z.infer<typeof sampling>>> | undefined;
};

/** What an operator may set otherwise for one model. */
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
    | 'lifecycle'
    | 'deprecated_at'
    | 'retires_at'
    | 'successor'
    | 'upstream']?: CatalogModel[K] | undefined;
} & { readonly sampling?: Readonly<Partial<CatalogModel['sampling']>> | undefined };

/** A catalog or a model file that cannot be used; the message names the file and the place in it. */
export class CatalogError extends Error {
  constructor(where: string, problem: string) {
    super(`${where}: ${problem}`);
    this.name = 'CatalogError';
  }
}

export const builtInCatalog: string = join(packageRoot, 'models', 'catalog.json');

/** Reads a catalog; the models' files come back as absolute paths, and exist. Throws CatalogError. */
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
    throw new CatalogError(path, `${issue?.path.join('.') || 'the whole'}: ${issue?.message ?? 'is no catalog'}`);
  }
  return parsed.data.models.map((model) => {
    const file = resolve(dirname(path), model.file);
    if (!existsSync(file)) throw new CatalogError(path, `models "${model.id}": ${file} is not there`);
    const draft = typeof model.draft === 'string' ? resolve(dirname(path), model.draft) : '';
    return {
      ...model,
      file,
      ...(existsSync(draft) ? { draft } : {}),
      ...(typeof model.vision === 'string' ? { vision: resolve(dirname(path), model.vision) } : {}),
    };
  });
}

/** Of a model whose authors recommend nothing: as it was trained to speak. */
export const PLAIN_SAMPLING: CatalogModel['sampling'] = {
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
};

/** What a model's authors recommend: each value as far as it can be offered. */
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
 * The sampling that a model's authors recommend: generation_config.json beside a folder's tensors, or the keys `general.sampling.*`
 * of a GGUF file. Nothing where there is none or it is damaged: it is optional, and whoever loads the model names what is wrong.
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

/** A GGUF file has floats of 32 bits: what was written as 0.6 is 0.6 to whoever reads it here. */
const withoutNoise = (values: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value.toPrecision(7))]));

/** Bytes of a model's weights: of the file and its other parts, or of all *.safetensors in the folder; null if nothing is there. */
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

/** What a model may be called. Null: it may; else why it may not. */
export function nameProblem(name: string): string | null {
  const checked = id.safeParse(name);
  return checked.success ? null : (checked.error.issues[0]?.message ?? 'is no name');
}

/** A model that is just a file or folder under a name: everything else as it says. Throws CatalogError. */
export function modelOfFile(name: string, path: string): CatalogModel {
  const file = resolve(path);
  const problem = nameProblem(name);
  if (problem !== null) throw new CatalogError(`model name "${name}"`, problem);
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) throw new CatalogError(file, 'is not there');
  const isFolder = isModelFolder(file, stat);
  if (!stat.isFile() && !isFolder) throw new CatalogError(file, 'is no file, and no folder with a config.json');
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
    // Without effect on a model that cannot reason.
    default_effort: 'medium',
    sampling: { ...PLAIN_SAMPLING, ...recommendedSampling(file, isFolder) },
  };
}

/** A model that runs elsewhere. What its server's own defaults are is not known. */
export function modelElsewhere(name: string, upstream: Upstream): CatalogModel {
  const checked = id.safeParse(name);
  if (!checked.success)
    throw new CatalogError(`model name "${name}"`, checked.error.issues[0]?.message ?? 'is no name');
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

/** The models with an operator's settings applied. Settings for a model that is not there: CatalogError. */
export function withOverrides(
  models: readonly CatalogModel[],
  overrides: Readonly<Record<string, CatalogOverride>>,
): CatalogModel[] {
  for (const name of Object.keys(overrides)) {
    if (!models.some((model) => model.id === name)) {
      throw new CatalogError('models', `"${name}" is none of ${models.map((model) => model.id).join(', ')}`);
    }
  }
  return models.map((model) => {
    const { sampling: ofSampling, ...others } = overrides[model.id] ?? {};
    const vision = typeof others.vision === 'string' ? resolve(others.vision) : others.vision;
    if (typeof vision === 'string' && !existsSync(vision))
      throw new CatalogError(`models "${model.id}": vision`, `${vision} is not there`);
    return {
      ...model,
      ...given({ ...others, vision }),
      sampling: { ...model.sampling, ...given(ofSampling ?? {}) },
      ...(model.upstream === undefined ? {} : { givenSampling: given(ofSampling ?? {}) }),
    };
  });
}

/** What guesses for a model: another model's file, or one of its own kind. */
export type DraftFile = Pick<CatalogModel, 'file' | 'quantize'>;

/** What guesses for each model that has a draft. Throws CatalogError for a draft that is not there, or has one itself. */
export function checkedDrafts(models: readonly CatalogModel[]): ReadonlyMap<string, DraftFile> {
  const byName = new Map(models.map((model) => [model.id, model]));
  const drafts = new Map<string, DraftFile>();
  for (const { id: name, draft } of models) {
    if (draft === undefined || draft === null) continue;
    const found = byName.get(draft);
    const where = `models "${name}": draft`;
    if (found?.upstream !== undefined) throw new CatalogError(where, `"${draft}" runs elsewhere`);
    if (found === undefined) {
      if (!existsSync(draft))
        throw new CatalogError(where, `"${draft}" is none of ${[...byName.keys()].join(', ')}, and no file`);
      drafts.set(name, { file: resolve(draft) });
      continue;
    }
    if (draft === name) throw new CatalogError(where, 'is the model itself');
    if (found.draft !== undefined && found.draft !== null)
      throw new CatalogError(where, `"${draft}" has a draft itself, "${found.draft}"`);
    drafts.set(name, found);
  }
  return drafts;
}

/** Further names, checked: each of a model that is there, none a model's own. Throws CatalogError. */
export function checkedAliases(
  models: readonly CatalogModel[],
  aliases: Readonly<Record<string, string>>,
): ReadonlyMap<string, string> {
  const names = new Set(models.map((model) => model.id));
  for (const [alias, target] of Object.entries(aliases)) {
    if (names.has(alias)) throw new CatalogError('models.aliases', `"${alias}" is a model of its own`);
    if (!names.has(target))
      throw new CatalogError(
        'models.aliases',
        `"${alias}" stands for "${target}", which is none of ${[...names].join(', ')}`,
      );
  }
  return new Map(Object.entries(aliases));
}

/** Without the properties that are undefined. */
function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
