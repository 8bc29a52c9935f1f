// The value types of settings. Each type parses text (flags, environment variables) and JSON values (the file) with one
// zod schema, and describes the values that it accepts.

import { z } from 'zod';
import { expanded } from './home.js';
import { oidcRolesSchema, type OidcRoles } from './oidc-roles.js';
import { upstreamSchema, type Upstream } from './upstream.js';

/** Values of `models.<id>.quantize`. */
export const QUANTIZE_TYPES = ['q8_0', 'q6_k', 'q4_k', 'q4_0', 'fp8'] as const;

export interface Kind<T> {
  /** Accepts both the text form and the JSON value. */
  schema: z.ZodType<T>;
  /** Completes the sentence "must be ...". */
  expects: string;
  metavar: string;
  /** The flag takes no value: --x means true, --no-x means false. */
  bare?: boolean;
  /** The flag may be given several times. */
  repeatable?: boolean;
}

const group = (value: number): string => (value < 10_000 ? String(value) : value.toLocaleString('en-US'));

export function text(min: number, max: number): Kind<string> {
  return {
    schema: z.string().min(min).max(max),
    expects: min > 1 ? `${min} to ${max} characters` : 'text',
    metavar: 'TEXT',
  };
}

export const path: Kind<string> = {
  schema: z.string().min(1).transform(expanded),
  expects: 'a path',
  metavar: 'PATH',
};

/** A URL with one of the given schemes, such as https. */
export function url(...schemes: string[]): Kind<string> {
  const isOne = (value: string): boolean =>
    URL.canParse(value) && schemes.includes(new URL(value).protocol.slice(0, -1)) && new URL(value).hostname !== '';
  return {
    schema: z.string().max(512).refine(isOne),
    expects: `a URL that starts with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`,
    metavar: 'URL',
  };
}

/** A search URL, in which `{query}` is replaced by the query. */
export const searchUrl: Kind<string> = {
  schema: z
    .string()
    .max(2048)
    .refine((value) => {
      if (!URL.canParse(value)) return false;
      // The model writes the query, so `{query}` must not appear in the host or in the credentials.
      const { protocol, host, username, password, pathname, search } = new URL(value.replaceAll('{query}', MARK));
      return (
        /^https?:$/.test(protocol) &&
        host !== '' &&
        ![host, username, password].some((part) => part.includes(MARK)) &&
        (pathname + search).includes(MARK)
      );
    }),
  expects: 'a URL that starts with http:// or https:// and contains {query} in its path or query string',
  metavar: 'URL',
};
/**
 * A placeholder for the query while a URL is checked. It is in lower case, because URL() converts hosts to lower case.
 */
const MARK = 'monolithquery';

/** A PostgreSQL URL. The host may be the directory of a Unix socket: postgres://user@/name?host=/run/postgresql. */
export const databaseUrl: Kind<string> = {
  schema: z
    .string()
    .max(2048)
    .refine(
      (value) =>
        URL.canParse(value) &&
        /^postgres(?:ql)?:$/.test(new URL(value).protocol) &&
        (new URL(value).host !== '' || new URL(value).searchParams.has('host')) &&
        new URL(value).pathname.length > 1,
    ),
  expects: 'a URL such as postgres://user:password@host:5432/name',
  metavar: 'URL',
};

export function integer(min: number, max: number): Kind<number> {
  const digits = z
    .string()
    .regex(/^[0-9][0-9_,]*$/)
    .transform((value) => Number(value.replace(/[_,]/g, '')));
  return {
    schema: z.union([z.number(), digits]).pipe(z.number().int().min(min).max(max)),
    expects: `a whole number from ${group(min)} to ${group(max)}`,
    metavar: 'N',
  };
}

/** A fraction from 0 to 1. */
export const share: Kind<number> = {
  schema: z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d*\.?\d+$/)
        .transform(Number),
    ])
    .pipe(z.number().min(0).max(1)),
  expects: 'a number from 0 to 1',
  metavar: 'FRACTION',
};

const fieldName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/);
const fieldValue = z
  .string()
  .min(1)
  .max(4096)
  .regex(/^[\t\x20-\x7e]*$/);

/** HTTP headers by name. Text form: a=b,c=d. */
export const headerFields: Kind<Readonly<Record<string, string>>> = {
  schema: z.union([
    z.record(fieldName, fieldValue),
    z
      .string()
      .transform((value) =>
        Object.fromEntries(
          value
            .split(',')
            .map((one) => one.trim())
            .filter((one) => one !== '')
            .map((one) => {
              const equals = one.indexOf('=');
              return [one.slice(0, Math.max(0, equals)).trim(), one.slice(equals + 1).trim()];
            }),
        ),
      )
      .pipe(z.record(fieldName, fieldValue)),
  ]),
  expects: 'a list of headers such as a=b,c=d',
  metavar: 'A=B,C=D',
};

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 1024,
  kib: 1024,
  m: 1024 ** 2,
  mib: 1024 ** 2,
  g: 1024 ** 3,
  gib: 1024 ** 3,
  t: 1024 ** 4,
  tib: 1024 ** 4,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
};

export function bytes(min: number, max: number): Kind<number> {
  const size = z
    .string()
    .regex(/^\s*[0-9][0-9_,]*(\.[0-9]+)?\s*([kmgt]i?b?|b)?\s*$/i)
    .transform((value) => {
      const [, number = '0', unit = ''] = /^\s*([0-9_,.]+)\s*([a-z]*)\s*$/i.exec(value) ?? [];
      return Math.round(Number(number.replace(/[_,]/g, '')) * (UNITS[unit.toLowerCase()] ?? 1));
    });
  return {
    schema: z.union([z.number(), size]).pipe(z.number().int().min(min).max(max)),
    expects: `a size from ${min === 0 ? '0' : showBytes(min)} to ${showBytes(max)}`,
    metavar: 'SIZE',
  };
}

/** 1536 → "1.5 KiB". */
export function showBytes(value: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toFixed(value < 10 && unit > 0 ? 2 : unit > 0 ? 1 : 0))} ${units[unit] as string}`;
}

export const flag: Kind<boolean> = {
  schema: z.union([
    z.boolean(),
    z
      .string()
      .toLowerCase()
      .pipe(z.enum(['true', 'on', 'yes', '1', 'false', 'off', 'no', '0']))
      .transform((value) => ['true', 'on', 'yes', '1'].includes(value)),
  ]),
  expects: 'true or false',
  metavar: '',
  bare: true,
};

export function choice<const T extends readonly [string, ...string[]]>(...options: T): Kind<T[number]> {
  return {
    schema: z.enum(options) as z.ZodType<T[number]>,
    expects: `one of ${options.join(', ')}`,
    metavar: options.join('|'),
  };
}

export const device: Kind<string> = {
  schema: z.string().regex(/^(auto|cpu|cuda(:[0-9]{1,3})?)$/),
  expects: 'auto, cpu, cuda or cuda:N',
  metavar: 'auto|cpu|cuda[:N]',
};

/** Accepts the given type, or one of `off`, `null` and `none`, all of which mean null. */
export function nullable<T>(inner: Kind<T>): Kind<T | null> {
  const off = z.union([
    z.null(),
    z
      .string()
      .toLowerCase()
      .pipe(z.enum(['off', 'null', 'none']))
      .transform(() => null),
  ]);
  return { ...inner, schema: z.union([off, inner.schema]), expects: `${inner.expects}, or off` };
}

export const list: Kind<readonly string[]> = {
  schema: z.union([
    z.array(z.string().min(1)),
    z.string().transform((value) =>
      value
        .split(',')
        .map((one) => one.trim())
        .filter((one) => one !== ''),
    ),
  ]),
  expects: 'a comma-separated list',
  metavar: 'A,B',
};

/** Maximum number of URLs or addresses in one list. */
const MAX_LISTED = 20;

/** A list of distinct entries, each of which matches `one`. */
function listOf(one: z.ZodType<string>, expects: string, metavar: string): Kind<readonly string[]> {
  return {
    schema: list.schema.refine(
      (all) =>
        all.length <= MAX_LISTED &&
        new Set(all).size === all.length &&
        all.every((entry) => one.safeParse(entry).success),
    ),
    expects: `a comma-separated list of at most ${MAX_LISTED} different ${expects}`,
    metavar,
  };
}

/** HTTP(S) URLs without a user name. */
export const urls = listOf(
  z
    .string()
    .max(2_048)
    .refine(
      (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol) && new URL(value).username === '',
    ),
  'URLs that start with https:// or http:// and contain no user name',
  'URL,URL',
);

export const addresses = listOf(z.email().max(254), 'email addresses', 'ADDRESS,ADDRESS');

const modelName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/);

/** `path` is an absolute path, hf:OWNER/REPO[:WEIGHTS], or an upstream server's URL as configured. */
export interface ModelFile {
  readonly name: string;
  readonly path: string;
}

/** Whether a ModelFile's `path` is the URL of an upstream server. */
export const isUpstreamAddress = (path: string): boolean => /^https?:\/\//.test(path);

const modelFile = z.string().transform((value, context): ModelFile => {
  const equals = value.indexOf('=');
  const name = value.slice(0, Math.max(0, equals)).trim();
  const file = value.slice(equals + 1).trim();
  const wrong =
    equals < 0 || file === ''
      ? `An entry has no ${equals < 0 ? '"="' : 'source after "="'}.`
      : modelName.safeParse(name).success
        ? null
        : `${JSON.stringify(name)} is not a valid model name: use 1 to 128 letters, digits and . _ : / @ -, starting with a letter or digit.`;
  if (wrong !== null) {
    context.addIssue({ code: 'custom', message: wrong });
    return z.NEVER;
  }
  if (file.startsWith('hf:')) return { name, path: file };
  if (isUpstreamAddress(file)) {
    const { error } = upstreamSchema.safeParse({ url: file });
    if (error === undefined) return { name, path: file };
    context.addIssue({ code: 'custom', message: `The URL ${error.issues[0]?.message ?? 'is invalid'}.` });
    return z.NEVER;
  }
  return { name, path: expanded(file) };
});

const distinct: z.core.CheckFn<ModelFile[]> = ({ value, issues }) => {
  const twice = value.find(({ name }, index) => value.findIndex((one) => one.name === name) < index);
  if (twice !== undefined)
    issues.push({ code: 'custom', input: value, message: `The model name ${twice.name} is used twice.` });
};

export const modelFiles: Kind<readonly ModelFile[]> = {
  schema: z
    .union([
      z
        .string()
        .transform((value) => value.split(','))
        .pipe(z.array(modelFile)),
      z.array(modelFile),
      z
        .record(z.string(), z.string())
        .transform((value) => Object.entries(value).map(([name, file]) => `${name}=${file}`))
        .pipe(z.array(modelFile)),
    ])
    .check(distinct),
  expects:
    'NAME=PATH of a GGUF file or a Hugging Face folder, NAME=hf:OWNER/REPO[:QUANTIZATION], or NAME=URL of an upstream server',
  metavar: 'NAME=SOURCE',
  repeatable: true,
};

/** The NAME part of an adapter's public name, MODEL:NAME. */
const ADAPTER_NAME = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$/;

/** Maximum absolute value of an adapter's scale. */
const MAX_ADAPTER_SCALE = 100;
const adapterScale = z.number().min(-MAX_ADAPTER_SCALE).max(MAX_ADAPTER_SCALE);

/** A LoRA adapter. `path` is absolute: a GGUF file or a PEFT folder. */
export interface AdapterFile {
  /** The name in the configuration: NAME or MODEL:NAME. */
  readonly name: string;
  readonly path: string;
  /** Multiplies the adapter's contribution. */
  readonly scale: number;
}

const adapterFile = z.string().transform((value, context): AdapterFile => {
  const equals = value.indexOf('=');
  const name = value.slice(0, Math.max(0, equals)).trim();
  const given = value.slice(equals + 1).trim();
  const [, file = given, factor = '1'] = /^(.+):(-?(?:\d+\.?\d*|\.\d+))$/.exec(given) ?? [];
  const scale = adapterScale.safeParse(Number(factor));
  const wrong =
    equals < 0 || file === ''
      ? `An entry has no ${equals < 0 ? '"="' : 'file after "="'}.`
      : (adapterNameProblem(name) ??
        (scale.success ? null : `The scale ${factor} is not between -${MAX_ADAPTER_SCALE} and ${MAX_ADAPTER_SCALE}.`));
  if (wrong !== null) {
    context.addIssue({ code: 'custom', message: wrong });
    return z.NEVER;
  }
  return { name, path: expanded(file), scale: Number(factor) };
});

/** Returns an error message if `name` is neither NAME nor MODEL:NAME; otherwise null. */
export function adapterNameProblem(name: string): string | null {
  const at = name.lastIndexOf(':');
  const isValid = ADAPTER_NAME.test(name.slice(at + 1)) && (at < 0 || modelName.safeParse(name.slice(0, at)).success);
  return isValid
    ? null
    : `${JSON.stringify(name.slice(0, 256))} is not a valid adapter name: use 1 to 64 letters, digits and . _ / -, starting with a letter or digit, after MODEL: if several models are served.`;
}

/** LoRA adapters. As text: a comma-separated list of NAME=PATH or NAME=PATH:SCALE. NAME may be MODEL:NAME. */
export const adapterFiles: Kind<readonly AdapterFile[]> = {
  schema: z
    .union([
      z
        .string()
        .transform((value) => value.split(','))
        .pipe(z.array(adapterFile)),
      z.array(adapterFile),
    ])
    .check(({ value, issues }) => {
      const twice = value.find(({ name }, index) => value.findIndex((one) => one.name === name) < index);
      if (twice !== undefined)
        issues.push({ code: 'custom', input: value, message: `The adapter name ${twice.name} is used twice.` });
    }),
  expects: 'NAME=PATH or NAME=PATH:SCALE of a GGUF file or a PEFT folder; NAME may be MODEL:NAME',
  metavar: 'NAME=FILE',
  repeatable: true,
};

/** An adapter in the settings of a model, where adapters are keyed by name. */
export interface ModelAdapter {
  readonly path: string;
  readonly scale?: number | undefined;
}

const modelAdapters = z.record(
  z.string().regex(ADAPTER_NAME, 'must be 1 to 64 letters, digits and . _ / -, starting with a letter or digit'),
  z.union([
    z
      .string()
      .min(1)
      .max(4096)
      .transform((path): ModelAdapter => ({ path: expanded(path) })),
    z
      .strictObject({ path: z.string().min(1).max(4096), scale: adapterScale.optional() })
      .transform((one): ModelAdapter => ({ ...one, path: expanded(one.path) })),
  ]),
);

/** Accepts JSON text in place of a JSON value. */
function json<T>(schema: z.ZodType<T>): z.ZodType<T> {
  return z.preprocess((value, context) => {
    if (typeof value !== 'string') return value;
    try {
      return JSON.parse(value) as unknown;
    } catch {
      // The parser's own message is omitted because it quotes the text, which may contain an upstream API key.
      context.addIssue({ code: 'custom', message: 'The value is not valid JSON.' });
      return z.NEVER;
    }
  }, schema) as unknown as z.ZodType<T>;
}

/** The limit exists because one client library stops reading a stream after 65,536 events. */
export const MAX_OUTPUT_TOKENS = 65_535;

/** Range of `models.<id>.max_repeats`. */
export const MIN_REPEATS = 2;
export const MAX_REPEATS = 1000;

/** 31 days. */
export const MAX_IDLE_MINUTES = 44_640;

const limit = z.number().int().min(1).max(1e9).nullable().optional();

/** If undefined, the more general limit applies. Null means unlimited. */
export interface LimitOverride {
  readonly rpm?: number | null | undefined;
  readonly tpm?: number | null | undefined;
  readonly concurrency?: number | null | undefined;
}

/** Limits by organization ID (or *) and by model (or *). */
export const limitOverrides: Kind<Readonly<Record<string, Readonly<Record<string, LimitOverride>>>>> = {
  schema: json(
    z.record(z.string(), z.record(z.string(), z.strictObject({ rpm: limit, tpm: limit, concurrency: limit }))),
  ),
  expects: 'a JSON object: organization → model → rpm, tpm, concurrency',
  metavar: 'JSON',
};

/** See OIDC_ROLES_HELP. */
export const oidcRoles: Kind<OidcRoles | null> = {
  schema: json(oidcRolesSchema.nullable()),
  expects: 'a JSON object with claim and roles',
  metavar: 'JSON',
};

export interface ModelOverride {
  readonly upstream?: Upstream | undefined;
  readonly quantize?: (typeof QUANTIZE_TYPES)[number] | null | undefined;
  readonly draft?: string | null | undefined;
  readonly vision?: string | null | undefined;
  readonly vision_resize?: 'llama.cpp' | 'original' | undefined;
  readonly vision_precision?: 'fast' | 'exact' | undefined;
  readonly context_window?: number | undefined;
  readonly max_output_tokens?: number | undefined;
  readonly max_repeats?: number | null | undefined;
  readonly load?: 'start' | 'demand' | undefined;
  readonly idle_minutes?: number | null | undefined;
  readonly pinned?: boolean | undefined;
  readonly default_effort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max' | undefined;
  readonly display_name?: string | undefined;
  readonly image_input?: 'refuse' | 'note' | undefined;
  readonly embedding_dimensions?: readonly number[] | undefined;
  readonly embedding_prompts?: Readonly<Record<string, string>> | undefined;
  readonly normalize?: boolean | undefined;
  readonly adapters?: Readonly<Record<string, ModelAdapter>> | undefined;
  readonly lifecycle?: 'active' | 'deprecated' | 'retired' | undefined;
  readonly deprecated_at?: string | null | undefined;
  readonly retires_at?: string | null | undefined;
  readonly successor?: string | null | undefined;
  readonly sampling?:
    | Readonly<Partial<Record<'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty', number>>>
    | undefined;
}

/** Documentation of one field, for docs/reference/settings.md. Markdown; `fallback` describes the default. */
export interface FieldHelp {
  readonly expects: string;
  readonly fallback: string;
  readonly help: string;
}

export const MODEL_HELP: Readonly<Record<keyof ModelOverride, FieldHelp>> = {
  context_window: {
    expects: 'an integer from 1',
    fallback: 'the limit in the file, as far as memory allows',
    help: 'Maximum length of prompt and output together, in tokens.',
  },
  max_output_tokens: {
    expects: 'an integer from 1 to 65,535',
    fallback: 'what remains of the context window, at most 65,535',
    help: 'Maximum output of one response, in tokens. Also the default for requests without an output limit.',
  },
  max_repeats: {
    expects: 'an integer from 2 to 1000, or null',
    fallback: 'null',
    help: 'End a response when the same sequence of up to 64 tokens occurs this many times in succession; null = never. The finish reason is `length` (`repetition` in metrics).',
  },
  load: {
    expects: '`start` or `demand`',
    fallback: '`start`',
    help: 'When to load the model: at startup, or on its first request.',
  },
  idle_minutes: {
    expects: 'a number above 0, at most 44,640, or null',
    fallback: 'null',
    help: 'Unload the model after this many minutes without requests; null = never.',
  },
  pinned: {
    expects: 'true or false',
    fallback: 'false',
    help: 'Never unload the model, neither after idle time nor to free memory for another model.',
  },
  default_effort: {
    expects: '`none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`',
    fallback: '`medium`',
    help: 'Reasoning effort for requests that set none. Has no effect on models without reasoning.',
  },
  sampling: {
    expects: 'an object with `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`',
    fallback: 'the recommendation in the model file',
    help: 'Sampling parameters for requests that set none.',
  },
  display_name: {
    expects: '1 to 128 characters',
    fallback: 'the name of the model',
    help: 'Name shown on the dashboard and in the Anthropic model list.',
  },
  image_input: {
    expects: '`refuse` or `note`',
    fallback: '`refuse`',
    help: 'What to do with images for a model without vision: refuse the request, or replace each image with a text note.',
  },
  embedding_dimensions: {
    expects: 'a list of integers from 1',
    fallback: 'the lengths documented for the model family',
    help: 'Shorter vector lengths that embedding requests can select with `dimensions`, for models trained with Matryoshka representation learning.',
  },
  embedding_prompts: {
    expects: 'an object: name → text',
    fallback: '`config_sentence_transformers.json` of a folder',
    help: 'Texts that an embedding model expects before its inputs, such as `{"query": "query: ", "document": "passage: "}`. A request selects one with `prompt_name`; `default` applies to requests that select none.',
  },
  normalize: {
    expects: 'true or false',
    fallback: 'true, unless `modules.json` of a folder lists no such step',
    help: 'Whether embeddings are scaled to length 1.',
  },
  adapters: {
    expects: 'an object: name → path, or name → `{"path", "scale"}`',
    fallback: '',
    help: "LoRA adapters of the model: GGUF files or PEFT folders ([details](../guides/models.md#lora-adapters)). `scale` multiplies an adapter's contribution; it is 1 by default.",
  },
  lifecycle: {
    expects: '`active`, `deprecated` or `retired`',
    fallback: '`active`',
    help: 'Lifecycle stage of the model name ([details](admin-api.md#model-lifecycle)).',
  },
  deprecated_at: {
    expects: 'an RFC 3339 time, or null',
    fallback: 'null',
    help: 'Time at which the model becomes deprecated.',
  },
  retires_at: { expects: 'an RFC 3339 time, or null', fallback: 'null', help: 'Time at which the model is retired.' },
  successor: { expects: 'a model name, or null', fallback: 'null', help: 'Model that clients should use instead.' },
  quantize: {
    expects: '`q8_0`, `q6_k`, `q4_k`, `q4_0`, `fp8`, or null',
    fallback: 'null',
    help: 'Quantize the weights while loading ([details](models.md#quantizing-while-loading-and-drafts)); null = as in the file.',
  },
  draft: {
    expects: 'a model name or a path, or null',
    fallback: 'null',
    help: 'Draft model or EAGLE-3 head for [speculative decoding](speculation.md).',
  },
  vision: {
    expects: 'a path, or null',
    fallback: 'found automatically',
    help: '[Vision](vision.md) file of the model; null = no vision.',
  },
  vision_precision: {
    expects: '`fast` or `exact`',
    fallback: '`fast`',
    help: '[Precision](vision.md#precision) of 16-bit vision encoders.',
  },
  vision_resize: {
    expects: '`llama.cpp` or `original`',
    fallback: '`llama.cpp` for GGUF files, `original` for folders',
    help: '[Image resizing](vision.md#image-resizing).',
  },
  upstream: {
    expects: 'an object',
    fallback: '',
    help: 'Declares an upstream model. See [below](#upstream-settings-of-a-model).',
  },
};

export interface ModelSettings {
  /** Alias → served model. */
  readonly aliases: Readonly<Record<string, string>>;
  /** By model name. */
  readonly overrides: Readonly<Record<string, ModelOverride>>;
}

/** Maximum number of named prompts of an embedding model, and maximum length of each in characters. */
export const MAX_EMBEDDING_PROMPTS = 64;
export const MAX_PROMPT_TEXT = 4_096;

export const embeddingDimensions = z.array(z.number().int().min(1).max(65_536)).max(256).readonly();
export const embeddingPrompts = z
  .record(
    z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, 'must be 1 to 64 letters, digits or _.-'),
    z.string().max(MAX_PROMPT_TEXT),
  )
  .refine((prompts) => Object.keys(prompts).length <= MAX_EMBEDDING_PROMPTS, {
    error: `may have at most ${MAX_EMBEDDING_PROMPTS} entries`,
  });

const modelOverride = z.strictObject({
  upstream: upstreamSchema.optional(),
  quantize: z.enum(QUANTIZE_TYPES).nullable().optional(),
  draft: z.string().min(1).max(4096).nullable().optional(),
  vision: z.string().min(1).max(4096).nullable().optional(),
  vision_resize: z.enum(['llama.cpp', 'original']).optional(),
  vision_precision: z.enum(['fast', 'exact']).optional(),
  context_window: z.number().int().min(1).optional(),
  max_output_tokens: z.number().int().min(1).max(MAX_OUTPUT_TOKENS).optional(),
  max_repeats: z.number().int().min(MIN_REPEATS).max(MAX_REPEATS).nullable().optional(),
  load: z.enum(['start', 'demand']).optional(),
  idle_minutes: z.number().gt(0).max(MAX_IDLE_MINUTES).nullable().optional(),
  pinned: z.boolean().optional(),
  default_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).optional(),
  display_name: z.string().min(1).max(128).optional(),
  image_input: z.enum(['refuse', 'note']).optional(),
  embedding_dimensions: embeddingDimensions.optional(),
  embedding_prompts: embeddingPrompts.optional(),
  normalize: z.boolean().optional(),
  adapters: modelAdapters.optional(),
  lifecycle: z.enum(['active', 'deprecated', 'retired']).optional(),
  deprecated_at: z.iso.datetime({ offset: true }).nullable().optional(),
  retires_at: z.iso.datetime({ offset: true }).nullable().optional(),
  successor: modelName.nullable().optional(),
  sampling: z
    .strictObject({
      temperature: z.number().min(0).max(2),
      top_p: z.number().gt(0).max(1),
      top_k: z.number().int().min(0),
      min_p: z.number().min(0).max(1),
      repetition_penalty: z.number().gt(0).max(2),
    })
    .partial()
    .optional(),
}) as z.ZodType<ModelOverride>;

/** An object that maps model names to their settings and also contains `aliases`. */
export const modelSettings: Kind<ModelSettings> = {
  schema: json(
    z
      .object({ aliases: z.record(modelName, modelName).optional() })
      .catchall(modelOverride)
      .transform(
        ({ aliases = {}, ...overrides }): ModelSettings => ({
          aliases,
          overrides: overrides as Readonly<Record<string, ModelOverride>>,
        }),
      ),
  ),
  expects: 'a JSON object: model → settings, plus aliases → alias → model',
  metavar: 'JSON',
};
